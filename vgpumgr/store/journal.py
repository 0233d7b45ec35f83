"""The journal: who changed what, when and why. History only; no decision reads it, and without it nothing is lost but itself.

A run is *begun* before the first write to a host and *ended* afterwards; one that never ended was killed, or is under way.
Nothing here stops a change: a journal that cannot be written is told once (`warn`) and kept as `problem`, for a finding.
sqlalchemy (a quarter of a second) is imported when the first line is written or read, not before.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from vgpumgr.errors import StoreError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from vgpumgr.store.runs import Entry, Question, Run


class Journal:
    """The journal at `path`, which need not be there yet. Safe to be used by several threads and processes at once."""

    def __init__(self, path: Path, *, warn: Callable[[str], None]) -> None:
        self.path = path
        self.problem: str | None = None
        self._warn = warn
        self._telling = threading.Lock()

    def begin(self, entry: Entry, *, by: str, at: str) -> int | None:
        """Write that a run begins; its number. None where that could not be written: then no further one is tried."""
        if self.problem is not None:
            return None
        try:
            from vgpumgr.store.sql import journal

            return journal.insert(self.path, entry, by=by, at=at)
        except StoreError as error:
            self._tell(error)
            return None

    def end(
        self, number: int | None, *, at: str, outcome: str, error: str | None = None, message: str | None = None
    ) -> None:
        """Write how the run ended; nothing where its beginning is not there."""
        if number is None:
            return
        try:
            from vgpumgr.store.sql import journal

            journal.finish(self.path, number, at=at, outcome=outcome, error=error, message=message)
        except StoreError as failed:
            self._tell(failed)

    def runs(self, question: Question) -> Sequence[Run]:
        """What was asked for, newest first; nothing where there is no journal yet. Raises StoreError; writes nothing."""
        from vgpumgr.store.sql import journal

        return journal.select_runs(self.path, question)

    def _tell(self, error: StoreError) -> None:
        with self._telling:
            if self.problem is not None:
                return
            self.problem = f"{error.message}; {error.hint}" if error.hint else error.message
        self._warn(self.problem)
