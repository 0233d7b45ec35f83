"""What takes room on a GPU, and whether that leaves room for one more.

A place is taken by existing hardware (ours or not), and by a ledger entry whose hardware is gone, since it will be
re-created there. The driver's list of creatable types has the last word; the rules here only explain it.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from itertools import chain
from typing import TYPE_CHECKING

from vgpumgr.core.driver import admission
from vgpumgr.core.model import snapshot as observed
from vgpumgr.core.placing import free_places, instances
from vgpumgr.core.placing.no_place import Cause, Refusal

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from vgpumgr.core.model.functions import Parent, Vgpu
    from vgpumgr.core.model.snapshot import Gpu, HostSnapshot, VgpuType
    from vgpumgr.core.model.vgpu import LedgerEntry, VgpuSpec
    from vgpumgr.names import PciAddress


@dataclass(frozen=True, slots=True, kw_only=True)
class Occupant:
    """What takes room on a GPU: a vGPU that exists, or one that will be re-created. `owner` names the VM, or is `foreign`."""

    type: VgpuType | None
    type_name: str
    owner: str
    parent: PciAddress
    there: bool


def occupants(snapshot: HostSnapshot, gpu: Gpu) -> tuple[Occupant, ...]:
    """Everything that takes room on a GPU, existing vGPUs first."""
    return (*_standing(snapshot, gpu, gpu.vgpus), *_returning(gpu, awaited_on(snapshot, gpu)))


def _standing(snapshot: HostSnapshot, gpu: Gpu, vgpus: Iterable[Vgpu]) -> Iterator[Occupant]:
    for vgpu in vgpus:
        entry = snapshot.entry_of(gpu, vgpu)
        yield Occupant(
            type=gpu.type_of(vgpu.type_id),
            type_name=vgpu.type_name or "?",
            owner=entry.vgpu.vm_name if entry and vgpu.is_of(entry.vgpu) else "foreign",
            parent=vgpu.parent,
            there=True,
        )


def _returning(gpu: Gpu, awaited: Iterable[LedgerEntry]) -> Iterator[Occupant]:
    for entry in awaited:
        yield Occupant(
            type=gpu.type_of(entry.vgpu.type_id),
            type_name=entry.vgpu.type_name,
            owner=entry.vgpu.vm_name,
            parent=entry.vgpu.parent,
            there=False,
        )


def awaited_on(snapshot: HostSnapshot, gpu: Gpu) -> tuple[LedgerEntry, ...]:
    """The ledger's entries on a GPU whose vGPUs are not there: they will be re-created.

    A virtual function on which somebody made another type keeps what it had reserved: once that one is freed, ours comes back.
    """
    entered, there = snapshot.entries.on(gpu.uuid), gpu.functions.at
    missing = entered.keys() - there.keys()
    if gpu.framework == observed.VENDOR_VFIO:
        missing |= {
            place for place, entries in entered.items() if place in there and not there[place].is_of(entries[-1].vgpu)
        }
    if not missing:
        return ()
    return tuple(entry for place, entries in entered.items() if place in missing for entry in entries)


@dataclass(frozen=True, kw_only=True)  # no slots: `free` is computed once
class Room:
    """What is taken of a GPU, whoever has it: how many vGPUs, of which types, and which of them are still awaited.

    `entered`: those that the ledger has and that are not there. Of them, one whose type the GPU no longer has is not awaited: it
    keeps its function, but has no size.
    """

    gpu: Gpu
    type_ids: Mapping[int | None, int]
    awaited: tuple[LedgerEntry, ...]
    entered: tuple[LedgerEntry, ...]

    @classmethod
    def of(cls, gpu: Gpu, entered: tuple[LedgerEntry, ...]) -> Room:
        type_ids: Mapping[int | None, int] = gpu.functions.type_ids
        awaited = tuple(entry for entry in entered if not gpu.types or gpu.type_of(entry.vgpu.type_id) is not None)
        if awaited:
            type_ids = Counter(type_ids) + Counter(entry.vgpu.type_id for entry in awaited)
        return cls(gpu=gpu, type_ids=type_ids, awaited=awaited, entered=entered)

    @property
    def count(self) -> int:
        return sum(self.type_ids.values())

    @property
    def share(self) -> Fraction:
        """An unknown maximum counts as the whole GPU."""
        total = Fraction(0)
        for type_id, count in self.type_ids.items():
            vgpu_type = self.gpu.type_of(type_id)
            total += Fraction(count, vgpu_type.max) if vgpu_type and vgpu_type.max else count
        return total

    def refusal(self, snapshot: HostSnapshot, vgpu_type: VgpuType) -> Refusal | None:
        """Why the GPU takes no more of a type, on any of its functions."""
        if self.gpu.mode == observed.MIXED_SIZE:
            return self._refusal_mixed(snapshot, vgpu_type)
        if self.gpu.mode == observed.MIG:
            home = instances.find_home(snapshot, self.gpu, vgpu_type)
            return home if isinstance(home, Refusal) else None
        sizes = {self.gpu.size_of(type_id) for type_id in self.type_ids}
        count = self.count
        match admission.refusal(vgpu_type.size_mib, vgpu_type.max, sizes, count):
            case admission.Refusal.OTHER_SIZE:
                return Refusal(Cause.OTHER_SIZE, _size_conflict(self._occupants(snapshot), vgpu_type))
            case admission.Refusal.FULL:
                owners = _owners(self._occupants(snapshot))
                return Refusal(Cause.FULL, f"full: {count} of {vgpu_type.max} ({owners})")
            case None:
                return None

    @cached_property
    def free(self) -> free_places.Free | None:
        """In mixed-size mode: the places that are free once every awaited vGPU is back; None if that is unknown."""
        if self.gpu.places is None:
            return None
        awaited = [free_places.Returning(entry.vgpu.type_id, entry.vgpu.placement_id) for entry in self.awaited]
        return free_places.after(self.gpu.places, awaited)

    def _refusal_mixed(self, snapshot: HostSnapshot, vgpu_type: VgpuType) -> Refusal | None:
        if self.gpu.places is None:
            return Refusal(Cause.UNREADABLE, "is in mixed-size mode, and its free places cannot be read")
        if vgpu_type.id in (self.free or {}):
            return None
        owners = _owners(self._occupants(snapshot))
        return Refusal(Cause.FULL, f"no place for {vgpu_type.short} is free in mixed-size mode ({owners or 'empty'})")

    def taken(self, snapshot: HostSnapshot, parent: Parent) -> Occupant | None:
        """What has a VF."""
        there = _standing(snapshot, self.gpu, parent.vgpus)
        entered = (entry for entry in self.entered if entry.vgpu.parent == parent.pci)
        return next(chain(there, _returning(self.gpu, entered)), None)

    def _occupants(self, snapshot: HostSnapshot) -> tuple[Occupant, ...]:
        return (*_standing(snapshot, self.gpu, self.gpu.vgpus), *_returning(self.gpu, self.awaited))


def count_allocated(snapshot: HostSnapshot, gpu: Gpu) -> int:
    """How many vGPUs take room on a GPU."""
    return room_of(snapshot, gpu).count


def room_of(snapshot: HostSnapshot, gpu: Gpu) -> Room:
    return Room.of(gpu, awaited_on(snapshot, gpu))


def placed_again(snapshot: HostSnapshot, ours: VgpuSpec) -> VgpuSpec:
    """A vGPU of ours whose hardware is gone, with the placement id that it is re-created at: its own, if that is free.

    If it is not, another one: if possible, none that another missing vGPU comes back to. In MIG mode the same of its GPU instance.
    """
    gpu = snapshot.gpu_by_uuid(ours.gpu_uuid)
    place = None
    if gpu is not None and gpu.mode == observed.MIG:
        vgpu_type, entry = gpu.type_of(ours.type_id), snapshot.entries.named(ours.key)
        home = instances.find_home(snapshot, gpu, vgpu_type, before=ours.mig, but=entry) if vgpu_type else None
        return replace(ours, mig=home.place) if isinstance(home, instances.Home) else ours
    if gpu is not None and gpu.mode == observed.MIXED_SIZE:
        others = tuple(entry for entry in awaited_on(snapshot, gpu) if entry.vgpu.key != ours.key)
        for free in (gpu.places, Room.of(gpu, others).free):
            found = free_places.back(free or {}, ours.type_id, ours.placement_id)
            place = place if found is None else found
            if place == ours.placement_id:
                break
    return ours if place == ours.placement_id else replace(ours, placement_id=place)


def known_share(snapshot: HostSnapshot, gpu: Gpu) -> Fraction | None:
    """The allocated share of a GPU; None if its vGPUs or the ledger cannot be read."""
    return None if gpu.framework is None or not gpu.types or snapshot.ledger is None else share_allocated(snapshot, gpu)


def share_allocated(snapshot: HostSnapshot, gpu: Gpu) -> Fraction:
    """The allocated share of a GPU, by the per-GPU maximum of each type on it: 3 of 12 is a quarter.

    MiB are never used: a board's real framebuffer is smaller than its nominal one.
    """
    return room_of(snapshot, gpu).share


def _size_conflict(there: Sequence[Occupant], vgpu_type: VgpuType) -> str:
    others = [(one, one.type.size_mib if one.type else None) for one in there]
    others = [(one, size) for one, size in others if size is None or size != vgpu_type.size_mib]
    first, size = others[0]
    owners = _owners([one for one, _ in others])
    if first.type is None or size is None:
        return f"holds {first.type_name} ({owners}), whose size is unknown"
    return f"holds {first.type.short} ({owners}): equal-size mode takes only {_gib(size)} types until it is empty"


def _owners(there: Sequence[Occupant]) -> str:
    names = sorted(dict.fromkeys(occupant.owner for occupant in there))
    return " ".join(names) if len(names) <= 3 else f"{' '.join(names[:2])} … {names[-1]}"


def _gib(mib: int) -> str:
    return f"{mib // 1024} GiB" if mib % 1024 == 0 else f"{mib} MiB"
