"""Steps that write an option file, a cordon or a reservation of a host.

write_modprobe  one file of /etc/modprobe.d                   ← write_modprobe
set_cordon      a cordon, in the ledger                       ← set_cordon
set_reservation the reservation of one place, in the ledger   ← set_reservation
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from vgpumgr.core.driver.modprobe import ModprobeFile
from vgpumgr.core.model.reservation import Reservation
from vgpumgr.core.step.base import ImpossibleStepError, OfHost

if TYPE_CHECKING:
    from vgpumgr.core.model.reservation import Terms
    from vgpumgr.core.model.snapshot import Cordon, HostSnapshot
    from vgpumgr.core.model.vgpu import VgpuSpec
    from vgpumgr.names import GpuUuid, PciAddress

__all__ = ["SetCordon", "SetReservation", "WriteModprobe"]


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteModprobe(OfHost):
    """Write one file of module options. `text` None: remove the file; `expect` None: there is none now."""

    path: str
    text: str | None
    expect: str | None

    verb = "write_modprobe"
    is_apart = True

    def inverse(self) -> WriteModprobe:
        return replace(self, text=self.expect, expect=self.text)

    def facts(self) -> dict[str, object]:
        return {"host": self.host, "path": self.path}

    def after(self, snapshot: HostSnapshot) -> HostSnapshot:
        files = {file.path: file.text for file in snapshot.modprobe or ()}
        if files.get(self.path) != self.expect:
            raise ImpossibleStepError(f"{self.path} is not as the step expects")
        files.pop(self.path, None)
        if self.text is not None:
            files[self.path] = self.text
        modprobe = tuple(ModprobeFile(path=path, text=text) for path, text in sorted(files.items()))
        return replace(snapshot, modprobe=modprobe)


@dataclass(frozen=True, slots=True, kw_only=True)
class SetCordon(OfHost):
    """Cordon a GPU, one of its functions, or the host (all of these None). `cordon` None ends the existing cordon."""

    gpu_uuid: GpuUuid | None
    gpu: PciAddress | None
    vf_index: int | None = None
    vf: PciAddress | None = None
    cordon: Cordon | None
    expect: Cordon | None

    verb = "set_cordon"
    writes_ledger = True

    def inverse(self) -> SetCordon:
        return replace(self, cordon=self.expect, expect=self.cordon)

    def facts(self) -> dict[str, object]:
        place = {"host": self.host, "gpu": self.gpu, "vf": self.vf}
        return {**place, "reason": None if self.cordon is None else self.cordon.reason}

    def after(self, snapshot: HostSnapshot) -> HostSnapshot:
        place = self.gpu_uuid, self.vf_index
        if snapshot.cordon_at(*place) != self.expect:
            raise ImpossibleStepError("the cordon is not as the step expects")
        others = tuple(cordon for cordon in snapshot.cordons if (cordon.gpu_uuid, cordon.vf_index) != place)
        new = () if self.cordon is None else (self.cordon,)
        return replace(snapshot, ledger_file=True, cordons=(*others, *new))


@dataclass(frozen=True, slots=True, kw_only=True)
class SetReservation(OfHost):
    """Reserve the place of a vGPU on these terms. `terms` None ends its reservation; an undo restores `before`."""

    vgpu: VgpuSpec
    terms: Terms | None
    before: Terms | None

    verb = "set_reservation"
    writes_ledger = True

    def inverse(self) -> SetReservation:
        return replace(self, terms=self.before, before=self.terms)

    def facts(self) -> dict[str, object]:
        vgpu = self.vgpu
        return {
            "host": self.host,
            "reservation": vgpu.vm_name,
            "slot": vgpu.slot,
            "gpu": vgpu.gpu,
            "type_name": vgpu.type_name,
            "for": None if self.terms is None else self.terms.owner,
        }

    def after(self, snapshot: HostSnapshot) -> HostSnapshot:
        others = tuple(one for one in snapshot.reservations if one.vgpu.key != self.vgpu.key)
        new = () if self.terms is None else (Reservation(vgpu=self.vgpu, terms=self.terms),)
        return replace(snapshot, ledger_file=True, reservations=(*others, *new))
