"""Combinations: how many vGPUs of each request there are, as one whole number, because a search compares millions.

Each request has twelve bits: eleven for its number, which holds the sum of two, and one that is always 0.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NewType, TypeVar

if TYPE_CHECKING:
    from collections.abc import Mapping

Counts = NewType("Counts", int)
T = TypeVar("T")

NONE: Final = Counts(0)
MOST: Final = 1000
"""The most vGPUs of all requests together."""

_BITS: Final = 12


@dataclass(slots=True)
class Goal:
    """How many vGPUs of each request are wanted (`numbers`; as a combination, `all`), and what is computed from that.

    `high`: the bit of each request that is always 0. `kept`: how many combinations the search goes on with at most.
    `complete`: whether the search never had more than that, and so left nothing out.
    """

    numbers: tuple[int, ...]
    all: Counts
    high: int
    kept: int
    complete: bool = True

    @classmethod
    def of(cls, numbers: tuple[int, ...], kept: int) -> Goal:
        every = sum(number << _BITS * at for at, number in enumerate(numbers))
        high = sum(1 << _BITS * (at + 1) - 1 for at in range(len(numbers)))
        return cls(numbers=numbers, all=Counts(every), high=high, kept=kept)

    @property
    def total(self) -> int:
        return sum(self.numbers)

    def one_more(self, counts: Counts, request: int) -> Counts | None:
        """The combination with one more vGPU of a request; None if that is more than is wanted."""
        longer = Counts(counts + (1 << _BITS * request))
        return longer if self.is_part(longer, self.all) else None

    def is_part(self, counts: int, other: int) -> bool:
        """Whether `other` has as many or more of each request: then the subtraction borrows nothing."""
        return ((other | self.high) - counts) & self.high == self.high

    def together(self, one: Counts, other: Counts) -> Counts:
        """The sum of two combinations, with no more of any request than is wanted."""
        total = one + other
        if self.is_part(total, self.all):
            return Counts(total)
        capped = map(min, self.split(total), self.numbers)
        return Counts(sum(number << _BITS * at for at, number in enumerate(capped)))

    def split(self, counts: int) -> tuple[int, ...]:
        """The number of each request."""
        return tuple(counts >> _BITS * at & (1 << _BITS) - 1 for at in range(len(self.numbers)))

    def fullest(self, every: Mapping[Counts, T]) -> dict[Counts, T]:
        """The combinations that are no part of another one, those with the most vGPUs first; at most `kept`."""
        kept: dict[Counts, T] = {}
        high = self.high
        for counts in sorted(every, key=total, reverse=True):
            if not any(((other | high) - counts) & high == high for other in kept):
                if len(kept) == self.kept:
                    self.complete = False
                    break
                kept[counts] = every[counts]
        return kept


def total(counts: Counts) -> int:
    """How many vGPUs a combination has. The sum of its digits is what remains of a division by the base less one."""
    return counts % ((1 << _BITS) - 1)
