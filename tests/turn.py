"""Whose turn it is: of what is alike, CI plays one kind for each commit, and the commit's own hash says which."""

from __future__ import annotations

import os
import subprocess
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from tests.dose import FULL

if TYPE_CHECKING:
    from collections.abc import Iterable

T = TypeVar("T")

_HERE = Path(__file__).parent
_EVERY = FULL or "VGPUMGR_EVERY_TURN" in os.environ  # `make test-all`


def turn(kinds: int) -> int:
    """Which of so many kinds this commit plays, from 0; the first one without git."""
    return int(_head() or "0", 16) % kinds


def in_turn(kinds: Iterable[T]) -> tuple[T, ...]:
    """The one of them whose turn it is; `make test-all` has them all."""
    every = tuple(kinds)
    return every if _EVERY else (every[turn(len(every))],)


@cache
def _head() -> str:
    try:
        done = subprocess.run(
            ["git", "rev-parse", "--verify", "HEAD"], cwd=_HERE, capture_output=True, text=True, check=False
        )
    except FileNotFoundError:
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""
