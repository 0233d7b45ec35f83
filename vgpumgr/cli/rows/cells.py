"""How a person reads a value: sizes in GiB, percent, ages, local times. Unknown stays None."""

from __future__ import annotations

import datetime
import time
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

Row: TypeAlias = "Mapping[str, Any]"
Read: TypeAlias = "Callable[[Any, Row], str | None]"

_MIB_PER_GIB, _BYTES_PER_GIB = 1024, 1 << 30
_AGES = ((365 * 86400, "y"), (86400, "d"), (3600, "h"), (60, "m"))


def plain(value: Any, _row: Row) -> str | None:
    """Text as it is; yes or no; a list with blanks between its parts."""
    if value is None:
        return None
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list):
        return " ".join(str(one) for one in value) or None
    return str(value)


def sentences(value: list[str] | None, _row: Row) -> str | None:
    """A list of sentences as one line."""
    return "; ".join(value) if value else None


def first_line(value: str | None, _row: Row) -> str | None:
    return None if value is None else value.partition("\n")[0]


def gib_of_mib(value: float | None, _row: Row) -> str | None:
    """`4 GiB`, `3.47 GiB`."""
    return None if value is None else f"{value / _MIB_PER_GIB:.3g} GiB"


def gib_of_bytes(value: float | None, _row: Row) -> str | None:
    """`2.0 GiB`."""
    return None if value is None else f"{value / _BYTES_PER_GIB:.1f} GiB"


def percent(value: float | None, _row: Row) -> str | None:
    """A whole number from 10 on, at most one decimal below."""
    if value is None:
        return None
    return f"{value:.0f}%" if value >= 9.95 or value == int(value) else f"{value:.1f}%"


def share(value: float | None, row: Row) -> str | None:
    """A part of 1 as a percentage."""
    return percent(None if value is None else value * 100, row)


def age(value: str | None, _row: Row) -> str | None:
    """How long ago: `45s`, `3m`, `6d`."""
    at = None if value is None else _moment(value)
    if at is None:
        return value
    seconds = max(0, int(time.time() - at.timestamp()))
    return next((f"{seconds // unit}{name}" for unit, name in _AGES if seconds >= unit), f"{seconds}s")


def left(seconds: int | None, _row: Row) -> str | None:
    """How much of a time is left, begun units included: `45s`, `3m`, `7d`."""
    if seconds is None:
        return None
    return next((f"{-(-seconds // unit)}{name}" for unit, name in _AGES if seconds > unit), f"{seconds}s")


def local(value: str | None, _row: Row) -> str | None:
    """Local time with its offset."""
    at = None if value is None else _moment(value)
    return value if at is None else at.astimezone().isoformat(sep=" ", timespec="seconds")


def _moment(value: str) -> datetime.datetime | None:
    """The time; None if the text is no time, as in a claim that was written by hand."""
    try:
        return datetime.datetime.fromisoformat(value)
    except ValueError:
        return None


def or_else(read: Read, key: str) -> Read:
    """`read`, but the value of `key` stands in for a None."""

    def either(value: Any, row: Row) -> str | None:
        return read(row.get(key) if value is None else value, row)

    return either
