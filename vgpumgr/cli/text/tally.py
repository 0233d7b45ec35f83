"""The outcomes of many things in one line that adds up: `3 changed, 6 unchanged, 3 refused (1 no capacity), 1 unknown VM`."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final

from vgpumgr.errors import Outcome

if TYPE_CHECKING:
    from collections.abc import Iterable

_WORDS: Final = {
    Outcome.DONE: "changed",
    Outcome.WOULD_CHANGE: "would change",
    Outcome.UNCHANGED: "unchanged",
    Outcome.WAITING: "waiting",
    Outcome.UNVERIFIED: "unverified",
    Outcome.REFUSED: "refused",
    Outcome.UNKNOWN_VM: "unknown VM",
    Outcome.USAGE: "invalid",
    Outcome.UNREACHED: "not reached",
    Outcome.BUSY: "busy",
    Outcome.FAILED: "failed",
}
_GOOD: Final = {Outcome.DONE, Outcome.WOULD_CHANGE, Outcome.UNCHANGED, Outcome.WAITING}


def tally(outcomes: Iterable[Outcome]) -> str:
    """Each outcome with its number; what has no capacity is one of those that are refused. Empty for none."""
    count = Counter(outcomes)
    full = count.pop(Outcome.NO_CAPACITY, 0)
    count[Outcome.REFUSED] += full
    parts = [f"{count[outcome]} {word}" for outcome, word in _WORDS.items() if count[outcome]]
    return ", ".join(f"{part} ({full} no capacity)" if full and part.endswith("refused") else part for part in parts)


def is_good(outcomes: Iterable[Outcome]) -> bool:
    """Whether each of them is a success."""
    return _GOOD.issuperset(outcomes)
