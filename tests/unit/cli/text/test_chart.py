"""A plot with axes fits its width, stands on a fixed scale, and has times below it."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.core.law import LAW
from vgpumgr.cli.text import chart
from vgpumgr.cli.text.sparkline import ASCII, BLOCKS

if TYPE_CHECKING:
    from collections.abc import Iterator

NOON = 1_793_620_800.0  # 2026-11-02 12:00 UTC
VALUES = st.lists(st.none() | st.floats(0, 100), min_size=1, max_size=25)


@pytest.fixture(autouse=True)
def _utc(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


def axes(cells: int, *, cell_s: float = 3600, most: str = "100%") -> chart.Axes:
    return chart.Axes(most=most, middle="50%", since_s=NOON, until_s=NOON + cells * cell_s, cell_s=cell_s)


@LAW
@given(VALUES, st.integers(60, 200), st.sampled_from([BLOCKS, ASCII]), st.sampled_from([60.0, 900.0, 3600.0, 86400.0]))
def test_no_line_is_wider_than_asked_for_and_only_a_gap_is_blank(
    values: list[float | None], width: int, bars: str, cell_s: float
) -> None:
    found = chart.lines(values, axes(len(values), cell_s=cell_s), width, bars=bars)
    assert len(found) == chart.HEIGHT + 2
    assert max(map(len, found)) <= min(width, chart.WIDEST)
    lowest = found[chart.HEIGHT - 1][8:].ljust(len(found[chart.HEIGHT]) - 8)
    edges = [round(at * len(lowest) / len(values)) for at in range(len(values) + 1)]
    for at, value in enumerate(values):
        cell = lowest[edges[at] : edges[at + 1]]
        assert (cell.strip() == "") == (value is None)


def test_more_is_higher_and_all_of_it_reaches_the_top() -> None:
    found = chart.lines([0, None, 50, 100], axes(4), 60, bars=BLOCKS)
    assert found == [
        "  100% │                                       █████████████",
        "       │                                       █████████████",
        "       │                                       █████████████",
        "   50% │                          ██████████████████████████",
        "       │                          ██████████████████████████",
        "       │▁▁▁▁▁▁▁▁▁▁▁▁▁             ██████████████████████████",
        "     0 └" + "─" * 52,
        "        12:00           13:25          14:34           16:00",
    ]


def test_a_terminal_without_such_characters_has_plain_ones() -> None:
    assert "".join(chart.lines([0, 55, 100], axes(3), 60, bars=ASCII)).isascii()


def test_a_last_cell_that_has_only_begun_is_narrower_and_the_time_at_the_right_is_now() -> None:
    now = chart.Axes(most="100%", middle="50%", since_s=NOON, until_s=NOON + 5400, cell_s=3600)
    found = chart.lines([100, 0], now, 60, bars=BLOCKS)
    assert found[0].count("█") == 35
    assert found[-1].endswith("13:30")


@pytest.mark.parametrize(("cell_s", "first"), [(3600, "12:00"), (4 * 3600, "11-02 12:00"), (86400, "11-02")])
def test_longer_windows_have_days(cell_s: float, first: str) -> None:
    times = chart.lines([1.0] * 24, axes(24, cell_s=cell_s), 80, bars=BLOCKS)[-1]
    assert times.strip().startswith(f"{first} ")
