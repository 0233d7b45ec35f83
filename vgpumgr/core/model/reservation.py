"""A place that is kept for a VM which does not have it yet."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from vgpumgr.core.model.vgpu import PLANNED, LedgerEntry
from vgpumgr.names import VmName

if TYPE_CHECKING:
    from vgpumgr.core.model.vgpu import VgpuSpec
    from vgpumgr.names import GpuUuid


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """For whom a place is reserved, who said so and when, and for how many more seconds of the host's clock.

    `taker`: the VM's UUID and the slot whose vGPU is being made there. It is only kept on a GPU without virtual
    functions: elsewhere the function tells this place from the reservation's others.
    """

    owner: str | None
    by: str
    at: str
    left_s: int = field(compare=False)
    taker: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Reservation:
    """A place that is kept for a vGPU. `vgpu`: the vGPU, which does not exist yet; its slot is the place's number."""

    vgpu: VgpuSpec
    terms: Terms

    @property
    def name(self) -> str:
        return self.vgpu.vm_name

    @property
    def at(self) -> tuple[GpuUuid, int | None]:
        """The place's GPU and the index of its virtual function."""
        return self.vgpu.gpu_uuid, self.vgpu.vf_index

    @property
    def identity(self) -> tuple[VgpuSpec, str | None, str, str, str | None]:
        """Everything but the time that is left, which each reading changes."""
        return self.vgpu, self.terms.owner, self.terms.by, self.terms.at, self.terms.taker

    @property
    def entry(self) -> LedgerEntry:
        """The ledger entry that would take the same room. The name of its VM says that the place is reserved."""
        owner = VmName(f"reserved: {self.name}")
        return LedgerEntry(vgpu=replace(self.vgpu, vm_name=owner), boot="", state=PLANNED)
