"""How much of a repetitive proof is done: enough of it in `make test`, all of it where VGPUMGR_FULL=1 (make test-kills, make soak).

Fewer repetitions here means fewer moments tried of one kind, never a kind left out.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Sequence

T = TypeVar("T")

FULL = os.environ.get("VGPUMGR_FULL") == "1"


def dose(usual: int, full: int) -> int:
    """How many times."""
    return full if FULL else usual


def share(points: Sequence[T], part: int, parts: int) -> tuple[T, ...]:
    """All of them, or what falls to one of so many that go through them together (by host, or by framework)."""
    return tuple(points) if FULL else tuple(points[part::parts])
