"""A plot with axes: a scale at the left, time below. It is text, for a terminal and for a pipe."""

from __future__ import annotations

import datetime
from dataclasses import dataclass
from typing import TYPE_CHECKING

from vgpumgr.cli.text.sparkline import ASCII, BLOCKS

if TYPE_CHECKING:
    from collections.abc import Sequence

WIDEST = 160
IN_A_PIPE = 80
HEIGHT = 6
_LEAST_GAP = 2  # blanks between two times
_DAY_S = 86400
_INDENT = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Axes:
    """`most` and `middle`: the texts at the top and in the middle of the scale. Its foot is 0.

    `since_s`, `until_s`: the edges, in seconds since the epoch. `cell_s`: a cell's seconds (the last can have fewer).
    """

    most: str
    middle: str
    since_s: float
    until_s: float
    cell_s: float


def lines(values: Sequence[float | None], axes: Axes, width: int, *, bars: str, height: int = HEIGHT) -> list[str]:
    """The plot, at most that wide. `values`: 0 to 100, one for each cell; None is a gap, never 0."""
    margin = _INDENT + max(map(len, (axes.most, axes.middle, "0"))) + 1
    room = max(len(values), min(width, WIDEST) - margin - 1)
    length = axes.until_s - axes.since_s
    edges = [round(min(at * axes.cell_s / length, 1) * room) for at in range(len(values) + 1)]
    side, floor, corner = ("|", "-", "+") if bars == ASCII else ("│", "─", "└")
    names = {0: axes.most, height // 2: axes.middle}
    rows = []
    for row in range(height):
        bars_of_row = "".join(
            _piece(value, height - 1 - row, height, bars) * (edges[at + 1] - edges[at])
            for at, value in enumerate(values)
        )
        rows.append(f"{names.get(row, ''):>{margin - 1}} {side}{bars_of_row}".rstrip())
    return [*rows, f"{'0':>{margin - 1}} {corner}{floor * room}", " " * (margin + 1) + _times(axes, room)]


def _piece(value: float | None, below: int, height: int, bars: str) -> str:
    """A cell's character in a row. `below`: the number of rows under it. Even 0 has a mark, unlike an unknown value."""
    if value is None:
        return " "
    part = value * height / 100 - below
    if below == 0:
        part = max(part, 0.01)
    if part <= 0:
        return " "
    if bars == BLOCKS:
        return bars[max(0, min(7, round(part * 8) - 1))]
    return "#" if part >= 0.5 else "."


def _times(axes: Axes, room: int) -> str:
    """The times below the plot, each at its place: the first and the last, and as many between as there is room for."""
    length = axes.until_s - axes.since_s
    shape = "%H:%M" if length <= _DAY_S + 3600 else "%m-%d %H:%M" if length <= 4 * _DAY_S else "%m-%d"
    size = len(_local(axes.since_s, shape))
    count = max(2, min(7, room // (size + 2 * _LEAST_GAP + 4)))
    text = ""
    for at in range(count):
        place = round(at * (room - size) / (count - 1))
        # The time of the place under the text's middle; the first and the last text have the edges' times.
        middle = 0 if at == 0 else room if at == count - 1 else place + size / 2
        text = text.ljust(place) + _local(axes.since_s + length * middle / room, shape)
    return text


def _local(seconds: float, shape: str) -> str:
    return datetime.datetime.fromtimestamp(seconds).astimezone().strftime(shape)
