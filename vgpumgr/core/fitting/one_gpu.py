"""What one empty GPU takes in a mode: the fullest combinations of the requested vGPUs, each with its arrangement.

In each mode, a GPU that holds a combination of vGPUs (counts.py) also holds every part of it. So it is enough to list
the combinations to which nothing can be added.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypeAlias, TypeVar

from vgpumgr.core.driver import admission, mig
from vgpumgr.core.driver.modes import EQUAL_SIZE, MIXED_SIZE
from vgpumgr.core.fitting.counts import NONE, total

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from vgpumgr.core.driver.mig import InstanceProfile, Piece
    from vgpumgr.core.driver.modes import Mode
    from vgpumgr.core.fitting.counts import Counts, Goal
    from vgpumgr.core.fitting.shapes import Shape


@dataclass(frozen=True, slots=True, kw_only=True)
class Placed:
    """A vGPU of a request (by number). `place`: its placement id in mixed-size mode. `piece`: its GPU instance."""

    request: int
    place: int | None = None
    piece: Piece | None = None


Menu: TypeAlias = "dict[Counts, tuple[Placed, ...]]"
T = TypeVar("T")


def menu(mode: Mode, shapes: Mapping[int, Shape], wanted: Goal) -> Menu:
    """The fullest combinations of a GPU in a mode. `shapes`: what a vGPU of each request takes on that board."""
    able = {request: shape for request, shape in shapes.items() if mode in shape.modes()}
    if mode == EQUAL_SIZE:
        return wanted.fullest(_of_one_size(able, wanted))
    return _mixed(able, wanted) if mode == MIXED_SIZE else _mig(able, wanted)


def _of_one_size(shapes: Mapping[int, Shape], wanted: Goal) -> Menu:
    """Each combination of one size, with an order in which the driver admits its vGPUs: on a GPU, or in an instance."""
    found: Menu = {NONE: ()}
    edge = [*found]
    while edge:
        counts = edge.pop()
        sizes = {shapes[one.request].size_mib for one in found[counts]}
        for request, shape in shapes.items():
            longer = wanted.one_more(counts, request)
            if longer is None or longer in found:
                continue
            if admission.refusal(shape.size_mib, shape.maximum, sizes, total(counts)) is None:
                found[longer] = (*found[counts], Placed(request=request))
                edge.append(longer)
    return found


def _mixed(shapes: Mapping[int, Shape], wanted: Goal) -> Menu:
    """The fullest combinations in mixed-size mode, found from the last placement id to the first."""
    none: Menu = {NONE: ()}
    behind: dict[int, Menu] = {}
    later = none
    ids = sorted({place for shape in shapes.values() for place in shape.places}, reverse=True)
    for place in ids:
        found = dict(later)
        for request, shape in shapes.items():
            if place not in shape.places:
                continue
            for counts, rest in _first_at(behind, place + shape.slots, none).items():
                longer = wanted.one_more(counts, request)
                if longer is not None and longer not in found:
                    found[longer] = (Placed(request=request, place=place), *rest)
        later = behind[place] = wanted.fullest(found)
    return later


def _first_at(behind: Mapping[int, Menu], start: int, none: Menu) -> Menu:
    """The combinations that fit from `start` on: those of the first placement id there, or `none` if there is none."""
    return behind[min(ids)] if (ids := [place for place in behind if place >= start]) else none


def _mig(shapes: Mapping[int, Shape], wanted: Goal) -> Menu:
    """Every set of GPU instances that fits, each instance with vGPUs of one size."""
    profiles = {shape.instance.name: shape.instance for shape in shapes.values() if shape.instance is not None}
    inside = {name: wanted.fullest(_of_one_size(of_instance(shapes, name), wanted)) for name in profiles}
    found: Menu = {NONE: ()}
    for pieces in instance_sets([*profiles.values()]):
        menus: Menu = {NONE: ()}
        for piece in pieces:
            options = {
                counts: tuple(replace(one, piece=piece) for one in placed)
                for counts, placed in inside[piece.profile.name].items()
            }
            menus = added(menus, options, wanted)
        found |= {counts: placed for counts, placed in menus.items() if counts not in found}
    return wanted.fullest(found)


def of_instance(shapes: Mapping[int, Shape], name: str) -> dict[int, Shape]:
    return {one: shape for one, shape in shapes.items() if shape.instance is not None and shape.instance.name == name}


def instance_sets(profiles: Sequence[InstanceProfile]) -> Iterable[tuple[Piece, ...]]:
    """Each set of instances of these profiles that a GPU holds, by mig.arrange, which knows all rules."""
    sets: list[tuple[InstanceProfile, ...]] = [()]
    for profile in profiles:
        for chosen in tuple(sets):
            for number in range(1, profile.maximum + 1):
                longer = (*chosen, *[profile] * number)
                if isinstance(mig.arrange(longer), mig.Blocked):
                    break
                sets.append(longer)
    for chosen in sets:
        arranged = mig.arrange(chosen)
        assert not isinstance(arranged, mig.Blocked)
        yield arranged


def added(
    one: Mapping[Counts, tuple[T, ...]], other: Mapping[Counts, tuple[T, ...]], wanted: Goal
) -> dict[Counts, tuple[T, ...]]:
    """The fullest sums of a combination of `one` and a combination of `other`, with what lies in both."""
    found: dict[Counts, tuple[T, ...]] = {}
    for counts, placed in one.items():
        for others, beside in other.items():
            both = wanted.together(counts, others)
            if both not in found:
                found[both] = (*placed, *beside)
    return wanted.fullest(found)
