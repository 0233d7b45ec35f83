"""A vGPU's one identity, and its owner and place, as the ledger and the steps name them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Final, Literal, NamedTuple, Protocol

from vgpumgr.core.driver import modes

if TYPE_CHECKING:
    from vgpumgr.core.driver.modes import Mode
    from vgpumgr.core.model.mig import MigPlace, OurInstance
    from vgpumgr.names import GpuUuid, MdevUuid, PciAddress, Slot, VmName, VmUuid


EntryState = Literal["planned", "made", "leaving"]
PLANNED: Final = "planned"
MADE: Final = "made"
LEAVING: Final = "leaving"

ASLEEP: Final = "asleep"  # the boot of a lazy entry without its vGPU

Whose = Literal["ours", "foreign"]
OURS: Final = "ours"
FOREIGN: Final = "foreign"


@dataclass(frozen=True, slots=True)
class Mdev:
    """A mediated device: its UUID identifies it, wherever it is."""

    uuid: MdevUuid

    def __str__(self) -> str:
        return self.uuid

    @property
    def text(self) -> str:
        return f"mdev {self.uuid}"


@dataclass(frozen=True, slots=True)
class Vf:
    """A virtual function with a type set (vendor-vfio), named by its address only; the next vGPU there has the same."""

    pci: PciAddress

    def __str__(self) -> str:
        return self.pci

    @property
    def text(self) -> str:
        return f"VF {self.pci}"


Device = Mdev | Vf


@lru_cache(maxsize=4096)  # planning a host asks for the same few dozen a thousand times
def device_of(uuid: MdevUuid | None, parent: PciAddress) -> Device:
    """The identity of a vGPU: the mdev with this UUID, or (None) this PCI function."""
    return Vf(parent) if uuid is None else Mdev(uuid)


class OnGpu(Protocol):
    """A vGPU that exists, or one of ours."""

    @property
    def uuid(self) -> MdevUuid | None: ...
    @property
    def vf_index(self) -> int | None: ...


def at(vgpu: OnGpu) -> MdevUuid | int | None:
    """A vGPU's place on its GPU: the mdev's UUID, or else its VF's index."""
    return vgpu.vf_index if vgpu.uuid is None else vgpu.uuid


class ExactPlace(NamedTuple):
    """Where a vGPU lies: its GPU, and where in that: its placement id in mixed-size mode, the first memory slice of its
    GPU instance in MIG mode, None in equal-size mode.
    """

    gpu_uuid: GpuUuid
    start: int | None

    def holds(self, other: ExactPlace) -> bool:
        """Whether a vGPU at `other` lies in this place. A place without a start is the whole GPU."""
        return self.gpu_uuid == other.gpu_uuid and self.start in (None, other.start)


@dataclass(frozen=True, slots=True, kw_only=True)
class VgpuSpec:
    """A vGPU of ours: its owner, place and type. `device` is derived, so that it never contradicts `parent`.

    A GPU is identified by its UUID and a VF by its index; `gpu` and `parent` are their addresses. `placement_id`: its
    intended place in the framebuffer of a GPU in mixed-size mode, else None; the actual one is in the snapshot. `mig`:
    its intended GPU instance; None if it is not MIG-backed.
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
    placement_id: int | None = None
    mig: MigPlace | None = None

    @property
    def device(self) -> Device:
        return device_of(self.uuid, self.parent)

    @property
    def made_in(self) -> Mode:
        """The mode of its GPU when its place was chosen."""
        return modes.made_in(self.placement_id, self.mig)

    @property
    def exact_place(self) -> ExactPlace:
        return ExactPlace(self.gpu_uuid, self.mig.start if self.mig else self.placement_id)

    @property
    def key(self) -> tuple[VmUuid, Slot, int]:
        """The key that no two entries of a ledger share."""
        return self.vm, self.slot, self.generation

    def supersedes(self, old: VgpuSpec) -> bool:
        """Whether it is a later vGPU of the same slot on the same function. Its entry replaces the older one's.

        Not if one of the two is an mdev and the other is not: an undo gives the VM the older device back.
        """
        mine = self.vm, self.slot, self.gpu_uuid, self.vf_index, self.uuid is None
        same = mine == (old.vm, old.slot, old.gpu_uuid, old.vf_index, old.uuid is None)
        return same and self.vf_index is not None and self.generation != old.generation


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerEntry:
    """A vGPU that is ours according to the host's ledger. `boot`: the boot in which the entry was written.

    The vGPU's addresses and type id are the current ones (another card in the host renumbers buses). Addresses stay as
    written if the place does not exist. `renumbered`: the ledger has another type id, which the driver no longer uses
    for that type. `lazy`: the vGPU exists only while its VM runs; libvirt's hook makes and frees it (docs/lazy.md).
    """

    vgpu: VgpuSpec
    boot: str
    state: EntryState
    renumbered: bool = False
    lazy: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class InstanceEntry:
    """A GPU instance that is ours according to the host's ledger. It does not outlive `boot`, the boot of its entry."""

    instance: OurInstance
    boot: str
    state: EntryState
