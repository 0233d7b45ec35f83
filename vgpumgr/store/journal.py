"""The journal: who changed what, when and why. History only; no decision reads it, and without it nothing is lost but itself.

A run is *begun* before the first write to a host and *ended* afterwards; one that never ended was killed, or is under way.
Nothing here stops a change: a journal that cannot be written is told once (`warn`) and kept as `problem`, for a finding.
sqlalchemy (a quarter of a second) is imported when the first line is written or read, not before.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING

from vgpumgr.errors import StoreError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

DONE = "done"
INTERRUPTED = "interrupted"


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """What a run is about to do to one host.

    `verb`: attach, detach, reconcile or scheduler. `why`: the wish or the cause, in words. `vm` is a name, `vm_uuid` finds
    it after it was renamed. `gpu`: PCI address; None, as for `slot`, where there are several. `steps`: the plan's, as
    `-o json` prints them.
    """

    verb: str
    why: str
    host: str
    vm: str | None = None
    vm_uuid: str | None = None
    slot: str | None = None
    gpu: str | None = None
    steps: tuple[Mapping[str, object], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """A line of the journal. `at` and `ended_at` are RFC 3339 in UTC, `by` is user@controller.

    `outcome`: done, interrupted, or the error's own (failed, refused, busy …); None where it never ended. `error` is the
    error's class, `message` what it said.
    """

    id: int
    at: str
    by: str
    entry: Entry
    ended_at: str | None
    outcome: str | None
    error: str | None
    message: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """Which runs: at most `limit`, begun at `since` or later; all of None's kind where it is None.

    `name` is a host's, or a VM's at any time: what that VM did under its other names is found too. `vm_uuid` is a VM.
    """

    limit: int
    since: str | None = None
    name: str | None = None
    vm_uuid: str | None = None


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
            from vgpumgr.store import database

            return database.insert(self.path, entry, by=by, at=at)
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
            from vgpumgr.store import database

            database.finish(self.path, number, at=at, outcome=outcome, error=error, message=message)
        except StoreError as failed:
            self._tell(failed)

    def runs(self, question: Question) -> Sequence[Run]:
        """What was asked for, newest first; nothing where there is no journal yet. Raises StoreError; writes nothing."""
        from vgpumgr.store import database

        return database.select_runs(self.path, question)

    def _tell(self, error: StoreError) -> None:
        with self._telling:
            if self.problem is not None:
                return
            self.problem = f"{error.message}; {error.hint}" if error.hint else error.message
        self._warn(self.problem)
