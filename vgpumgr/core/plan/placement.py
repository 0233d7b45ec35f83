"""Which GPU and which parent take a new vGPU, or why each GPU cannot: equal-size, time-sliced GPUs.

A place is taken by existing hardware (ours or not), and by a ledger entry whose hardware is gone, since it will be
re-created there. The driver's list of creatable types has the last word; the rules here only explain it.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from fractions import Fraction
from itertools import chain
from typing import TYPE_CHECKING, Final, TypeAlias

from vgpumgr.core.driver import admission, profiles
from vgpumgr.core.model import snapshot as observed
from vgpumgr.core.plan import blocked_write, lost
from vgpumgr.core.plan.no_place import Cause, Refusal
from vgpumgr.names import nearest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from vgpumgr.core.driver.profiles import Profile
    from vgpumgr.core.model.snapshot import Gpu, HostSnapshot, Parent, Vgpu, VgpuType
    from vgpumgr.core.model.vgpu import LedgerEntry, VgpuSpec
    from vgpumgr.names import PciAddress

SPREAD: Final = "spread"

Barred: TypeAlias = "Callable[[PciAddress], str | None]"
"""Why a PCI function must not be used, whatever is on it now, in words; None if it may."""


def none_barred(_pci: PciAddress) -> None:
    """Every function may be used."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Placed:
    """`ordinal` of `maximum`: the number of vGPUs on the GPU including this one, and its limit. `why`: the policy's reason."""

    gpu: Gpu
    parent: Parent
    type: VgpuType
    ordinal: int
    maximum: int | None
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class NoPlace:
    """Why each GPU was rejected: (PCI address, board, reason), and what would fit there now.

    `unknown_profile` is set if no GPU has a type of that name at all.
    """

    reasons: tuple[tuple[PciAddress, str, Refusal], ...]
    fits: tuple[str, ...]
    unknown_profile: bool


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
    return (*_standing(snapshot, gpu, gpu.vgpus), *_returning(gpu, _awaited(snapshot, gpu)))


def _standing(snapshot: HostSnapshot, gpu: Gpu, vgpus: Iterable[Vgpu]) -> Iterator[Occupant]:
    for vgpu in vgpus:
        entry = snapshot.entry_of(gpu, vgpu)
        yield Occupant(
            type=gpu.type_of(vgpu.type_id),
            type_name=vgpu.type_name or "?",
            owner=entry.vgpu.vm_name if entry else "foreign",
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


def _awaited(snapshot: HostSnapshot, gpu: Gpu) -> tuple[LedgerEntry, ...]:
    """The ledger's entries on a GPU whose vGPUs are not there: they will be re-created."""
    entered = snapshot.entries.on(gpu.uuid)
    missing = entered.keys() - gpu.functions.at.keys()
    if not missing:
        return ()
    return tuple(entry for place, entries in entered.items() if place in missing for entry in entries)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Room:
    """What is taken of a GPU, whoever has it: how many vGPUs, of which types, and which of them are still awaited."""

    gpu: Gpu
    type_ids: Mapping[int | None, int]
    awaited: tuple[LedgerEntry, ...]

    @classmethod
    def of(cls, gpu: Gpu, awaited: tuple[LedgerEntry, ...]) -> _Room:
        type_ids: Mapping[int | None, int] = gpu.functions.type_ids
        if awaited:
            type_ids = Counter(type_ids) + Counter(entry.vgpu.type_id for entry in awaited)
        return cls(gpu=gpu, type_ids=type_ids, awaited=awaited)

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

    def taken(self, snapshot: HostSnapshot, parent: Parent) -> Occupant | None:
        """What has a VF."""
        there = _standing(snapshot, self.gpu, parent.vgpus)
        awaited = (entry for entry in self.awaited if entry.vgpu.parent == parent.pci)
        return next(chain(there, _returning(self.gpu, awaited)), None)

    def _occupants(self, snapshot: HostSnapshot) -> tuple[Occupant, ...]:
        return (*_standing(snapshot, self.gpu, self.gpu.vgpus), *_returning(self.gpu, self.awaited))


def count_allocated(snapshot: HostSnapshot, gpu: Gpu) -> int:
    """How many vGPUs take room on a GPU."""
    return _room(snapshot, gpu).count


def _room(snapshot: HostSnapshot, gpu: Gpu) -> _Room:
    return _Room.of(gpu, _awaited(snapshot, gpu))


def find_type(gpu: Gpu, profile: Profile) -> VgpuType | None:
    """The GPU's type that a profile names. A short profile matches any board; of equal names the lowest id wins."""
    for vgpu_type in (gpu.types or {}).values():
        if (
            vgpu_type.parsed is not None
            and vgpu_type.parsed.short == profile.short
            and profile.board in (None, vgpu_type.parsed.board, vgpu_type.board)
        ):
            return vgpu_type
    return None


def place(
    snapshot: HostSnapshot,
    profile: Profile,
    *,
    among: Sequence[Gpu] | None = None,
    barred: Barred = none_barred,
) -> Placed | NoPlace:
    """Choose a place for one new vGPU; the answer does not depend on the order in which anything was read.

    `among` limits the choice to these GPUs. `barred` says of a function why it must not be used, whatever is on it now; None if it
    may. The policy is spread: the GPU with the smallest allocated share, the lowest PCI address among equals; on
    it the first free parent after the one in the GPU's newest entry, so that a virtual function which accepts a vGPU and then
    fails its VM (seen on hardware: kernel/hypeman #435) does not get every VM.
    """
    gpus = sorted(snapshot.gpus if among is None else among, key=lambda gpu: gpu.pci)
    candidates: list[tuple[Fraction, PciAddress, Gpu, Parent, VgpuType]] = []
    reasons: list[tuple[PciAddress, str, Refusal]] = []
    for gpu in gpus:
        verdict = _candidate(snapshot, gpu, profile, barred)
        if isinstance(verdict, Refusal):
            reasons.append((gpu.pci, gpu.board or gpu.name or "?", verdict))
        else:
            parent, vgpu_type, share = verdict
            candidates.append((share, gpu.pci, gpu, parent, vgpu_type))
    if not candidates:
        return NoPlace(
            reasons=tuple(reasons),
            fits=_alternatives(snapshot, gpus, profile, barred),
            unknown_profile=not any(find_type(gpu, profile) for gpu in snapshot.gpus)
            and all(gpu.types is not None for gpu in snapshot.gpus),
        )
    candidates.sort(key=lambda row: row[:2])
    _, _, gpu, parent, vgpu_type = candidates[0]
    return Placed(
        gpu=gpu,
        parent=parent,
        type=vgpu_type,
        ordinal=count_allocated(snapshot, gpu) + 1,
        maximum=vgpu_type.max,
        why=_why(candidates),
    )


def known_share(snapshot: HostSnapshot, gpu: Gpu) -> Fraction | None:
    """The allocated share of a GPU; None if its vGPUs or the ledger cannot be read."""
    return None if gpu.framework is None or snapshot.ledger is None else share_allocated(snapshot, gpu)


def share_allocated(snapshot: HostSnapshot, gpu: Gpu) -> Fraction:
    """The allocated share of a GPU, by the per-GPU maximum of each type on it: 3 of 12 is a quarter.

    MiB are never used: a board's real framebuffer is smaller than its nominal one.
    """
    return _room(snapshot, gpu).share


def may_create(
    snapshot: HostSnapshot, gpu: Gpu, parent: Parent, vgpu_type: VgpuType, barred: Barred = none_barred
) -> Refusal | None:
    """Why this parent cannot take the type now; None if it can."""
    room = _room(snapshot, gpu)
    return _of_type(snapshot, room, vgpu_type) or _of_parent(snapshot, room, parent, vgpu_type, barred)


def _of_type(snapshot: HostSnapshot, room: _Room, vgpu_type: VgpuType) -> Refusal | None:
    """Why none of a GPU's functions takes the type now."""
    problem = unfit(snapshot, room.gpu)
    if problem:
        return problem
    if (
        vgpu_type.parsed is not None and vgpu_type.parsed.slices is not None
    ):  # NVML and mdev directories list them in any mode
        return Refusal(Cause.NEEDS_MIG, f"{vgpu_type.short} needs MIG mode, which is not supported yet")
    return room.refusal(snapshot, vgpu_type)


def _of_parent(
    snapshot: HostSnapshot, room: _Room, parent: Parent, vgpu_type: VgpuType, barred: Barred
) -> Refusal | None:
    """Why this parent alone does not take the type now."""
    if parent.vf_index is not None:
        taken = room.taken(snapshot, parent)
        if taken is not None:
            return Refusal(Cause.TAKEN, f"{parent.pci} is taken ({taken.type_name}, {taken.owner})")
        why = barred(parent.pci)
        if why is not None:
            return Refusal(Cause.TAKEN, f"{parent.pci} is taken ({why})")
    if parent.creatable is None:
        return Refusal(Cause.UNREADABLE, f"the types that {parent.pci} offers could not be read")
    reserved = len(room.awaited) if parent.vf_index is None else 0
    if parent.creatable.get(vgpu_type.id, 0) <= reserved:
        text = f"the driver offers no {vgpu_type.type_name} on {parent.pci} now (likely another size, or full)"
        return Refusal(Cause.NOT_OFFERED, text)
    return None


def may_make_again(snapshot: HostSnapshot, gpu: Gpu, ours: VgpuSpec) -> Refusal | None:
    """Why an entry's missing vGPU cannot be re-created at its place now; None if it can.

    Its place is reserved for it, so only existing hardware can be in the way.
    """
    problem = unfit(snapshot, gpu)
    if problem:
        return problem
    parent = gpu.parent_at(ours.vf_index)
    if parent is None:
        text = f"has no virtual function {ours.vf_index} now, the place of {ours.type_name}"
        return Refusal(Cause.NO_FUNCTION, text)
    vgpu_type = (gpu.types or {}).get(ours.type_id)
    if vgpu_type is None:
        return Refusal(Cause.NO_SUCH_TYPE, f"has no type {ours.type_id} ({ours.type_name}) any more")
    room = _Room.of(gpu, awaited=())
    return _of_type(snapshot, room, vgpu_type) or _of_parent(snapshot, room, parent, vgpu_type, none_barred)


def unfit(snapshot: HostSnapshot, gpu: Gpu) -> Refusal | None:
    """Why nothing can be created on a GPU, whatever the request; None if something can."""
    if gpu.framework is None:
        return Refusal(Cause.NO_VGPUS, f"offers no vGPUs: {gpu.problem}")
    if gpu.uuid is None:
        return Refusal(Cause.NO_GPU_UUID, "its GPU UUID cannot be read, so nothing is written to it")
    if gpu.mode not in (observed.EQUAL_SIZE, None):
        return Refusal(Cause.OTHER_MODE, f"is in {gpu.mode} mode, which is not supported yet")
    if not gpu.types:
        return Refusal(Cause.NO_TYPES, "its vGPU types cannot be read")
    why = blocked_write.why_not(snapshot, gpu)
    return None if why is None else Refusal(Cause.BLOCKED_WRITE, why)


def _candidate(
    snapshot: HostSnapshot, gpu: Gpu, profile: Profile, barred: Barred
) -> tuple[Parent, VgpuType, Fraction] | Refusal:
    """The function of a GPU that takes the profile, its type there, and what is allocated of the GPU; or why none does."""
    problem = unfit(snapshot, gpu)
    if problem:
        return problem
    vgpu_type = find_type(gpu, profile)
    if vgpu_type is None:
        name = profile.short if profile.board in (None, gpu.board) else profile.text
        return Refusal(Cause.NO_SUCH_TYPE, f"has no {name}")
    if not gpu.parents:
        return Refusal(Cause.NO_FUNCTION, "has no virtual function")
    room = _room(snapshot, gpu)
    lost_here = lost.lost_parents(snapshot, gpu)

    def why_not(pci: PciAddress) -> str | None:
        return barred(pci) or ("lost by the driver" if pci in lost_here else None)

    # A taken VF is not the reason if another one is free: then the refusal of the free one is.
    verdict: Refusal | None = None
    free = _in_turn(snapshot, gpu)
    of_type = _of_type(snapshot, room, vgpu_type)
    for parent in free if of_type is None else ():
        refusal = _of_parent(snapshot, room, parent, vgpu_type, why_not)
        if refusal is None:
            return parent, vgpu_type, room.share
        if not refusal.of_this_place_alone:
            verdict = refusal
    verdict = of_type or verdict
    if verdict is not None:
        return verdict
    reserved = next((f"; {parent.pci} {why}" for parent in gpu.parents if (why := why_not(parent.pci)) is not None), "")
    return Refusal(Cause.ALL_TAKEN, f"every virtual function is taken ({len(gpu.parents)}{reserved})")


def _in_turn(snapshot: HostSnapshot, gpu: Gpu) -> tuple[Parent, ...]:
    """The GPU's parents, starting after the newest entry's."""
    last = snapshot.entries.newest_vf(gpu.uuid)
    after = [at for at, parent in enumerate(gpu.parents) if parent.vf_index is not None and parent.vf_index > last]
    start = after[0] if after else 0
    return (*gpu.parents[start:], *gpu.parents[:start])


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


def _why(candidates: Sequence[tuple[Fraction, PciAddress, Gpu, Parent, VgpuType]]) -> str:
    if len(candidates) == 1:
        return "the only GPU that can take it"
    if candidates[0][0] == candidates[1][0]:
        return f"spread: the first of {len(candidates)} GPUs that are equally empty"
    word = "emptier" if len(candidates) == 2 else "emptiest"
    return f"spread: the {word} of {len(candidates)} GPUs"


@dataclass(frozen=True, slots=True, kw_only=True)
class Fit:
    """A type that a GPU would take now, and how many more of it; None if the ledger's reservations cannot be read."""

    gpu: Gpu
    type: VgpuType
    left: int | None


def fits(snapshot: HostSnapshot, gpu: Gpu, barred: Barred = none_barred) -> tuple[Fit, ...]:
    """Every type that could be placed on a GPU now. `barred`: see place."""
    found: list[Fit] = []
    room = _room(snapshot, gpu)
    for vgpu_type in (gpu.types or {}).values():
        if _of_type(snapshot, room, vgpu_type) is not None:
            continue
        open_parents = [
            parent for parent in gpu.parents if _of_parent(snapshot, room, parent, vgpu_type, barred) is None
        ]
        if open_parents:
            offered = sum((parent.creatable or {}).get(vgpu_type.id, 0) for parent in open_parents)
            left = admission.left(offered, vgpu_type.max, room.count)
            found.append(Fit(gpu=gpu, type=vgpu_type, left=None if snapshot.ledger is None else left))
    return tuple(found)


def _alternatives(snapshot: HostSnapshot, gpus: Sequence[Gpu], profile: Profile, barred: Barred) -> tuple[str, ...]:
    """Per GPU, the type that fits now and is nearest to the request: same series, next size up."""
    found: list[str] = []
    wanted = profiles.parse_type_name(f"{profile.board or 'any'}-{profile.short}")
    for gpu in gpus:
        rows = [fit for fit in fits(snapshot, gpu, barred) if fit.type.parsed is not None]
        rows.sort(key=lambda fit: _distance(fit.type, wanted))
        if rows:
            left = "" if rows[0].left is None else f" ({rows[0].left} left)"
            found.append(f"{rows[0].type.type_name} on {gpu.pci}{left}")
    return tuple(found)


def _distance(vgpu_type: VgpuType, wanted: profiles.TypeName) -> tuple[bool, bool, int, int]:
    parsed = vgpu_type.parsed
    assert parsed is not None
    size = wanted.size_gb
    return parsed.series != wanted.series, parsed.size_gb < size, abs(parsed.size_gb - size), vgpu_type.id


def nearest_profile(snapshot: HostSnapshot, profile: Profile) -> str | None:
    """The profile of this host that is most similar to one it does not have."""
    vgpu_types = [vgpu_type for gpu in snapshot.gpus for vgpu_type in (gpu.types or {}).values()]
    if profile.board is None:
        return nearest(profile.short, {vgpu_type.short for vgpu_type in vgpu_types})
    return nearest(profile.text, {vgpu_type.type_name for vgpu_type in vgpu_types})
