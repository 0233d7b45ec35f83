"""Columns of cells as lines of a terminal's width. Columns without room are dropped from the right; names shrink."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from vgpumgr.cli.rows.fit import GAP, shrink
from vgpumgr.cli.text.wrapping import cell_width
from vgpumgr.cli.top.cells import Cell, shortened

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from vgpumgr.cli.top.cells import Line

_LEAST_NAME = 8
_LEAST_PLOT = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Head:
    """A column's head. `right`: its cells are numbers, aligned to the right. `name`: they are names, maybe long."""

    text: str
    right: bool = False
    name: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Plot:
    """The last column, as wide as there is room. `draw` gets a row's number and a width, and returns its plot."""

    head: str
    draw: Callable[[int, int], Cell]


def lines(
    heads: Sequence[Head], rows: Sequence[Line], width: int, *, always: int, plot: Plot | None = None
) -> list[Line]:
    """The head and the rows. The first `always` columns are always shown; names are shortened to make room for them."""
    widths = [
        max(cell_width(text) for text in (head.text, *(row[at].text for row in rows))) for at, head in enumerate(heads)
    ]
    count = fitting(widths, width, always=always)
    widths = _with_short_names(heads[:count], widths, width)
    has_plot = False
    if plot is not None:  # it matters more than most columns
        beside = fitting(widths, width - GAP - max(_LEAST_PLOT, len(plot.head)), always=always)
        has_plot = beside > always and sum(widths[:beside]) + GAP * beside + max(_LEAST_PLOT, len(plot.head)) <= width
        count = beside if has_plot else count
    room = width - sum(widths[:count]) - GAP * count
    result: list[Line] = []
    for number, row in enumerate([None, *rows]):
        cells = [Cell(head.text, "bold") for head in heads] if row is None else row
        line = [
            Cell(_padded(shortened(cell.text, size), size, right=head.right) + " " * GAP, cell.style)
            for cell, size, head in zip(cells[:count], widths, heads, strict=False)
        ]
        if plot is not None and has_plot:
            line.append(Cell(plot.head, "bold") if row is None else plot.draw(number - 1, room))
        else:
            line[-1] = Cell(line[-1].text[:-GAP], line[-1].style)
        result.append(tuple(line))
    return result


def fitting(widths: Sequence[int], width: int, *, always: int) -> int:
    """How many columns fit, counted from the left; at least `always`."""
    count = len(widths)
    while count > always and sum(widths[:count]) + GAP * (count - 1) > width:
        count -= 1
    return count


def _with_short_names(heads: Sequence[Head], widths: Sequence[int], width: int) -> list[int]:
    """The widths of these columns, with those of names reduced until all fit, as far as possible."""
    sizes = {head.text: size for head, size in zip(heads, widths, strict=False)}
    shrink(sizes, {head.text: min(_LEAST_NAME, sizes[head.text]) for head in heads if head.name}, width)
    return [*sizes.values(), *widths[len(sizes) :]]


def _padded(text: str, width: int, *, right: bool) -> str:
    gap = " " * (width - cell_width(text))
    return gap + text if right else text + gap
