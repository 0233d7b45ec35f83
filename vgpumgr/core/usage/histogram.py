"""The time spent at each whole percent, as one integer of 101 32-bit fields: field p counts centiseconds at p percent.

Two histograms are added by adding two integers, which makes a day of 500 VMs quick. A field holds 2**32 cs, 497 days;
adding up more than MAX_DAYS of one series could overflow into the next field.
"""

from __future__ import annotations

import struct
from itertools import accumulate
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Sequence

Histogram: TypeAlias = int

EMPTY: Histogram = 0
FIELDS = 101
BITS = 32
MAX_DAYS = 400

_FIELDS = struct.Struct(f"<{FIELDS}I")


def weigh(percent: int, microseconds: int) -> Histogram:
    """A histogram of one period at one percent: whole centiseconds, at least one, so that nothing is lost."""
    return max(1, (microseconds + 5000) // 10_000) << (BITS * percent)


def counts(histogram: Histogram) -> Sequence[int]:
    """Centiseconds at 0, 1, … 100 percent."""
    return _FIELDS.unpack(histogram.to_bytes(_FIELDS.size, "little"))


def quantiles(histogram: Histogram, *percents: int) -> tuple[int | None, ...]:
    """For each percentage: the lowest value not exceeded for so much of the time (100: the maximum). None: no data."""
    below = tuple(accumulate(counts(histogram)))
    whole = below[-1]
    if not whole:
        return (None,) * len(percents)
    return tuple(
        next(value for value, weight in enumerate(below) if weight > 0 and weight * 100 >= percent * whole)
        for percent in percents
    )


def pack(histogram: Histogram) -> bytes:
    """The stored form: the first value that occurs, then the fields from it to the last non-zero one. Empty for EMPTY.

    An idle engine takes a few bytes; one whose load stays within 20 percentage points takes 80.
    """
    if not histogram:
        return b""
    first = ((histogram & -histogram).bit_length() - 1) // BITS
    rest = histogram >> (BITS * first)
    return bytes((first,)) + rest.to_bytes((rest.bit_length() + 7) // 8, "little")


def unpack(stored: bytes) -> Histogram:
    """The inverse of `pack`."""
    return int.from_bytes(stored[1:], "little") << (BITS * stored[0]) if stored else EMPTY
