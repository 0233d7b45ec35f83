"""What a GPU takes in its mode, how many more, and where. One interface, with a class for each mode."""

from __future__ import annotations

import abc
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from vgpumgr.core.driver import admission
from vgpumgr.core.driver.modes import EQUAL_SIZE, MIG, MIXED_SIZE
from vgpumgr.core.placing import free_places, instances, room
from vgpumgr.core.placing.no_place import Cause, Refusal
from vgpumgr.wording import Own, say

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from vgpumgr.core.driver.modes import Mode
    from vgpumgr.core.model.functions import Parent
    from vgpumgr.core.model.mig import MigPlace
    from vgpumgr.core.model.snapshot import Gpu, HostSnapshot, VgpuType
    from vgpumgr.core.model.vgpu import LedgerEntry, VgpuSpec
    from vgpumgr.core.placing.instances import Home
    from vgpumgr.core.placing.room import Room


class Division(abc.ABC):
    """What a GPU in one mode takes, and where. What the driver does in that mode is in driver/modes.py.

    Unless a mode says otherwise, no type has a limit of its own, and the driver chooses where a vGPU lies.
    """

    @abc.abstractmethod
    def refusal(self, snapshot: HostSnapshot, there: Room, vgpu_type: VgpuType) -> Refusal | None:
        """Why the GPU takes no more of a type, on any of its functions."""

    def refusal_on(self, snapshot: HostSnapshot, there: Room, parent: Parent, vgpu_type: VgpuType) -> Refusal | None:  # noqa: ARG002 -- as Mig
        """Why a function does not take the type. Only for a free function whose offers can be read."""
        return _not_offered(there, parent, vgpu_type)

    @abc.abstractmethod
    def left(self, snapshot: HostSnapshot, there: Room, vgpu_type: VgpuType, offered: int) -> int:
        """How many more vGPUs of a type the GPU takes. `offered`: how many its functions would take."""

    @abc.abstractmethod
    def counts(self, snapshot: HostSnapshot, there: Room, vgpu_types: Sequence[VgpuType]) -> list[int]:
        """How many vGPUs of each of these types alone the GPU has room for, however many functions are free."""

    def counts_beside(
        self, snapshot: HostSnapshot, there: Room, entry: LedgerEntry, vgpu_types: Sequence[VgpuType]
    ) -> list[int]:
        """The same as `counts`, on a GPU that also has the vGPU of `entry`, which is to be made."""
        return self.counts(snapshot, there.and_then(entry), vgpu_types)

    def most(self, vgpu_type: VgpuType) -> int | None:  # noqa: ARG002 -- as EqualSize
        """The most vGPUs of a type on the GPU as a whole; None if the mode sets no such limit."""
        return None

    def placement_id(self, snapshot: HostSnapshot, gpu: Gpu, vgpu_type: VgpuType, *, before: int | None) -> int | None:  # noqa: ARG002 -- as MixedSize
        """The placement id for one more vGPU: `before` if that is free. None if none is free, or the driver chooses."""
        return None

    def home(self, snapshot: HostSnapshot, gpu: Gpu, vgpu_type: VgpuType, *, before: MigPlace | None) -> Home | None:  # noqa: ARG002 -- as Mig
        """The GPU instance for one more vGPU: `before` if that is free. None if there is none."""
        return None

    @abc.abstractmethod
    def again(self, snapshot: HostSnapshot, gpu: Gpu, ours: VgpuSpec) -> VgpuSpec:
        """A vGPU of ours whose hardware is gone, with the place at which it is re-created: its own, if that is free.

        If its own is taken, it gets another place: if possible, one to which no other missing vGPU comes back.
        """

    @abc.abstractmethod
    def offers(self, gpu: Gpu) -> tuple[Mapping[int, int], ...] | None:
        """For each function of the GPU: how many of each type (by id) it would offer. None if that is unknown."""


class EqualSize(Division):
    """As many vGPUs of one size as the type's maximum says."""

    def refusal(self, snapshot: HostSnapshot, there: Room, vgpu_type: VgpuType) -> Refusal | None:
        match admission.refusal(vgpu_type.size_mib, vgpu_type.max, _sizes(snapshot, there), there.count):
            case admission.Refusal.OTHER_SIZE:
                return Refusal(Cause.OTHER_SIZE, room.size_conflict(there.occupants(snapshot), vgpu_type))
            case admission.Refusal.FULL:
                owners = room.owners(there.occupants(snapshot))
                return Refusal(Cause.FULL, say("full: {} of {} {}", there.count, vgpu_type.max, Own(f"({owners})")))
            case None:
                return _beyond_memory(there, vgpu_type)

    def left(self, _snapshot: HostSnapshot, there: Room, vgpu_type: VgpuType, offered: int) -> int:
        return admission.left(offered, vgpu_type.max, there.count)

    def counts(self, snapshot: HostSnapshot, there: Room, vgpu_types: Sequence[VgpuType]) -> list[int]:
        sizes, count = _sizes(snapshot, there), there.count
        return [
            (kind.max or 0) - count if admission.refusal(kind.size_mib, kind.max, sizes, count) is None else 0
            for kind in vgpu_types
        ]

    def most(self, vgpu_type: VgpuType) -> int | None:
        return vgpu_type.max

    def again(self, _snapshot: HostSnapshot, _gpu: Gpu, ours: VgpuSpec) -> VgpuSpec:
        return ours if ours.placement_id is None else replace(ours, placement_id=None)

    def offers(self, gpu: Gpu) -> tuple[Mapping[int, int], ...]:
        number, sizes = len(gpu.functions.vgpus), gpu.sizes
        counts = {
            vgpu_type.id: most - number
            for vgpu_type in (gpu.types or {}).values()
            if admission.refusal(vgpu_type.size_mib, most := vgpu_type.max or 0, sizes, number) is None
        }
        on_vf, nothing = dict.fromkeys(counts, 1), dict[int, int]()
        return tuple(
            counts if parent.vf_index is None else nothing if parent.vgpus else on_vf for parent in gpu.functions
        )


class MixedSize(Division):
    """Sizes side by side, each vGPU at a place of its own."""

    def refusal(self, snapshot: HostSnapshot, there: Room, vgpu_type: VgpuType) -> Refusal | None:
        if there.gpu.places is None:
            return Refusal(Cause.UNREADABLE, "is in mixed-size mode, and its free places cannot be read")
        if vgpu_type.id in (there.free or {}):
            return _beyond_memory(there, vgpu_type)
        owners = room.owners(there.occupants(snapshot)) or "empty"
        text = say("no place for {} is free in mixed-size mode {}", vgpu_type.short, Own(f"({owners})"))
        return Refusal(Cause.FULL, text)

    def left(self, _snapshot: HostSnapshot, there: Room, vgpu_type: VgpuType, offered: int) -> int:
        return min(offered, free_places.count(there.free or {}, vgpu_type.id))

    def counts(self, _snapshot: HostSnapshot, there: Room, vgpu_types: Sequence[VgpuType]) -> list[int]:
        return [free_places.count(there.free or {}, kind.id) for kind in vgpu_types]

    def placement_id(self, snapshot: HostSnapshot, gpu: Gpu, vgpu_type: VgpuType, *, before: int | None) -> int | None:
        return free_places.back(room.room_of(snapshot, gpu).free or {}, vgpu_type.id, before)

    def again(self, snapshot: HostSnapshot, gpu: Gpu, ours: VgpuSpec) -> VgpuSpec:
        others = tuple(entry for entry in room.awaited_on(snapshot, gpu) if entry.vgpu.key != ours.key)
        place = None
        for free in (gpu.places, room.Room.of(gpu, others).free):
            free_place = free_places.back(free or {}, ours.type_id, ours.placement_id)
            place = place if free_place is None else free_place
            if place == ours.placement_id:
                return ours
        return replace(ours, placement_id=place)

    def offers(self, gpu: Gpu) -> tuple[Mapping[int, int], ...] | None:
        if gpu.places is None:
            return None
        free, nothing = dict.fromkeys(gpu.places, 1), dict[int, int]()
        return tuple(nothing if parent.vgpus else free for parent in gpu.functions)


class Mig(Division):
    """vGPUs in GPU instances, one or several in each."""

    def refusal(self, snapshot: HostSnapshot, there: Room, vgpu_type: VgpuType) -> Refusal | None:
        home = instances.find_home(snapshot, there.gpu, vgpu_type)
        return home if isinstance(home, Refusal) else None

    def refusal_on(self, snapshot: HostSnapshot, there: Room, parent: Parent, vgpu_type: VgpuType) -> Refusal | None:
        home = instances.find_home(snapshot, there.gpu, vgpu_type)
        if isinstance(home, Refusal):
            return home
        if not home.is_there:  # the driver offers it once its instance is made
            return None
        return _not_offered(there, parent, vgpu_type)

    def left(self, snapshot: HostSnapshot, there: Room, vgpu_type: VgpuType, offered: int) -> int:
        return min(offered, instances.left(snapshot, there.gpu, vgpu_type))

    def counts(self, snapshot: HostSnapshot, there: Room, vgpu_types: Sequence[VgpuType]) -> list[int]:
        return [instances.left(snapshot, there.gpu, kind) for kind in vgpu_types]

    def counts_beside(
        self, snapshot: HostSnapshot, there: Room, entry: LedgerEntry, vgpu_types: Sequence[VgpuType]
    ) -> list[int]:
        return self.counts(replace(snapshot, ledger=snapshot.entries.put(entry)), there, vgpu_types)

    def home(self, snapshot: HostSnapshot, gpu: Gpu, vgpu_type: VgpuType, *, before: MigPlace | None) -> Home | None:
        home = instances.find_home(snapshot, gpu, vgpu_type, before=before)
        return None if isinstance(home, Refusal) else home

    def again(self, snapshot: HostSnapshot, gpu: Gpu, ours: VgpuSpec) -> VgpuSpec:
        vgpu_type, entry = gpu.type_of(ours.type_id), snapshot.entries.named(ours.key)
        home = instances.find_home(snapshot, gpu, vgpu_type, before=ours.mig, but=entry) if vgpu_type else None
        return replace(ours, mig=home.place) if isinstance(home, instances.Home) else ours

    def offers(self, gpu: Gpu) -> tuple[Mapping[int, int], ...]:
        counts = {
            vgpu_type.id: 1
            for vgpu_type in (gpu.types or {}).values()
            if instances.is_mig_backed(vgpu_type) and instances.chosen_by_driver(gpu, vgpu_type) is not None
        }
        nothing = dict[int, int]()
        return tuple(nothing if parent.vgpus else counts for parent in gpu.functions)


_BY_MODE: Final[Mapping[Mode, Division]] = {EQUAL_SIZE: EqualSize(), MIXED_SIZE: MixedSize(), MIG: Mig()}


def of(gpu: Gpu) -> Division:
    """How the GPU is divided."""
    return _BY_MODE[gpu.rules.name]


def placed_again(snapshot: HostSnapshot, ours: VgpuSpec) -> VgpuSpec:
    """A vGPU of ours whose hardware is gone, with the place at which it is re-created."""
    gpu = snapshot.gpu_by_uuid(ours.gpu_uuid)
    return ours if gpu is None else of(gpu).again(snapshot, gpu, ours)


def _sizes(snapshot: HostSnapshot, there: Room) -> set[int | None]:
    """The sizes that a GPU in equal-size mode is bound to."""
    sizes = {there.gpu.size_of(type_id) for type_id in there.type_ids}
    return sizes | {there.gpu.size_of(entry.vgpu.type_id) for entry in room.displaced_on(snapshot, there.gpu)}


def _not_offered(its_room: Room, parent: Parent, vgpu_type: VgpuType) -> Refusal | None:
    """Why a function does not offer the type; None if it does. A physical one must offer more than is awaited on it."""
    reserved = len(its_room.awaited) if parent.vf_index is None else 0
    if (parent.creatable or {}).get(vgpu_type.id, 0) > reserved:
        return None
    name, pci = vgpu_type.type_name, parent.pci
    return Refusal(
        Cause.NOT_OFFERED, say("the driver offers no {} on {} now (likely another size, or full)", name, pci)
    )


def _beyond_memory(its_room: Room, vgpu_type: VgpuType) -> Refusal | None:
    """Why the card's memory does not hold one more of a type: an unlocked driver offers the types of larger boards."""
    size, gpu = vgpu_type.size_mib, its_room.gpu
    if size is None:
        return None
    card = f"the card has {gpu.framebuffer_mib} MiB"
    if not gpu.holds(size):
        return Refusal(Cause.NO_SUCH_TYPE, f"{card}, less than a {vgpu_type.short}: its types are another board's")
    used_mib = sum((gpu.size_of(type_id) or 0) * count for type_id, count in its_room.type_ids.items())
    return None if gpu.holds(used_mib + size) else Refusal(Cause.FULL, f"full: {card}, and {used_mib} are taken")
