"""One line of the journal around one apply: begun before the first write to the host, ended whatever the outcome.

    with recorded(context, intent_of(planned, host)) as line:
        apply(session, planned.plan)
    …                             # the final reading, which decides whether it was done
    line.end(None)

If the context has no journal (--check, the Python API without one), this does nothing. A journal that cannot be written
stops nothing either: `findings` reports it in the result. Several threads can record at the same time.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from vgpumgr.core.model.view import Finding
from vgpumgr.core.slot.plan import Plan
from vgpumgr.errors import VgpumgrError
from vgpumgr.store import journal_entry
from vgpumgr.store.journal_entry import End, Intent

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from vgpumgr.controller.context import Context
    from vgpumgr.core.reconcile.planned import PlannedTask
    from vgpumgr.names import HostName


class Line:
    """A line that has begun. `done_at` is when the steps were done, however long the final reading takes."""

    def __init__(self, context: Context, number: int | None) -> None:
        self._context = context
        self._number = number
        self._done_at: str | None = None

    def done(self) -> None:
        """All steps are done now. `end` records the outcome."""
        self._done_at = self._context.now()

    def end(self, error: VgpumgrError | None) -> None:
        """The run ended well (None), or with this error."""
        end_all(self._context, [(self, error)])

    def end_oddly(self, error: BaseException) -> None:
        """The run ended with an exception that is not ours: it was interrupted (Ctrl-C, SIGTERM), or else it failed."""
        odd = isinstance(error, Exception)
        outcome = "failed" if odd else journal_entry.INTERRUPTED
        _write(self._context, [self._end(outcome, type(error).__name__, str(error) if odd else None)])

    def ended(self, error: VgpumgrError | None) -> End | None:
        """The line's end, to be written; None if its beginning was not written."""
        if error is None:
            return self._end(journal_entry.DONE)
        return self._end(error.outcome, type(error).__name__, "\n".join((error.message, *error.details)))

    def _end(self, outcome: str, error: str | None = None, message: str | None = None) -> End | None:
        if self._number is None:
            return None
        at = self._done_at or self._context.now()
        return End(number=self._number, at=at, outcome=outcome, error=error, message=message)


def end_all(context: Context, lines: Iterable[tuple[Line, VgpumgrError | None]]) -> None:
    """End several lines at once, each well (None) or with its error."""
    _write(context, [line.ended(error) for line, error in lines])


def _write(context: Context, ends: Iterable[End | None]) -> None:
    if context.journal is not None:
        context.journal.end_all([end for end in ends if end is not None])


@contextmanager
def recorded(context: Context, entry: Intent) -> Iterator[Line]:
    """Begin a line. An exception in the block ends it and propagates; after a complete block, the caller ends it."""
    journal = context.journal
    line = Line(context, None if journal is None else journal.begin(entry, by=context.by, at=context.now()))
    try:
        yield line
    except VgpumgrError as error:
        line.end(error)
        raise
    except BaseException as error:
        line.end_oddly(error)
        raise
    line.done()


def intent_of(planned: PlannedTask, host: HostName) -> Intent:
    """The line of a task: its steps, and why. Its slot and GPU are the only ones that the steps name; else None."""
    task, told = planned.task, tuple(step.record() for step in planned.steps)
    return Intent(
        verb=task.verb,
        why="; ".join(dict.fromkeys((task.why, *(row.cause for row in planned.drift)))),
        host=host,
        vm=task.vm,
        vm_uuid=planned.plan.vm.uuid if isinstance(planned.plan, Plan) else None,
        slot=_only(told, "slot"),
        gpu=_only(told, "gpu"),
        steps=told,
    )


def findings(context: Context) -> tuple[Finding, ...]:
    """A finding for the result if the journal could not be written. The user was warned on stderr when it happened."""
    problem = context.journal.problem if context.journal else None
    if problem is None:
        return ()
    return (Finding(kind="journal", host=None, text=problem),)


def _only(told: Sequence[Mapping[str, object]], key: str) -> str | None:
    """The one value that the steps have for this key; None if there is none, or more than one."""
    found = {str(step[key]) for step in told if step.get(key) is not None}
    return found.pop() if len(found) == 1 else None
