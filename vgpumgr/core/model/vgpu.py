"""Which vGPU: its one identity, and whose it is and where, as the ledger and the steps name it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

if TYPE_CHECKING:
    from vgpumgr.names import GpuUuid, MdevUuid, PciAddress, Slot, VmName, VmUuid


EntryState = Literal["planned", "made", "leaving"]
PLANNED: Final = "planned"
MADE: Final = "made"
LEAVING: Final = "leaving"

Whose = Literal["ours", "foreign"]
OURS: Final = "ours"
FOREIGN: Final = "foreign"


@dataclass(frozen=True, slots=True)
class Mdev:
    """A mediated device: its UUID is its own, wherever it is."""

    uuid: MdevUuid

    def __str__(self) -> str:
        return self.uuid

    @property
    def text(self) -> str:
        return f"mdev {self.uuid}"


@dataclass(frozen=True, slots=True)
class Vf:
    """A virtual function with a type set (vendor-vfio): it has no name but its address, which the next vGPU there has too."""

    pci: PciAddress

    def __str__(self) -> str:
        return self.pci

    @property
    def text(self) -> str:
        return f"VF {self.pci}"


Device = Mdev | Vf


def device_of(uuid: MdevUuid | None, parent: PciAddress) -> Device:
    """The identity of a vGPU that has this UUID, or none, on this PCI function."""
    return Vf(parent) if uuid is None else Mdev(uuid)


@dataclass(frozen=True, slots=True, kw_only=True)
class VgpuSpec:
    """A vGPU of ours: whose it is, where it is, what it is. `device` is derived, so that it never contradicts `parent`.

    A GPU is known by its UUID and a VF by its index; `gpu` and `parent` are their addresses.
    """

    vm: VmUuid
    vm_name: VmName
    slot: Slot
    generation: int
    gpu_uuid: GpuUuid
    gpu: PciAddress
    vf_index: int | None
    parent: PciAddress
    uuid: MdevUuid | None
    type_id: int
    type_name: str

    @property
    def device(self) -> Device:
        return device_of(self.uuid, self.parent)

    @property
    def key(self) -> tuple[VmUuid, Slot, int]:
        """What no two entries of a ledger share."""
        return self.vm, self.slot, self.generation


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerEntry:
    """What the host's ledger says is ours. state: planned, made or leaving; boot: the boot it was written in.

    The vGPU's addresses are those of now, not those of the day the entry was written (another card in the host renumbers
    buses). They stay as written where the place is not there.
    """

    vgpu: VgpuSpec
    boot: str
    state: EntryState
