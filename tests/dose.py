"""How much of a repetitive proof is done, by VGPUMGR_DOSE: fewer repetitions mean fewer moments tried of one kind, never a kind left out.

quick (where nothing is said): `make test`. commit: what CI does beside it (`make test-crash`). full: `make test-kills`, `make soak`.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Sequence

T = TypeVar("T")

QUICK, COMMIT, WHOLE = LEVELS = ("quick", "commit", "full")
LEVEL = os.environ.get("VGPUMGR_DOSE", QUICK)
FULL = LEVEL == WHOLE
if LEVEL not in LEVELS:
    raise ValueError(f"VGPUMGR_DOSE is one of {', '.join(LEVELS)}, not {LEVEL!r}")


def dose(quick: int, full: int, *, commit: int | None = None) -> int:
    """How many times. Where no `commit` is given, it is as many as for quick."""
    return {QUICK: quick, COMMIT: quick if commit is None else commit, WHOLE: full}[LEVEL]


def share(points: Sequence[T], part: int, parts: int) -> tuple[T, ...]:
    """All of them, or what falls to one of so many that go through them together (by host, or by framework)."""
    return tuple(points) if FULL else tuple(points[part::parts])
