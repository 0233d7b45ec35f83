"""Which vGPUs did nothing, or are short of something. If too little was measured, the verdict is unknown."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from vgpumgr.core.usage.usage_rows import GONE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from vgpumgr.core.usage.usage_rows import UsageRow

ENOUGH: Final = 0.95
"""The part of the window that must be known for a vGPU to count as idle: a restarted collector leaves a gap."""


def idle(row: UsageRow, *, most: int) -> bool | None:
    """Whether a VM was off or no engine was above `most` percent throughout the window; None: too little is known.

    A vGPU that is gone is not idle: there is nothing to take back.
    """
    engines = row.engines.values()
    if row.state == GONE or any(use.max is not None and use.max > most for use in engines):
        return False
    return True if all(use.coverage + row.off >= ENOUGH for use in engines) else None


def over(row: UsageRow, *, percent: int) -> bool | None:
    """Whether SM use is above this percentage of the entitled share, or framebuffer use of the size. None: unknown."""
    size, used = row.framebuffer_size_bytes, row.framebuffer_max_bytes
    framebuffer = used / size if used is not None and size else None
    parts = (row.used_of_share, framebuffer)
    if any(part is not None and part * 100 > percent for part in parts):
        return True
    return None if None in parts else False


def judged(
    rows: Iterable[UsageRow], verdict: Callable[[UsageRow], bool | None]
) -> tuple[tuple[UsageRow, ...], tuple[UsageRow, ...]]:
    """The rows whose verdict is true, and the rows whose verdict is unknown."""
    verdicts = [(row, verdict(row)) for row in rows]
    return tuple(row for row, yes in verdicts if yes), tuple(row for row, yes in verdicts if yes is None)
