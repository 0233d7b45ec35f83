"""Which vGPUs did nothing, or are short of something. What was not measured decides nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from vgpumgr.core.usage.usage_rows import GONE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from vgpumgr.core.usage.usage_rows import UsageRow

ENOUGH: Final = 0.95
"""The part of the window in which a vGPU must be known to have done nothing, or its VM to have been off: a restarted collector leaves a gap."""


def idle(row: UsageRow, *, most: int) -> bool | None:
    """Whether its VM was off or no sample of any engine was above `most` percent, throughout the window; None: too little of it is known.

    A vGPU that is gone is not idle: there is nothing to take back.
    """
    engines = row.engines.values()
    if row.state == GONE or any(use.max is not None and use.max > most for use in engines):
        return False
    return True if all(use.coverage + row.off >= ENOUGH for use in engines) else None


def over(row: UsageRow, *, percent: int) -> bool | None:
    """Whether SM use exceeds so many percent of the guaranteed share, or framebuffer use of the size; None: neither is known to."""
    size, used = row.framebuffer_size_bytes, row.framebuffer_max_bytes
    framebuffer = used / size if used is not None and size else None
    parts = (row.used_of_share, framebuffer)
    if any(part is not None and part * 100 > percent for part in parts):
        return True
    return None if None in parts else False


def judged(
    rows: Iterable[UsageRow], verdict: Callable[[UsageRow], bool | None]
) -> tuple[tuple[UsageRow, ...], tuple[UsageRow, ...]]:
    """Those of which it is true, and those of which it is not known."""
    found = [(row, verdict(row)) for row in rows]
    return tuple(row for row, yes in found if yes), tuple(row for row, yes in found if yes is None)
