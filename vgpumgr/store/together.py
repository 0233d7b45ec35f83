"""Joins the writes of several threads: one of them writes the lines of all that wait.

Opening and closing a file of ours takes several times as long as a line in it. Nothing is deferred: each thread
goes on when its own line is on the disk.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Generic, TypeVar

from vgpumgr.errors import StoreError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

Line = TypeVar("Line")


class _Waiting(Generic[Line]):
    """A line of one thread; `error` is why it could not be written."""

    def __init__(self, line: Line) -> None:
        self.line = line
        self.done = False
        self.error: StoreError | None = StoreError("the thread that was to write it was interrupted")


class Together(Generic[Line]):
    """Joins writes. `write_all` writes some lines, all or none of them; it raises StoreError if it fails."""

    def __init__(self, write_all: Callable[[Sequence[Line]], None]) -> None:
        self._write_all = write_all
        self._turn = threading.Lock()
        self._change = threading.Lock()
        self._waiting: list[_Waiting[Line]] = []

    def write(self, line: Line) -> None:
        """Return when this or another thread has written the line. Raises StoreError."""
        mine = _Waiting(line)
        with self._change:
            self._waiting.append(mine)
        with self._turn:
            if not mine.done:
                self._write_for_all()
        if mine.error is not None:
            raise mine.error

    def _write_for_all(self) -> None:
        with self._change:
            waiting, self._waiting = self._waiting, []
        try:
            self._try(waiting)
            for one in waiting if len(waiting) > 1 else ():
                if one.error is not None:  # a line that cannot be stored must not lose the others
                    self._try([one])
        finally:
            for one in waiting:
                one.done = True

    def _try(self, lines: Sequence[_Waiting[Line]]) -> None:
        error: StoreError | None = None
        try:
            self._write_all([one.line for one in lines])
        except StoreError as refused:
            error = refused
        for one in lines:
            one.error = error
