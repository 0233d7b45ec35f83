"""What takes room on a GPU, and whether that leaves room for one more.

A place is taken by existing hardware (ours or not), and by a ledger entry whose hardware is gone, since it will be
re-created there. A lazy vGPU takes room while it exists, and else only its function. The driver's list of creatable
types has the last word; the rules here only explain it.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import chain
from typing import TYPE_CHECKING

from vgpumgr.core.model import snapshot as observed
from vgpumgr.core.placing import free_places
from vgpumgr.wording import Own, say

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from vgpumgr.core.model.functions import Parent, Vgpu
    from vgpumgr.core.model.snapshot import Gpu, HostSnapshot, VgpuType
    from vgpumgr.core.model.vgpu import LedgerEntry
    from vgpumgr.names import PciAddress


@dataclass(frozen=True, slots=True, kw_only=True)
class Occupant:
    """A vGPU that takes room on a GPU: it exists, or will be re-created. `owner` names the VM, or is `foreign`."""

    type: VgpuType | None
    type_name: str
    owner: str
    parent: PciAddress
    there: bool


def occupants(snapshot: HostSnapshot, gpu: Gpu) -> tuple[Occupant, ...]:
    """Everything that takes room on a GPU, existing vGPUs first."""
    awaited = (entry for entry in awaited_on(snapshot, gpu) if not entry.lazy)
    return (*_standing(snapshot, gpu, gpu.vgpus), *_returning(gpu, awaited))


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


def _returning(gpu: Gpu, entries: Iterable[LedgerEntry]) -> Iterator[Occupant]:
    for entry in entries:
        yield Occupant(
            type=gpu.type_of(entry.vgpu.type_id),
            type_name=entry.vgpu.type_name,
            owner=entry.vgpu.vm_name,
            parent=entry.vgpu.parent,
            there=False,
        )


def awaited_on(snapshot: HostSnapshot, gpu: Gpu) -> tuple[LedgerEntry, ...]:
    """The ledger's entries on a GPU whose vGPUs are not there: they will be re-created. Reserved places count, too."""
    by_place = snapshot.entries.on(gpu.uuid)
    places = by_place.keys() - gpu.functions.at.keys()
    reserved = snapshot.reserved_on(gpu) if snapshot.reservations else ()
    if not places:
        return reserved
    return *(entry for place, entries in by_place.items() if place in places for entry in entries), *reserved


def displaced_on(snapshot: HostSnapshot, gpu: Gpu) -> tuple[LedgerEntry, ...]:
    """The entries on whose VFs somebody else made a vGPU of another type. Ours comes back once that one is freed."""
    if gpu.framework != observed.VENDOR_VFIO:
        return ()
    vgpus = gpu.functions.at
    return tuple(
        entry
        for place, entries in snapshot.entries.on(gpu.uuid).items()
        if place in vgpus
        for entry in entries
        if not entry.lazy and not vgpus[place].is_of(entry.vgpu)
    )


@dataclass(frozen=True, kw_only=True)  # no slots: `free` is computed once
class Room:
    """What is taken of a GPU, by anyone: how many vGPUs, of which types, and which of them are still awaited.

    `entered`: the ledger's entries whose vGPUs do not exist now; `awaited`: those of them that take room. An entry of a
    type that the GPU no longer has only takes its function; so does a lazy one, until its VM runs.
    """

    gpu: Gpu
    type_ids: Mapping[int | None, int]
    awaited: tuple[LedgerEntry, ...]
    entered: tuple[LedgerEntry, ...]

    @classmethod
    def of(cls, gpu: Gpu, entered: tuple[LedgerEntry, ...]) -> Room:
        type_ids = gpu.functions.type_ids
        has_size = (entry for entry in entered if not gpu.types or gpu.type_of(entry.vgpu.type_id) is not None)
        awaited = tuple(entry for entry in has_size if not entry.lazy)
        if awaited:
            type_ids = dict(type_ids)
            for entry in awaited:
                type_ids[entry.vgpu.type_id] = type_ids.get(entry.vgpu.type_id, 0) + 1
        return cls(gpu=gpu, type_ids=type_ids, awaited=awaited, entered=entered)

    def and_then(self, entry: LedgerEntry) -> Room:
        """The room once one more vGPU is entered."""
        return Room.of(self.gpu, (*self.entered, entry))

    @property
    def count(self) -> int:
        return sum(self.type_ids.values())

    @property
    def share(self) -> Fraction:
        """The allocated share of the GPU. A vGPU whose type has an unknown maximum counts as the whole GPU."""
        total = Fraction(0)
        for type_id, count in self.type_ids.items():
            vgpu_type = self.gpu.type_of(type_id)
            total += Fraction(count, vgpu_type.max) if vgpu_type and vgpu_type.max else count
        return total

    @cached_property
    def free(self) -> free_places.Free | None:
        """In mixed-size mode: the places that are free once every awaited vGPU is back; None if that is unknown."""
        if self.gpu.places is None:
            return None
        places = [free_places.Returning(entry.vgpu.type_id, entry.vgpu.placement_id) for entry in self.awaited]
        return free_places.after(self.gpu.places, places)

    def taken(self, snapshot: HostSnapshot, parent: Parent) -> Occupant | None:
        """The vGPU that takes a VF: it exists, or will be re-created there. None if the VF is free."""
        vgpus = _standing(snapshot, self.gpu, parent.vgpus)
        entries = (entry for entry in self.entered if entry.vgpu.parent == parent.pci)
        return next(chain(vgpus, _returning(self.gpu, entries)), None)

    def occupants(self, snapshot: HostSnapshot) -> tuple[Occupant, ...]:
        """What takes room on the GPU, or binds it to a size. Existing vGPUs come first."""
        entries = (*self.awaited, *displaced_on(snapshot, self.gpu))
        return (*_standing(snapshot, self.gpu, self.gpu.vgpus), *_returning(self.gpu, entries))


def count_allocated(snapshot: HostSnapshot, gpu: Gpu) -> int:
    """How many vGPUs take room on a GPU."""
    return room_of(snapshot, gpu).count


def room_of(snapshot: HostSnapshot, gpu: Gpu) -> Room:
    return Room.of(gpu, awaited_on(snapshot, gpu))


def known_share(snapshot: HostSnapshot, gpu: Gpu) -> Fraction | None:
    """The allocated share of a GPU; None if its vGPUs or the ledger cannot be read."""
    return None if gpu.framework is None or not gpu.types or snapshot.ledger is None else share_allocated(snapshot, gpu)


def share_allocated(snapshot: HostSnapshot, gpu: Gpu) -> Fraction:
    """The allocated share of a GPU, by the per-GPU maximum of each type on it: 3 of 12 is a quarter.

    MiB are never used: a board's real framebuffer is smaller than its nominal one.
    """
    return room_of(snapshot, gpu).share


def size_conflict(there: Sequence[Occupant], vgpu_type: VgpuType) -> str:
    others = [(one, one.type.size_mib if one.type else None) for one in there]
    others = [(one, size) for one, size in others if size is None or size != vgpu_type.size_mib]
    first, size = others[0]
    whose = Own(f"({owners([one for one, _ in others])})")
    if first.type is None or size is None:
        return say("holds {} {}, whose size is unknown", first.type_name, whose)
    return say(
        "holds {} {}: equal-size mode takes only {} types until it is empty", first.type.short, whose, _gib(size)
    )


def owners(there: Sequence[Occupant]) -> str:
    names = sorted(dict.fromkeys(occupant.owner for occupant in there))
    return " ".join(names) if len(names) <= 3 else f"{' '.join(names[:2])} … {names[-1]}"


def _gib(mib: int) -> str:
    return f"{mib // 1024} GiB" if mib % 1024 == 0 else f"{mib} MiB"
