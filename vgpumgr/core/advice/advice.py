"""Advice as values: each about one vGPU of ours, with what says so, what it frees, and the command that does it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from vgpumgr.core.model.snapshot import Gpu, VgpuType
    from vgpumgr.core.model.view import Finding
    from vgpumgr.core.report.listing import VgpuRow
    from vgpumgr.core.usage.usage_rows import UsageRow
    from vgpumgr.names import OwnerName, VmName, VmUuid

Kind = Literal["never-used", "off", "idle", "too-small", "too-big", "empties-gpu"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Held:
    """A vGPU of ours with its use in the window. `runs`: its VM runs now. `crowd`: the mean SM use in percent of all
    vGPUs on its GPU together, over the window; what was not measured counts as none.
    """

    row: VgpuRow
    gpu: Gpu
    type: VgpuType
    runs: bool
    use: UsageRow
    crowd: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What a rule says of a vGPU. `to`: the type to have instead; None: free it, move it, or no type would do."""

    kind: Kind
    why: str
    to: VgpuType | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Gain:
    """What is free afterwards: `more` vGPUs of `type_name` fit on the host, as `capacity` counts them.

    `mib`: the framebuffer that the vGPU gives back; `fgpu`: the same in the site's unit, None if it has none.
    """

    mib: int
    fgpu: float | None
    type_name: str
    more: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Advice:
    """One piece of advice. `use`: the samples behind it; None: it rests on the host alone. `gain` None: nothing becomes
    free. `first`: what a person has to do before `command`; None: nothing.
    """

    verdict: Verdict
    row: VgpuRow
    owner: OwnerName | None
    command: str
    use: UsageRow | None = None
    gain: Gain | None = None
    first: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class HostAdvice:
    """All about one host. `findings`: why there is none about a vGPU. `vms`: the names and UUIDs of its VMs."""

    advice: tuple[Advice, ...]
    findings: tuple[Finding, ...]
    vms: tuple[tuple[VmName, VmUuid], ...]


def known(use: UsageRow) -> float:
    """The part of the window, 0 to 1, for which load and framebuffer are known, or the VM was off."""
    return min(1.0, min(use.coverage, use.engines["sm"].coverage) + use.off)


def peak(use: UsageRow) -> int | None:
    """The highest load of any engine in any sample, in percent of the whole GPU; None if none was measured."""
    return max((one.max for one in use.engines.values() if one.max is not None), default=None)
