"""Plots of characters: a line of bars, and a field of braille dots. From 0 to 100; None is a gap, never 0."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vgpumgr.cli.text.sparkline import ASCII, BLOCKS, sparkline

if TYPE_CHECKING:
    from collections.abc import Sequence
    from fractions import Fraction

# The dots of a braille character (Unicode 1F, U+2800), from the lowest up, in its left and its right half.
_DOTS = ((0x40, 0x04, 0x02, 0x01), (0x80, 0x20, 0x10, 0x08))
_ROWS = 4  # of dots in a character


def of_share(values: Sequence[int | None], entitled: Fraction | None) -> list[float | None]:
    """Percent of the whole GPU as percent of the entitled share. The result can be above 100; a plot is full then."""
    return [None if value is None or not entitled else float(value / entitled) for value in values]


def line(values: Sequence[float | None], width: int, *, ascii_only: bool) -> str:
    """The newest `width` values as bars, the newest at the right."""
    bars = sparkline(values[-width:], ASCII if ascii_only else BLOCKS) if width > 0 else ""
    return bars.rjust(width)


def field(values: Sequence[float | None], width: int, height: int, *, ascii_only: bool) -> list[str]:
    """The newest values as `height` lines, from the top. A character has two columns of dots, or one `#`."""
    across, up = (1, 1) if ascii_only else (2, _ROWS)
    dots = [None] * max(0, width * across - len(values)) + list(values[-width * across :])
    heights = [None if value is None else _dots(value, height * up) for value in dots]
    return [
        "".join(
            _character(heights[at * across : (at + 1) * across], (height - 1 - row) * up, ascii_only=ascii_only)
            for at in range(width)
        )
        for row in range(height)
    ]


def _dots(value: float, most: int) -> int:
    """A value's height in dots: at least one, so that 0 does not look like a gap."""
    return max(1, min(most, round(value * most / 100)))


def _character(heights: Sequence[int | None], below: int, *, ascii_only: bool) -> str:
    """One character of the field. `below`: how many rows of dots are under it."""
    if ascii_only:
        return "#" if heights[0] is not None and heights[0] > below else " "
    dots = 0
    for half, height in zip(_DOTS, heights, strict=True):
        dots |= sum(half[: max(0, min(_ROWS, (height or 0) - below))])
    return chr(0x2800 + dots) if dots else " "
