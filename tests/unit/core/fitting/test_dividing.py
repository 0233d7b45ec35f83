"""Which way each of several GPUs is divided: as an exhaustive search says, with the fewest changes."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

from hypothesis import given
from hypothesis import strategies as st

from tests.unit.core.law import LAW
from vgpumgr.core.driver import modes
from vgpumgr.core.fitting import counts, dividing
from vgpumgr.core.fitting.counts import Counts, Goal
from vgpumgr.core.fitting.one_gpu import Placed

if TYPE_CHECKING:
    from collections.abc import Sequence

    from vgpumgr.core.driver.modes import Mode

_MENUS = st.lists(st.lists(st.integers(0, 3), min_size=2, max_size=2), min_size=1, max_size=3)
_GPUS = st.lists(st.tuples(_MENUS, _MENUS), min_size=1, max_size=3)


def way(goal: Goal, menu: Sequence[Sequence[int]], *, changes: bool) -> dividing.Way:
    """A mode in which a GPU takes any of these numbers of two requests."""
    options = {}
    for numbers in menu:
        capped = [min(pair) for pair in zip(numbers, goal.numbers, strict=True)]
        packed = Counts(sum(number << 12 * at for at, number in enumerate(capped)))
        options[packed] = tuple(Placed(request=at) for at, number in enumerate(capped) for _ in range(number))
    mode: Mode = modes.MIXED_SIZE if changes else modes.EQUAL_SIZE
    return dividing.Way(mode=mode, menu=goal.fullest(options), changes=changes)


@LAW
@given(gpus=_GPUS, wanted=st.tuples(st.integers(0, 5), st.integers(0, 5)))
def test_the_best_of_all_combinations_is_found_with_the_fewest_changes(
    gpus: list[tuple[list[list[int]], list[list[int]]]], wanted: tuple[int, int]
) -> None:
    goal = Goal.of(wanted, 1000)
    ways = [[way(goal, stay, changes=False), way(goal, other, changes=True)] for stay, other in gpus]

    def value(found: Counts) -> tuple[int, ...]:
        return counts.total(found), *goal.split(found)

    every = [[(at, numbers) for at, menu in enumerate(gpu) for numbers in menu] for gpu in gpus]
    best = max(reached(wanted, chosen) for chosen in itertools.product(*every))
    found = dividing.divide(ways, goal, value)
    served = [sum(one.request == at for _, placed in found for one in placed) for at in range(2)]
    assert (sum(served), *served, -sum(mode == modes.MIXED_SIZE for mode, _ in found)) == best


def reached(wanted: Sequence[int], chosen: Sequence[tuple[int, Sequence[int]]]) -> tuple[int, ...]:
    """What a choice of a way and its numbers for each GPU serves, and last its changes."""
    numbers = [min(most, sum(numbers[at] for _, numbers in chosen)) for at, most in enumerate(wanted)]
    return sum(numbers), *numbers, -sum(way for way, _ in chosen)
