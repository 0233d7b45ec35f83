"""The one line and the exit code of a monitoring plugin (Monitoring Plugins Development Guidelines, 2 and 3)."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final, NamedTuple

from vgpumgr.core.doctor.illness import SEVERITIES

if TYPE_CHECKING:
    from collections.abc import Sequence

    from vgpumgr.core.doctor.illness import Illness

_NAMED: Final = 5
_MOST: Final = 1000  # characters before the perfdata: agents cut a line at some thousands


class Answer(NamedTuple):
    """What the plugin prints, and its exit status: 0 OK, 1 WARNING, 2 CRITICAL, 3 UNKNOWN."""

    line: str
    status: int


def answer(illnesses: Sequence[Illness], *, hosts: int, unread: Sequence[str]) -> Answer:
    """The answer. `hosts`: how many were read; `unread`: the others. What is wrong comes before what is unknown."""
    counts = Counter(one.severity for one in illnesses)
    wrong = [f"{one.host or 'controller'}: {one.kind}" for one in illnesses if one.is_wrong]
    parts = [*dict.fromkeys(wrong)]
    shown = [*parts[:_NAMED], *([f"and {len(parts) - _NAMED} more"] if len(parts) > _NAMED else [])]
    shown += [f"not read: {', '.join(unread[:_NAMED])}"] if unread else []
    text = "; ".join(shown) or f"nothing is wrong on {hosts} host{'' if hosts == 1 else 's'}"
    figures = {"hosts": hosts, "unread": len(unread), **{str(one): counts[one] for one in SEVERITIES}}
    status = 2 if counts["critical"] else 1 if counts["warning"] else 3 if unread or not hosts else 0
    return Answer(_line(status, text, " ".join(f"{name}={number};;;0" for name, number in figures.items())), status)


def unknown(why: str) -> Answer:
    """The answer if no host could be asked at all."""
    return Answer(_line(3, why, ""), 3)


def _line(status: int, text: str, figures: str) -> str:
    word = ("OK", "WARNING", "CRITICAL", "UNKNOWN")[status]
    plain = " ".join(text.replace("|", "/").split())[:_MOST]
    return f"VGPUMGR {word} - {plain}" + (f"|{figures}" if figures else "")
