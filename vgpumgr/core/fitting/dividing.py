"""Which mode each of several empty GPUs gets, so that together they take the most of the vGPUs that are wanted.

GPU by GPU, and for each number of GPUs that get another mode, the search keeps every fullest combination of what lies
on the GPUs so far. If there are too many, it goes on with those with the most vGPUs, and its answer is not proven.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from vgpumgr.core.fitting import one_gpu
from vgpumgr.core.fitting.counts import NONE

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from vgpumgr.core.driver.modes import Mode
    from vgpumgr.core.fitting.counts import Counts, Goal
    from vgpumgr.core.fitting.one_gpu import Menu, Placed

_Found: TypeAlias = "dict[Counts, tuple[tuple[int, Mode, Placed], ...]]"


@dataclass(frozen=True, slots=True, kw_only=True)
class Way:
    """What a GPU takes in a mode. `changes`: the mode costs a change, so that as few GPUs as possible get it."""

    mode: Mode
    menu: Menu
    changes: bool


def divide(
    gpus: Sequence[Sequence[Way]], wanted: Goal, value: Callable[[Counts], tuple[int, ...]]
) -> list[tuple[Mode, list[Placed]]]:
    """For each GPU its mode, and what lies there. A GPU that stays empty has the mode of its first way.

    The best combination has the highest value, then the fewest changes. Among equals the first that is found wins.
    """
    layers: list[_Found] = [{NONE: ()}]
    for at, ways in enumerate(gpus):
        grown: list[_Found] = [{} for _ in range(len(layers) + 1)]
        for changes, found in enumerate(layers):
            for way in ways:
                here = {counts: tuple((at, way.mode, one) for one in placed) for counts, placed in way.menu.items()}
                target = grown[changes + way.changes]
                for counts, placed in one_gpu.added(found, here, wanted).items():
                    target.setdefault(counts, placed)
        layers = _useful(grown, wanted)
    best = max(
        ((value(counts), -changes, placed) for changes, layer in enumerate(layers) for counts, placed in layer.items()),
        key=lambda one: one[:2],
    )
    lying = [(ways[0].mode, list["Placed"]()) for ways in gpus]
    left = [*wanted.numbers]
    for at, mode, one in best[-1]:  # where there is place for more than what is wanted, the last ones are left out
        if left[one.request]:
            left[one.request] -= 1
            lying[at] = (mode, [*lying[at][1], one])
    return lying


def _useful(layers: Sequence[_Found], wanted: Goal) -> list[_Found]:
    """The layers, each without the combinations that an earlier one (fewer changes) reaches as well."""
    found: list[_Found] = []
    for layer in layers:
        better = [counts for lower in found for counts in lower]
        rest = {key: layer[key] for key in layer if not any(wanted.is_part(key, one) for one in better)}
        found.append(wanted.fullest(rest))
    return found
