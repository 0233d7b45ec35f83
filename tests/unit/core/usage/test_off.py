"""Since when a VM is off: what each round says, and what none does."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.core.law import LAW
from tests.unit.metrics import made_up
from vgpumgr.core.usage.off import followed
from vgpumgr.core.usage.readings import Off, outdated_after_s

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from vgpumgr.core.usage.readings import Round, State, VgpuKey

EVERY_S = 10.0
LIMIT = outdated_after_s(EVERY_S)


def seen(at: float, *states: State) -> Round:
    """A round that has vm01 in that state, or has it not."""
    return made_up.one_round(made_up.gpu(*(made_up.vgpu(1, state=state) for state in states)), at=at)


def after(rounds: Sequence[Round]) -> Mapping[VgpuKey, Off]:
    found: Mapping[VgpuKey, Off] = {}
    for one in rounds:
        found = followed(found, one, every_s=EVERY_S)
    return found


@LAW
@given(
    st.lists(
        st.tuples(st.sampled_from([1.0, EVERY_S, LIMIT * 2]), st.sampled_from(["off", "running", "gone", "unread"]))
    )
)
def test_it_is_off_since_the_first_of_the_last_rounds_that_all_say_so(told: list[tuple[float, str]]) -> None:
    rounds: list[Round] = []
    at, expected = made_up.NOW, None
    for pause, state in told:
        at += pause
        if state == "unread":
            rounds.append(made_up.failed_round(at=at))
            continue
        there: State = "off" if state == "off" else "running"
        rounds.append(seen(at) if state == "gone" else seen(at, there))
        if state != "off":
            expected = None
        elif expected is None:
            expected = Off(since=at, at=at)
        else:
            gap = at - expected.at
            expected = replace(expected, at=at, gaps_s=expected.gaps_s + (gap if gap > LIMIT else 0))
    assert list(after(rounds).values()) == ([] if expected is None else [expected])


def test_what_a_round_cannot_say_stays_as_it_was() -> None:
    first = after([seen(1000, "off")])
    assert len(first) == 1
    silent = seen(1010)
    assert silent.reading is not None
    gpu = replace(silent.reading.gpus[0], reported=False)
    unsure = replace(silent, reading=replace(silent.reading, gpus=(gpu,)))
    for one in (seen(1010, "unknown"), unsure, replace(silent, reading=replace(silent.reading, gpus=()))):
        assert followed(first, one, every_s=EVERY_S) == first


@pytest.mark.parametrize(
    ("off", "part"),
    [
        (Off(since=0, at=100), 1.0),
        (Off(since=50, at=100), 0.5),
        (Off(since=0, at=90), 0.9),
        (Off(since=0, at=100, gaps_s=30), 0.7),
        (Off(since=0, at=100, gaps_s=300), 0.0),
        (Off(since=-500, at=-10), 0.0),
    ],
)
def test_of_a_window_it_was_off_for_what_was_seen_of_it(off: Off, part: float) -> None:
    assert off.part(0, 100) == pytest.approx(part)
