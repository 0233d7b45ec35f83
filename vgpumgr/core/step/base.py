"""What every step has: a verb, the step that undoes it, and its record in the journal and in documents."""

from __future__ import annotations

import abc
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

if TYPE_CHECKING:
    from vgpumgr.core.model.domain_xml import Domain
    from vgpumgr.core.model.snapshot import HostSnapshot
    from vgpumgr.names import GpuUuid, HostName, PciAddress, VmName, VmUuid

__all__ = ["ABSENT", "EMPTY", "ENTER", "PRESENT", "SAME", "AnyStep", "Missing", "OfHost", "OfVm"]

EMPTY: Final = "empty"
SAME: Final = "same"
ENTER: Final = "enter"  # like SAME, but no ledger entry names the vGPU yet (EnterVgpu)
PRESENT: Final = "present"
ABSENT: Final = "absent"
Missing = Literal["empty", "same", "enter"]
"""What a vGPU lacks at its place: the hardware (empty), `made` in its ledger entry (same), or the entry (enter)."""


class ImpossibleStepError(ValueError):
    """The state is not what the step expects; a real host would answer Changed or refuse the write."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AnyStep(abc.ABC):
    """A value that says what to do. Its facts depend on its kind."""

    @property
    @abc.abstractmethod
    def verb(self) -> str: ...

    @abc.abstractmethod
    def inverse(self) -> AnyStep:
        """The step that undoes this one; itself if nothing does (an entry in the ledger, a reset)."""

    @abc.abstractmethod
    def facts(self) -> dict[str, object]:
        """What `record` has besides the verbs."""

    def record(self) -> dict[str, object]:
        """The step as plain values, for the journal and for `-o json`."""
        return {"verb": self.verb, **self.facts(), "inverse": self.inverse().verb}

    @property
    def changed_vm(self) -> VmUuid | None:
        """The VM whose definition or running state the step changes through libvirt; None if there is none."""
        return None

    @property
    def written_gpu(self) -> GpuUuid | None:
        """The UUID of the GPU that the step writes to; None if there is none."""
        return None

    @property
    def writes_ledger(self) -> bool:
        """Whether the host's ledger must be writable for the step."""
        return False

    @property
    def destroys(self) -> bool:
        """Whether the step removes existing hardware. Guards and confirmations count such steps."""
        return False

    @property
    def is_final(self) -> bool:
        """Whether nothing undoes the step."""
        return False

    @property
    def is_apart(self) -> bool:
        """Whether an undo that fails at this step goes on: every evacuated vGPU is re-created, whatever else fails."""
        return False

    @property
    def is_grave(self) -> bool:
        """Whether the step needs confirmation: it removes a vGPU, hostdev or claim, or changes a running VM or GPU."""
        return False


@dataclass(frozen=True, slots=True, kw_only=True)
class OfVm(AnyStep):
    """A step on a VM's definition or running state, done by libvirt."""

    vm: VmUuid
    vm_name: VmName

    @property
    def changed_vm(self) -> VmUuid:
        return self.vm

    @abc.abstractmethod
    def after(self, domain: Domain) -> Domain:
        """The VM after the step. Raises ImpossibleStepError."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OfGpu(AnyStep):
    """A step on a whole GPU; `gpu` is its address."""

    host: HostName
    gpu_uuid: GpuUuid
    gpu: PciAddress

    @property
    def written_gpu(self) -> GpuUuid:
        return self.gpu_uuid


@dataclass(frozen=True, slots=True, kw_only=True)
class OfHost(AnyStep):
    """A step on a host's ledger or files, which no driver can refuse.

    `expect` of such a step: what must be there now (None: nothing). An undo restores it.
    """

    host: HostName

    @abc.abstractmethod
    def inverse(self) -> OfHost: ...

    @abc.abstractmethod
    def after(self, snapshot: HostSnapshot) -> HostSnapshot:
        """The host after the step. Raises ImpossibleStepError."""
