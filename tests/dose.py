"""How much of a repetitive proof is done: a few repetitions, or with VGPUMGR_DOSE=full all of them (`make test-all`).

Few means fewer moments tried of a kind, never a kind left out.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Sequence

T = TypeVar("T")

_LEVEL = os.environ.get("VGPUMGR_DOSE", "few")
if _LEVEL not in {"few", "full"}:
    raise ValueError(f"VGPUMGR_DOSE is few or full, not {_LEVEL!r}")
FULL = _LEVEL == "full"


def dose(few: int, full: int) -> int:
    """How many times."""
    return full if FULL else few


def share(points: Sequence[T], part: int, parts: int) -> tuple[T, ...]:
    """All of them, or what falls to one of so many that go through them together (by host, or by framework)."""
    return tuple(points) if FULL else tuple(points[part::parts])
