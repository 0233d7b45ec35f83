"""The GPU instances of a GPU in MIG mode: whose they are, what they hold, and which one a new vGPU will be in.

The driver takes the lowest id among the instances of the type's profile that have room (kernel_vgpu_mgr.c, 595). So it
never passes over an instance with room, and a foreign one bars the GPU to that profile. Where none has room, a new one
is made, at the start that leaves the largest profiles possible. If empty instances of ours (cached) are in its way,
just enough of those go first.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, Literal

from vgpumgr.core import step as steps
from vgpumgr.core.driver import mig
from vgpumgr.core.driver.mig import InstanceProfile, Piece
from vgpumgr.core.model.mig import MigPlace, OurInstance
from vgpumgr.core.model.vgpu import LEAVING, MADE
from vgpumgr.core.placing.no_place import Cause, Refusal
from vgpumgr.core.placing.room import awaited_on
from vgpumgr.wording import Own, joined, say

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from vgpumgr.core.model.functions import Vgpu
    from vgpumgr.core.model.mig import Instance
    from vgpumgr.core.model.snapshot import Gpu, HostSnapshot, VgpuType
    from vgpumgr.core.model.vgpu import LedgerEntry

USED: Final = "used"
CACHED: Final = "cached"
FOREIGN: Final = "foreign"
State = Literal["used", "cached", "foreign"]
# What the host program reads for instances, each from the one before it.
_FACTS: Final = ("mig", "mig.profiles", "mig.instances")


@dataclass(frozen=True, slots=True, kw_only=True)
class Held:
    """An instance that exists. `vgpus` are in it; `awaited`: vGPUs of ours that are gone and will be re-created in it.

    `ours`: the ledger has it, of this boot. `sure` False: a vGPU of the GPU does not say where it is, and may be here.
    """

    instance: Instance
    profile: InstanceProfile
    vgpus: tuple[Vgpu, ...]
    sure: bool
    ours: bool = False
    awaited: tuple[LedgerEntry, ...] = ()

    @property
    def is_spare(self) -> bool:
        """Whether the instance is ours and idle, so that it may be removed."""
        return self.ours and self.is_idle

    @property
    def piece(self) -> Piece:
        return Piece(profile=self.profile, start=self.instance.start)

    @property
    def is_idle(self) -> bool:
        """Whether the instance holds nothing, and nothing comes back to it."""
        return self.sure and not self.vgpus and not self.awaited

    @property
    def state(self) -> State:
        if self.vgpus or not self.sure or (self.ours and self.awaited):
            return USED
        return CACHED if self.ours else FOREIGN

    def has_room(self, gpu: Gpu, vgpu_type: VgpuType, *, beside: int) -> bool:
        """Whether the driver takes one more of the type here, with `beside` others to come. All must have one size."""
        sizes = {gpu.size_of(vgpu.type_id) for vgpu in self.vgpus}
        return len(self.vgpus) + beside < per_instance(vgpu_type) and sizes <= {vgpu_type.size_mib}


@dataclass(frozen=True, slots=True, kw_only=True)
class Home:
    """The instance in which a new vGPU will be, and what has to be done first: cached instances out, the new one in.

    `is_there`: it exists already, and at most the ledger has to be told.
    """

    place: MigPlace
    steps: tuple[steps.InstanceStep, ...]
    is_there: bool


def is_mig_backed(vgpu_type: VgpuType) -> bool:
    return vgpu_type.mig_backed


def per_instance(vgpu_type: VgpuType) -> int:
    """How many vGPUs of a type share an instance, as the host program says; one if it does not know."""
    return vgpu_type.per_instance or 1


def profile_of(gpu: Gpu, vgpu_type: VgpuType) -> InstanceProfile | None:
    """The profile in whose instances a type lives on a GPU in MIG mode; None if the host does not say."""
    return next((one for one in gpu.instance_profiles if one.id == vgpu_type.mig_profile), None)


def place_at(gpu: Gpu, vgpu_type: VgpuType, start: int | None) -> MigPlace | None:
    """The GPU instance of a type that begins at a memory slice; None if the type lives in none, or `start` is None."""
    profile = profile_of(gpu, vgpu_type)
    return None if profile is None or start is None else MigPlace.of(profile, start)


def held_by_driver(gpu: Gpu) -> tuple[Held, ...]:
    """The instances of a GPU by their starts, whosever they are; none if they cannot be read."""
    if gpu.mig is None:
        return ()
    sure = all(vgpu.gpu_instance is not None for vgpu in gpu.vgpus)
    return tuple(
        Held(
            instance=instance,
            profile=gpu.mig.profile_behind(instance),
            vgpus=tuple(vgpu for vgpu in gpu.vgpus if vgpu.gpu_instance == instance.id),
            sure=sure,
        )
        for instance in sorted(gpu.mig.instances or (), key=lambda one: one.start)
    )


def why_unread(snapshot: HostSnapshot, gpu: Gpu) -> str | None:
    """Why it is unknown which instances a GPU has; None if that is known, also of one that has no MIG."""
    if gpu.mig is not None and gpu.mig.instances is not None:
        return None
    reasons = (row.why for row in snapshot.unknown if row.gpu == gpu.pci and row.what in _FACTS)
    if gpu.mig is None and not gpu.rules.mig_backed and gpu.fault is None:
        return next(reasons, None)
    return next(reasons, snapshot.silent.get(gpu.pci, "not read"))


def chosen_by_driver(gpu: Gpu, vgpu_type: VgpuType) -> Held | None:
    """The instance that the driver takes for one more vGPU of a type now; None if none has room."""
    candidates = [
        one
        for one in held_by_driver(gpu)
        if one.profile.id == vgpu_type.mig_profile and one.has_room(gpu, vgpu_type, beside=0)
    ]
    return min(candidates, key=lambda one: one.instance.id, default=None)


def held(snapshot: HostSnapshot, gpu: Gpu) -> tuple[Held, ...]:
    """The instances of a GPU by their starts, with what the ledger says of them; none if they cannot be read."""
    ours, entries = _ours(snapshot, gpu), _awaited(snapshot, gpu)
    return tuple(
        replace(
            one,
            ours=(one.profile.name, one.instance.start) in ours,
            awaited=tuple(entry for entry in entries if _is_at(entry, one.profile, one.instance.start)),
        )
        for one in held_by_driver(gpu)
    )


def _start(
    profiles: Sequence[InstanceProfile], profile: InstanceProfile, stays: Sequence[Piece], before: MigPlace | None
) -> int:
    if before is not None and before.profile == profile.name and before.start in mig.free_starts(profile, stays):
        return before.start
    start = mig.best_start(profiles, profile, stays)
    assert start is not None  # what was in its way is going
    return start


def find_home(
    snapshot: HostSnapshot,
    gpu: Gpu,
    vgpu_type: VgpuType,
    *,
    before: MigPlace | None = None,
    but: LedgerEntry | None = None,
) -> Home | Refusal:
    """Where one more vGPU of a type will be, or why the GPU has no room for it.

    `before`: where the vGPU was; it goes back there if that is free. `but`: its own ledger entry, which does not count.
    """
    if gpu.mig is None or gpu.mig.instances is None:
        return Refusal(Cause.UNREADABLE, "is in MIG mode, and its GPU instances cannot be read")
    profile = profile_of(gpu, vgpu_type)
    if profile is None:
        return Refusal(Cause.NO_SUCH_TYPE, f"the driver names no GPU instance profile for {vgpu_type.short}")
    records = held(snapshot, gpu)
    pick = chosen_by_driver(gpu, vgpu_type)
    if pick is not None:
        record = next(one for one in records if one.instance == pick.instance)
        return _existing(snapshot, gpu, vgpu_type, record, but)
    reserved = _reserved(snapshot, gpu, records, but)
    spare = [one.piece for one in records if one.is_spare]
    fixed = (*(one.piece for one in records if not one.is_spare), *reserved)
    victims = mig.evict(profile, fixed, spare)
    if victims is None:
        return Refusal(Cause.FULL, _in_the_way(profile, records, reserved))
    stays = (*fixed, *(piece for piece in spare if piece not in victims))
    start = _start(gpu.mig.profiles, profile, stays, before)
    removals = [removal(snapshot, gpu, piece) for piece in victims]
    creation = steps.CreateInstance(host=snapshot.host, instance=ours_at(gpu, profile, start), expect=steps.EMPTY)
    return Home(place=MigPlace.of(profile, start), steps=(*removals, creation), is_there=False)


def removal(snapshot: HostSnapshot, gpu: Gpu, piece: Piece) -> steps.DestroyInstance:
    """The step that removes an instance of ours that is there."""
    return steps.DestroyInstance(
        host=snapshot.host, instance=ours_at(gpu, piece.profile, piece.start), expect=steps.PRESENT
    )


def _existing(
    snapshot: HostSnapshot, gpu: Gpu, vgpu_type: VgpuType, one: Held, but: LedgerEntry | None
) -> Home | Refusal:
    label = f"{one.profile.name} at memory slice {one.instance.start}"
    if not one.ours:
        text = say(
            "the driver would put {} into GPU instance {} {}, which is not vgpumgr's",
            vgpu_type.short,
            one.instance.id,
            Own(f"({label})"),
        )
        return Refusal(Cause.FOREIGN_INSTANCE, text)
    others = [entry for entry in one.awaited if entry != but]
    if not one.has_room(gpu, vgpu_type, beside=len(others)):
        owners = joined(", ", dict.fromkeys(entry.vgpu.vm_name for entry in others))
        return Refusal(Cause.FULL, say("its {} is kept for {}, whose vGPU is missing", label, owners))
    ours = ours_at(gpu, one.profile, one.instance.start)
    state = next(entry.state for entry in snapshot.instances if entry.instance.key == ours.key)
    place = MigPlace.of(one.profile, one.instance.start)
    if state == LEAVING:  # its removal has begun, and is finished first
        creation = steps.CreateInstance(host=snapshot.host, instance=ours, expect=steps.EMPTY)
        return Home(place=place, steps=(removal(snapshot, gpu, one.piece), creation), is_there=False)
    enter = () if state == MADE else (steps.CreateInstance(host=snapshot.host, instance=ours, expect=steps.SAME),)
    return Home(place=place, steps=enter, is_there=True)


def left(snapshot: HostSnapshot, gpu: Gpu, vgpu_type: VgpuType) -> int:
    """How many more vGPUs of a type a GPU in MIG mode takes, if every cached instance goes that is in the way."""
    home = find_home(snapshot, gpu, vgpu_type)
    profile = profile_of(gpu, vgpu_type)
    if isinstance(home, Refusal) or profile is None:
        return 0
    records = held(snapshot, gpu)
    most = per_instance(vgpu_type)
    alike = [one for one in records if one.ours and one.profile.id == profile.id]
    rooms = sum(
        most - len(one.vgpus) - len(one.awaited)
        for one in alike
        if one.has_room(gpu, vgpu_type, beside=len(one.awaited))
    )
    fixed = [one.piece for one in records if one in alike or not (one.ours and one.is_idle)]
    return rooms + most * mig.capacity(profile, (*fixed, *_reserved(snapshot, gpu, records, None)))


def cached(snapshot: HostSnapshot, gpu: Gpu) -> tuple[Held, ...]:
    """The instances of ours that hold nothing, and to which nothing comes back."""
    return tuple(one for one in held(snapshot, gpu) if one.ours and one.is_idle)


def wanted_again(snapshot: HostSnapshot, gpu: Gpu) -> frozenset[tuple[str, int]]:
    """Profile and start of each instance to which a vGPU of ours comes back."""
    places = (entry.vgpu.mig for entry in _awaited(snapshot, gpu))
    return frozenset((place.profile, place.start) for place in places if place is not None)


def reserved(snapshot: HostSnapshot, gpu: Gpu) -> tuple[Piece, ...]:
    """The instances that are gone and come back with the vGPUs of ours that were in them."""
    return _reserved(snapshot, gpu, held(snapshot, gpu), None)


def ours_at(gpu: Gpu, profile: InstanceProfile, start: int) -> OurInstance:
    assert gpu.uuid is not None
    return OurInstance(
        gpu_uuid=gpu.uuid, gpu=gpu.pci, profile=profile.name, profile_id=profile.id, start=start, size=profile.size
    )


def _ours(snapshot: HostSnapshot, gpu: Gpu) -> set[tuple[str, int]]:
    """Profile and start of each instance of ours, by the ledger. No instance survives a boot, so older ones are out."""
    return {
        (entry.instance.profile, entry.instance.start)
        for entry in snapshot.instances
        if entry.instance.gpu_uuid == gpu.uuid and entry.boot == snapshot.boot
    }


def _awaited(snapshot: HostSnapshot, gpu: Gpu) -> tuple[LedgerEntry, ...]:
    """The entries of missing MIG-backed vGPUs, and the reserved places for MIG-backed vGPUs."""
    return tuple(entry for entry in awaited_on(snapshot, gpu) if entry.vgpu.mig)


def _is_at(entry: LedgerEntry, profile: InstanceProfile, start: int) -> bool:
    place = entry.vgpu.mig
    return place is not None and (place.profile, place.start) == (profile.name, start)


def _reserved(snapshot: HostSnapshot, gpu: Gpu, records: Iterable[Held], but: LedgerEntry | None) -> tuple[Piece, ...]:
    """The instances that are gone and come back, with the vGPUs of ours that were in them."""
    assert gpu.mig is not None
    existing = {(one.profile.name, one.instance.start) for one in records}
    wanted = {
        (entry.vgpu.mig.profile_id, entry.vgpu.mig.start)
        for entry in _awaited(snapshot, gpu)
        if entry != but and entry.vgpu.mig
        if (entry.vgpu.mig.profile, entry.vgpu.mig.start) not in existing
    }
    starts = ((gpu.mig.profile_of(number), start) for number, start in sorted(wanted))
    return tuple(Piece(profile=profile, start=start) for profile, start in starts if profile is not None)


def _in_the_way(profile: InstanceProfile, records: Sequence[Held], reserved: Sequence[Piece]) -> str:
    counts = Counter(f"{one.profile.name} {'foreign' if not one.ours else _whose(one)}" for one in records) + Counter(
        f"{piece.profile.name} (comes back)" for piece in reserved
    )
    holds = ", ".join(name if count == 1 else f"{count} x {name}" for name, count in counts.items())
    takes = f"{profile.size} memory {'slice' if profile.size == 1 else 'slices'}"
    return f"has no place for a {profile.name}, which takes {takes}: {holds or 'empty'}"


def _whose(one: Held) -> str:
    return "cached" if one.state == CACHED else "in use"
