"""Which of its ways each of several empty GPUs is to be divided, so that together they serve the most that is wanted.

GPU by GPU, and for each number of GPUs that get another mode, the search keeps every fullest combination of what lies
on the GPUs so far. If there are too many, it goes on with those of the most vGPUs, and its answer is not proven.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from vgpumgr.core.fitting import one_gpu
from vgpumgr.core.fitting.counts import NONE

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from vgpumgr.core.fitting.counts import Counts, Goal
    from vgpumgr.core.fitting.one_gpu import Menu, Placed

_Found: TypeAlias = "dict[Counts, tuple[tuple[int, int, Placed], ...]]"


@dataclass(frozen=True, slots=True, kw_only=True)
class Way:
    """What a GPU takes in one mode. `changes`: it would get another mode than it has."""

    menu: Menu
    changes: bool


def divide(
    gpus: Sequence[Sequence[Way]], wanted: Goal, value: Callable[[Counts], tuple[int, ...]]
) -> list[tuple[int, list[Placed]]]:
    """For each GPU the index of its way, and what lies there; the first way if nothing does.

    The best combination has the highest value, then the fewest changes; of equals the first found.
    """
    layers: list[_Found] = [{NONE: ()}]
    for at, ways in enumerate(gpus):
        grown: list[_Found] = [{} for _ in range(len(layers) + 1)]
        for changes, found in enumerate(layers):
            for index, way in enumerate(ways):
                here: _Found = {
                    counts: tuple((at, index, one) for one in placed) for counts, placed in way.menu.items()
                }
                target = grown[changes + way.changes]
                for counts, placed in one_gpu.added(found, here, wanted).items():
                    target.setdefault(counts, placed)
        layers = _useful(grown, wanted)
    best = max(
        ((value(counts), -changes, placed) for changes, layer in enumerate(layers) for counts, placed in layer.items()),
        key=lambda one: one[:2],
    )
    return _kept(len(gpus), wanted, best[-1])


def _useful(layers: Sequence[_Found], wanted: Goal) -> list[_Found]:
    """Each layer without what one with fewer changes reaches as well."""
    found: list[_Found] = []
    for layer in layers:
        better = [counts for lower in found for counts in lower]
        rest = {key: layer[key] for key in layer if not any(wanted.is_part(key, one) for one in better)}
        found.append(wanted.fullest(rest))
    return found


def _kept(number: int, wanted: Goal, placed: Sequence[tuple[int, int, Placed]]) -> list[tuple[int, list[Placed]]]:
    """What lies on each GPU; where there is place for more than what is wanted, the last ones are left out."""
    left = [*wanted.numbers]
    index, lying = [0] * number, [list["Placed"]() for _ in range(number)]
    for at, way, one in placed:
        if left[one.request]:
            left[one.request] -= 1
            index[at] = way
            lying[at].append(one)
    return list(zip(index, lying, strict=True))
