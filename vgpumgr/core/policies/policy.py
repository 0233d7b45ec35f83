"""What a placement policy is given, and what it answers: plain values, so that a policy fits in one small file."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol, runtime_checkable

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from vgpumgr.core.driver.modes import Mode
    from vgpumgr.names import HostName, PciAddress


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """A GPU that can take the new vGPU now, as a policy sees it. All that are offered together serve the wish equally.

    `type_name`, `size_mib`: the vGPU's type there and its framebuffer. `framebuffer_mib`: the board's, as its types
    divide it; 0 if unknown. `share`: the part of the GPU that is allocated, 0 to 1. `alike`: how many vGPUs of this
    size it has, `others`: how many of other sizes. `cost_mib`: how much room the usual requests lose on it (cost.py).
    `place`: its position, from 0: by the order of the hosts in the inventory, then by address. The last tie goes to the
    lowest.
    """

    host: HostName
    gpu: PciAddress
    board: str
    mode: Mode | None
    type_name: str
    size_mib: int
    framebuffer_mib: int
    share: float
    alike: int
    others: int
    cost_mib: float
    place: int
    numa_node: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Fleet:
    """What else a policy may weigh.

    `usual`: the sizes in MiB that this site asks for, and how often. `numa_nodes`: those that the VM is pinned to;
    none if it is not pinned.
    """

    usual: Mapping[int, int] = field(default_factory=dict)
    numa_nodes: frozenset[int] = frozenset()


@runtime_checkable
class Policy(Protocol):
    """A rule by which one of several GPUs gets a new vGPU. It must not decide by the name of a host or VM."""

    @property
    def name(self) -> str:
        """How the inventory and `--policy` name it: lower-case letters, digits and hyphens."""

    def order(self, candidates: Sequence[Candidate], fleet: Fleet) -> Sequence[Candidate]:
        """The candidates, the best first. One that is left out is not used."""

    def why(self, candidate: Candidate) -> str:
        """Why a candidate stands where it does, or why it was left out; a phrase for the operator."""


def gib(mib: float) -> str:
    """An amount of memory as a policy's reason shows it: `12 GiB`, `0.6 GiB`."""
    return f"{round(mib / 1024, 1):g} GiB"
