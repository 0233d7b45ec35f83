"""The last line of a screen of `top`: what is shown, and the keys. On a narrow screen the least important part goes."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from vgpumgr.cli.text.wrapping import cell_width

if TYPE_CHECKING:
    from collections.abc import Sequence

_GAP = "  "


class Part(NamedTuple):
    """A part of the line. The one with the highest `rank` is dropped first; one with rank 0 never is."""

    text: str
    rank: int = 0


KEYS = (
    Part("q quit", 1), Part("s sort", 7), Part("/ filter", 5), Part("o off", 6), Part("Enter detail", 4), Part("h help"),
)  # fmt: skip
BACK = (Part("Esc back"), Part("e scale", 1), Part("h all keys"))
_OTHER_KEY = "any other key closes"
ORDER, TIME = 3, 2
"""The ranks of the part about the order, which the table's head shows as well, and of the time."""


def scrolling(first: int, last: int, count: int) -> tuple[Part, ...]:
    """The parts for a text that is longer than the screen."""
    return (Part(f"lines {first + 1}-{last} of {count}"), Part("↑ ↓ PgUp PgDn scroll"), Part(_OTHER_KEY, 1))


def line(parts: Sequence[Part], width: int) -> str:
    """The parts that fit, in their order. Parts of rank 0 are there even if they do not fit."""
    visible_parts = [part for part in parts if part.text]
    while cell_width(_joined(visible_parts)) > width and any(part.rank for part in visible_parts):
        visible_parts.remove(max(visible_parts, key=lambda part: part.rank))
    return _joined(visible_parts)


def _joined(parts: Sequence[Part]) -> str:
    return _GAP.join(part.text for part in parts)
