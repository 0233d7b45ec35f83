"""The journal: who changed what, when and why. It is history: plans only learn from it what is usual.

A run is *begun* before the first write to a host and *ended* afterwards; one that never ended was killed or still runs.
No failure here stops a change: an unwritable journal is reported once (`warn`) and kept as `problem`, which
becomes one of the command's findings.
sqlite3 is not imported before the first line is written or read.
"""

from __future__ import annotations

import threading
from itertools import chain
from typing import TYPE_CHECKING

from vgpumgr.errors import StoreError
from vgpumgr.store.journal_entry import Begin, End
from vgpumgr.store.together import Together
from vgpumgr.wording import say

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from vgpumgr.store.journal_entry import Intent, JournalEntry, Question


class Journal:
    """The journal at `path`, which need not exist yet. Several threads and processes can use it at once."""

    def __init__(self, path: Path, *, warn: Callable[[str], None]) -> None:
        self.path = path
        self.problem: str | None = None
        self._warn = warn
        self._telling = threading.Lock()
        self._together = Together(self._write_all)

    def begin(self, entry: Intent, *, by: str, at: str) -> int | None:
        """Record that a run begins. Returns its number; None if that failed, after which nothing more is written."""
        if self.problem is not None:
            return None
        begin = Begin(intent=entry, by=by, at=at)
        self._write(begin)
        return begin.number

    def end(
        self, number: int | None, *, at: str, outcome: str, error: str | None = None, message: str | None = None
    ) -> None:
        """Record how the run ended; does nothing if its beginning was not recorded."""
        if number is not None:
            self.end_all([End(number=number, at=at, outcome=outcome, error=error, message=message)])

    def end_all(self, ends: Sequence[End]) -> None:
        """Record how several runs ended."""
        if ends:
            self._write(*ends)

    def runs(self, question: Question) -> Sequence[JournalEntry]:
        """The matching runs, newest first; none if there is no journal yet. Raises StoreError; writes nothing."""
        from vgpumgr.store.sql import journal

        return journal.select_runs(self.path, question)

    def _write(self, *lines: Begin | End) -> None:
        try:
            self._together.write(lines)
        except StoreError as error:
            self._tell(error)

    def _write_all(self, waiting: Sequence[Sequence[Begin | End]]) -> None:
        from vgpumgr.store.sql import journal

        journal.write(self.path, chain.from_iterable(waiting))

    def _tell(self, error: StoreError) -> None:
        with self._telling:
            if self.problem is not None:
                return
            self.problem = say("{}; {}", error.message, error.hint) if error.hint else error.message
        self._warn(self.problem)
