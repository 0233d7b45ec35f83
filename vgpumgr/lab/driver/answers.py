"""A driver that answers otherwise than vgpumgr believes: the faults `answers:BELIEF:VALUE`.

BELIEF is a belief that `host certify` checks, VALUE the answer as a report has it: a text, or the name of an errno. So
a lab can answer what a report saw (lab/like.py).
"""

from __future__ import annotations

import errno
import re
from typing import TYPE_CHECKING, Final

from vgpumgr.lab.driver.errors import os_error

if TYPE_CHECKING:
    from collections.abc import Iterable

ACCEPTED: Final = "accepted"
OTHERWISE: Final = (
    *("driver-files", "list-header", "list-rows", "list-complete", "siblings", "pf-files", "vfio-dev", "module-params"),
    *("idle-placement", "idle-instance", "idle-params", "idle-warm-update", "type-files", "description", "device-api"),
    *("scheduler-range", "first-place", "new-params", "idle-active", "after-removal"),
    *("other-size", "unknown-type", "hidden-type", "same-type", "no-type"),
)
"""The beliefs that the lab's driver can answer in another way."""

_FAULT = re.compile(rf"answers:({'|'.join(OTHERWISE)}):([ -~]*)")


def fault(belief: str, value: str) -> str | None:
    """The fault that lets the driver answer so; None if it cannot."""
    name = f"answers:{belief}:{value}"
    return name if is_answer(name) else None


def is_answer(name: str) -> bool:
    """Whether the name is that of such a fault."""
    return _FAULT.fullmatch(name) is not None


def all_of(faults: Iterable[str], belief: str) -> list[str]:
    """The answers to a belief that faults state, sorted; none if the driver answers as usual."""
    matches = filter(None, map(_FAULT.fullmatch, faults))
    return sorted(match[2] for match in matches if match[1] == belief)


def of(faults: Iterable[str], belief: str, usual: str) -> str:
    """The driver's answer to a belief."""
    return next(iter(all_of(faults, belief)), usual)


def tell(faults: Iterable[str], belief: str, usual: str) -> str:
    """The answer as the text of a file. Raises OSError if it is an errno."""
    value = of(faults, belief, usual)
    number = getattr(errno, value, None) if value.isalnum() else None
    if isinstance(number, int):
        raise os_error(number)
    return f"{value}\n"


def refuse(faults: Iterable[str], belief: str, usual: str) -> None:
    """Refuse a write. Raises OSError, unless the answer is that it is accepted."""
    if of(faults, belief, usual) != ACCEPTED:
        tell(faults, belief, usual)


def hidden(faults: Iterable[str]) -> frozenset[int]:
    """The ids of the types that the driver's lists leave out."""
    return frozenset(int(word) for word in of(faults, "list-complete", "all").split() if word.isdecimal())
