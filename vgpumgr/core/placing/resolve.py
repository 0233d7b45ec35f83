"""A wish, however it is put, as types of one GPU: those that serve it, the closest first.

Memory is a type's nominal size. A share of a GPU is served by a type that is that share of the board's framebuffer, or
of which no more fit on the board than the share says: 35 GB is a quarter of 141 GB. fGPUs are a share or an amount of
memory, as the inventory says for the board. With `usable`, the guest is sure to see that much.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from fractions import Fraction
from typing import TYPE_CHECKING

from vgpumgr.core.driver import profiles
from vgpumgr.core.driver.asking import NO_CONDITIONS, Conditions, FgpuMemory, Grant
from vgpumgr.core.driver.framebuffer import guest_at_least_mib
from vgpumgr.core.placing import instances
from vgpumgr.core.placing.no_place import Cause, Refusal
from vgpumgr.core.policies.known import DEFAULT
from vgpumgr.wording import Own, say

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from vgpumgr.core.driver.asking import FgpuUnit, FgpuUnits
    from vgpumgr.core.driver.profiles import Amount, Profile, TypeName, Wish
    from vgpumgr.core.model.snapshot import Gpu, HostSnapshot, VgpuType
    from vgpumgr.core.model.vgpu import VgpuSpec
    from vgpumgr.core.model.view import HostView
    from vgpumgr.core.policies.policy import Policy
    from vgpumgr.names import PciAddress


_NO_SIZES = "the driver says no size of a vGPU type that its mode allows"
_NEEDS_MIG = Refusal(Cause.NEEDS_MIG, "is not in MIG mode")


@dataclass(frozen=True, slots=True, kw_only=True)
class Ask:
    """A wish with all that is needed to interpret it, and the policy by which it is placed.

    `before`: the earlier grant. It decides what a wish for fGPUs means, whatever the unit is now. What the policy may
    weigh: `usual`, what is asked for at the host and how often, and `numa_nodes`, which the VM is pinned to.
    `layouts`: the GPU instances that are declared for a GPU.
    """

    wish: Wish
    conditions: Conditions
    units: FgpuUnits
    before: Grant | None = None
    policy: Policy = DEFAULT
    usual: Mapping[Wish, int] = field(default_factory=dict)
    numa_nodes: frozenset[int] = frozenset()
    layouts: Mapping[PciAddress, tuple[str, ...]] = field(default_factory=dict)

    @classmethod
    def at_host(cls, view: HostView, wish: Wish, conditions: Conditions, *, policy: Policy | None = None) -> Ask:
        """A wish at a host, with all that its inventory says. `policy`: another one than the host's."""
        return cls(
            wish=wish,
            conditions=conditions,
            units=view.fgpu_per_gpu,
            policy=policy or view.policy,
            usual=view.usual,
            layouts=view.layouts,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """A type that serves a wish. `grant` None: the type's size is unknown.

    `waste`: the part of the type that exceeds the wish, measured in what the guest sees if the wish asked for that.
    `excess`: the same in nominal size, by which GPUs are compared.
    """

    type: VgpuType
    waste: Fraction = Fraction(0)
    excess: Fraction = Fraction(0)
    grant: Grant | None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Amount:
    """The amount that a wish means on one GPU, in MiB. `share`: the share of the GPU, if the wish asks for one."""

    mib: Fraction
    share: Fraction | None = None


def choices(gpu: Gpu, ask: Ask) -> tuple[Choice, ...] | Refusal:
    """The types of a GPU that serve a wish, the closest first, or why none does; whatever is on the GPU now."""
    match ask.wish:
        case profiles.ByProfile(profile=profile):
            return _of_profile(gpu, profile)
        case profiles.ByMigProfile(mig_profile=name):
            return _of_mig_profile(gpu, name)
        case profiles.ByOther() as other:
            return Refusal(Cause.NO_SUCH_TYPE, say("serves no {}", profiles.describe(other)))
        case amount:
            return _of_amount(gpu, amount, ask)


def unmet(gpu: Gpu, conditions: Conditions) -> Refusal | None:
    """Why nothing on a GPU meets the conditions, whatever its type; None if something can."""
    if conditions.only not in (None, gpu.rules.way):
        if gpu.rules.mig_backed:
            return Refusal(Cause.OTHER_MODE, "is in MIG mode, not time-sliced")
        return _NEEDS_MIG
    if conditions.compute is None:
        return None
    if not gpu.rules.has_scheduler:
        return Refusal(Cause.OTHER_POLICY, "is in MIG mode, in which no scheduler shares the whole GPU")
    policy = gpu.scheduler.policy if gpu.scheduler else None
    if policy == conditions.compute:
        return None
    state = "cannot be read" if policy is None else f"is {policy}"
    return Refusal(Cause.OTHER_POLICY, f"its scheduler {state}, not {conditions.compute}")


def is_preferred(gpu: Gpu, conditions: Conditions) -> bool:
    """Whether a GPU is divided as the conditions prefer; true where they prefer nothing."""
    return conditions.prefer in (None, gpu.rules.way)


def too_much_waste(choice: Choice, conditions: Conditions) -> Refusal | None:
    """Why a type exceeds the wish by more than the conditions allow; None if it does not."""
    if conditions.max_waste_pct is None or choice.waste * 100 <= conditions.max_waste_pct:
        return None
    most = Own(f"(at most {conditions.max_waste_pct} %)")
    return Refusal(Cause.WASTE, say("{} would waste {} {}", choice.type.short, percent(choice.waste), most))


def grant_of(gpu: Gpu, vgpu_type: VgpuType, ask: Ask) -> Grant | None:
    """The grant that a wish gets with a type of a GPU. None if the type's size or the wish's unit is unknown."""
    if not isinstance(ask.wish, profiles.ByMemory | profiles.ByShare | profiles.ByFgpu):
        return _grant(gpu, vgpu_type, None)
    goal = _asked(gpu, ask.wish, ask)
    return None if isinstance(goal, Refusal) else _choice(gpu, vgpu_type, goal, usable=ask.wish.usable).grant


def find_type(gpu: Gpu, profile: Profile) -> VgpuType | None:
    """The GPU's type that a profile names. A short profile matches any board."""
    return next((one for one in gpu.known_types.by_profile.get(profile.short, ()) if _is_type(one, profile)), None)


def _is_type(one: VgpuType, profile: Profile) -> bool:
    """Whether a profile names a type. A name outside the grammar must be equal but for NVIDIA or GRID before it."""
    if not one.parsed.board and one.name.split()[1:] != profile.text.split()[1:]:
        return False
    return is_named(one.parsed, one.board, profile)


def is_named(name: TypeName, board: str | None, profile: Profile) -> bool:
    """Whether a profile names that type on that board: the one comparison of what is asked for with what exists."""
    return name.short == profile.short and profile.board in (None, name.board, board)


def serves_profile(snapshot: HostSnapshot, ours: VgpuSpec, profile: Profile) -> bool:
    """Whether a vGPU of ours is what a profile names. If its type's name has no board, its GPU's board counts."""
    gpu, name = snapshot.gpu_by_uuid(ours.gpu_uuid), profiles.name_of(ours.type_name)
    board = gpu.board if gpu is not None and gpu.type_named(ours.type_name) is not None else None
    if board is None:  # a GPU that is not shown, or does not say: DC may be either of its boards
        board = (profile.board if name.board == profiles.SHARED_CODE else None) or name.board
    return is_named(name, board, profile)


def wanted(gpu: Gpu, ask: Ask) -> tuple[str, Fraction]:
    """The series and the size in MiB that a wish asks for on a GPU, to find types near it. Size 0: unknown."""
    match ask.wish:
        case profiles.ByProfile(profile=profile):
            name = profiles.name_of(f"any-{profile.short}")
            return name.series, Fraction(name.nominal_mib)
        case profiles.ByMemory() | profiles.ByShare() | profiles.ByFgpu() as amount:
            goal = _asked(gpu, amount, ask)
            return amount.series or profiles.DEFAULT_SERIES, Fraction(0) if isinstance(goal, Refusal) else goal.mib
        case _:
            return profiles.DEFAULT_SERIES, Fraction(0)


def asked_mib(gpu: Gpu, wish: Amount, units: FgpuUnits) -> int | None:
    """The MiB that an amount means on a GPU with these fGPU units, rounded up; None if that cannot be said."""
    goal = _asked(gpu, wish, Ask(wish=wish, conditions=NO_CONDITIONS, units=units))
    return None if isinstance(goal, Refusal) else math.ceil(goal.mib)


def board_mib(gpu: Gpu) -> int | None:
    """A board's framebuffer as its types divide it: the largest of them; None if no size is known."""
    return gpu.known_types.largest_mib.get(gpu.rules.mig_backed)


def one_of_each_size(gpu: Gpu) -> tuple[VgpuType, ...]:
    """A type of each size that the GPU's mode allows, the smallest first."""
    return gpu.known_types.of_each_size[gpu.rules.mig_backed]


def unit_of(gpu: Gpu, units: FgpuUnits) -> FgpuUnit | None:
    """What one fGPU is on a board, declared by its code or by its name; None if the inventory does not say."""
    return next((units[name] for name in gpu.board_names if name in units), None)


def percent(waste: Fraction | float) -> str:
    return f"{round(float(waste) * 100, 1):g} %"


def _of_profile(gpu: Gpu, profile: Profile) -> tuple[Choice, ...] | Refusal:
    vgpu_type = find_type(gpu, profile)
    if vgpu_type is None:
        name = profile.short if profile.board in (None, gpu.board) else profile.text
        return Refusal(Cause.NO_SUCH_TYPE, f"has no {name}")
    return (Choice(type=vgpu_type, grant=_grant(gpu, vgpu_type, None)),)


def _of_mig_profile(gpu: Gpu, name: str) -> tuple[Choice, ...] | Refusal:
    """The types that fill an instance of exactly this profile, that of the default series first."""
    if not gpu.rules.mig_backed:
        return _NEEDS_MIG
    profiles_here = [profile.name for profile in gpu.instance_profiles]
    types = [
        one for one in _served(gpu) if (profile := instances.profile_of(gpu, one)) is not None and profile.name == name
    ]
    if not types:
        why = "has no vGPU type for its" if name in profiles_here else "has no"
        has = Own(f"(it has {', '.join(profiles_here) or 'none'})")
        return Refusal(Cause.NO_SUCH_TYPE, say("{} MIG profile {} {}", why, name, has))
    largest = max(one.full_mib for one in types)
    whole = [one for one in types if one.full_mib == largest]
    return tuple(Choice(type=one, grant=_grant(gpu, one, None)) for one in sorted(whole, key=_default_series_first))


def _default_series_first(vgpu_type: VgpuType) -> tuple[bool, str]:
    return vgpu_type.parsed.series != profiles.DEFAULT_SERIES, vgpu_type.type_name


def _of_amount(gpu: Gpu, wish: Amount, ask: Ask) -> tuple[Choice, ...] | Refusal:
    goal = _asked(gpu, wish, ask)
    if isinstance(goal, Refusal):
        return goal
    types = _of_series(gpu, wish.series)
    if isinstance(types, Refusal):
        return types
    matches = [
        _choice(gpu, one, goal, usable=wish.usable) for one in types if _is_enough(gpu, one, goal, usable=wish.usable)
    ]
    if not matches:
        largest = max(types, key=lambda one: one.full_mib)
        sees = f", of which a guest sees {_guest(gpu, largest)} MiB" if wish.usable else ""
        return Refusal(
            Cause.NO_SUCH_TYPE,
            f"has no {wish.series or profiles.DEFAULT_SERIES} type of {memory(goal.mib)} or more: its largest is {largest.short}{sees}",
        )
    return tuple(sorted(matches, key=lambda choice: _closest(gpu, choice)))


def _of_series(gpu: Gpu, asked: str | None) -> list[VgpuType] | Refusal:
    """The types of a series. `asked` None: the default series; if it has no types, those whose series is unknown."""
    served, series = list(_served(gpu)), asked or profiles.DEFAULT_SERIES
    if not served and gpu.types:
        return Refusal(Cause.NO_TYPES, _NO_SIZES)
    types = [one for one in served if one.parsed.series == series]
    if not types and asked is None:
        types = [one for one in served if not one.parsed.series]
    if types:
        return types
    has = Own(f"(it has {', '.join(sorted({one.parsed.series or 'unknown ones' for one in served})) or 'none'})")
    return Refusal(Cause.NO_SUCH_TYPE, say("has no type of series {} {}", series, has))


def _closest(gpu: Gpu, choice: Choice) -> tuple[int, tuple[int, int], bool, str]:
    """The key that sorts types by size. If MIG-backed types have the same size, the smaller instance comes first.

    Old B series types come twice in one size; the one with the plain name comes first.
    """
    plain = not choice.type.parsed.suffix
    profile = instances.profile_of(gpu, choice.type)
    instance = (0, 0) if profile is None else (profile.size, profile.slices)
    return choice.type.full_mib, instance, not plain, choice.type.type_name


def _asked(gpu: Gpu, wish: Amount, ask: Ask) -> _Amount | Refusal:
    """What the wish means on this GPU."""
    match wish:
        case profiles.ByMemory(mib=mib):
            return _Amount(mib=Fraction(mib))
        case profiles.ByShare(gpu=share):
            return _share(gpu, Fraction(share))
        case profiles.ByFgpu(fgpu=fgpu):
            if ask.before is not None:
                return _Amount(mib=Fraction(min(ask.before.asked_mib, ask.before.framebuffer_mib)))
            unit = unit_of(gpu, ask.units)
            if unit is None:
                return Refusal(
                    Cause.NO_UNIT, f"what one fGPU is on {gpu.board or 'this board'} is not in the inventory"
                )
            if isinstance(unit, FgpuMemory):
                return _Amount(mib=Fraction(fgpu) * unit.mib)
            return _share(gpu, Fraction(fgpu) / unit)


def _share(gpu: Gpu, share: Fraction) -> _Amount | Refusal:
    board = board_mib(gpu)
    if board is None:
        return Refusal(Cause.NO_TYPES, _NO_SIZES)
    if share > 1:
        return Refusal(Cause.NO_SUCH_TYPE, f"is less than {memory(share * board)}: a vGPU is of one GPU")
    return _Amount(mib=share * board, share=share)


def _is_enough(gpu: Gpu, vgpu_type: VgpuType, goal: _Amount, *, usable: bool) -> bool:
    if usable:
        return _guest(gpu, vgpu_type) >= goal.mib
    size, board = vgpu_type.full_mib, board_mib(gpu)
    if size >= goal.mib:
        return True
    return goal.share is not None and board is not None and goal.share * (board // size) <= 1


def _choice(gpu: Gpu, vgpu_type: VgpuType, goal: _Amount, *, usable: bool) -> Choice:
    size = vgpu_type.full_mib
    waste = _beyond(goal.mib, _guest(gpu, vgpu_type) if usable else size)
    grant = _grant(gpu, vgpu_type, goal, waste)
    return Choice(type=vgpu_type, waste=waste, excess=_beyond(goal.mib, size), grant=grant)


def _beyond(asked_mib: Fraction, mib: int) -> Fraction:
    """The part of the size `mib` that exceeds what was asked: 1/4 if 3 GiB were asked and the size is 4 GiB."""
    return max(Fraction(0), 1 - asked_mib / mib) if mib else Fraction(0)


def _grant(gpu: Gpu, vgpu_type: VgpuType, goal: _Amount | None, waste: Fraction = Fraction(0)) -> Grant | None:
    """The grant with a type; None if the type's size is unknown. `goal` None: exactly this type was asked for."""
    size = vgpu_type.size_mib
    if size is None:
        return None
    return Grant(
        asked_mib=size if goal is None else math.ceil(goal.mib),
        framebuffer_mib=size,
        guest_mib=_guest(gpu, vgpu_type),
        waste_pct=round(float(waste) * 100, 2),
    )


def _served(gpu: Gpu) -> Iterable[VgpuType]:
    """The types that the GPU's mode allows: the MIG-backed ones in MIG mode, else the time-sliced ones."""
    mig_backed = gpu.rules.mig_backed
    return (one for one in (gpu.types or {}).values() if instances.is_mig_backed(one) == mig_backed and one.size_mib)


def guest_mib(gpu: Gpu, vgpu_type: VgpuType) -> int | None:
    """The least memory that a guest sees of a type; None if the type's size is unknown."""
    return None if vgpu_type.size_mib is None else _guest(gpu, vgpu_type)


def _guest(gpu: Gpu, vgpu_type: VgpuType) -> int:
    board = vgpu_type.board or gpu.board
    return guest_at_least_mib(vgpu_type.size_mib or 0, maximum=vgpu_type.max, board=board)


def memory(mib: Fraction | int) -> str:
    """An amount of memory as text: `9.6 GiB`, `512 MiB`."""
    return f"{round(float(mib) / 1024, 2):g} GiB" if mib >= 1024 else f"{round(float(mib), 1):g} MiB"
