"""The outcomes of many things in a line that adds up: `3 changed, 6 unchanged, 3 refused (1 no capacity)`."""

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
_OF_REFUSED: Final = {Outcome.NO_CAPACITY: "no capacity", Outcome.NOT_READY: "not ready"}
_GOOD: Final = {Outcome.DONE, Outcome.WOULD_CHANGE, Outcome.UNCHANGED, Outcome.WAITING}


def tally(outcomes: Iterable[Outcome]) -> str:
    """Each outcome with its number; those of _OF_REFUSED count as refused. Empty if there are none."""
    count = Counter(outcomes)
    reasons = {word: count.pop(outcome, 0) for outcome, word in _OF_REFUSED.items()}
    count[Outcome.REFUSED] += sum(reasons.values())
    why = ", ".join(f"{number} {word}" for word, number in reasons.items() if number)
    parts = [f"{count[outcome]} {word}" for outcome, word in _WORDS.items() if count[outcome]]
    return ", ".join(f"{part} ({why})" if why and part.endswith("refused") else part for part in parts)


def is_good(outcomes: Iterable[Outcome]) -> bool:
    """Whether each of them is a success."""
    return _GOOD.issuperset(outcomes)
