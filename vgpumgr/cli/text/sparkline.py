"""A line of small bars, one character per value: 0 to 100 percent on a fixed scale, so that lines compare."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

BLOCKS = "▁▂▃▄▅▆▇█"
ASCII = ".:-=+*#%"


def sparkline(values: Iterable[float | None], bars: str) -> str:
    """The bars of these values. None is a space, unlike 0."""
    return "".join(" " if value is None else bars[min(7, int(value * 8 / 100))] for value in values)


def bars_of_stdout() -> str:
    """Block characters, or ASCII if stdout cannot show blocks."""
    try:
        BLOCKS.encode(getattr(sys.stdout, "encoding", None) or "ascii")
    except (UnicodeEncodeError, LookupError):
        return ASCII
    return BLOCKS
