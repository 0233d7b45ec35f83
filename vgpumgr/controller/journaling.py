"""One line of the journal around one apply: begun before the first write to the host, ended whatever comes of it.

    with recorded(context, entry_of(plan.steps, verb="attach", why="asked --profile 4Q", host=host, vm=name)) as line:
        apply(session, plan)
    …                             # the last look, which decides whether it was done
    line.end(None)

Where the context has no journal (--check, the Python API without one) this does nothing. A journal that cannot be written
stops nothing either: `findings` says so in the result. Threads may record at the same time.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from vgpumgr.core.model.observed import Finding
from vgpumgr.core.plan import changes
from vgpumgr.errors import VgpumgrError
from vgpumgr.store import runs
from vgpumgr.store.runs import Entry

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from vgpumgr.controller.context import Context
    from vgpumgr.names import HostName, VmName, VmUuid

__all__ = ["Entry", "Line", "entry_of", "findings", "recorded"]


class Line:
    """A line that was begun. What had been done by `done_at` stands, however long the last look at it takes."""

    def __init__(self, context: Context, number: int | None) -> None:
        self._context = context
        self._number = number
        self._done_at: str | None = None

    def done(self) -> None:
        """All steps were done, now. What came of them is told by `end`."""
        self._done_at = self._context.now()

    def end(self, error: VgpumgrError | None) -> None:
        """It ended as it should (None), or with this error."""
        if error is None:
            self._write(runs.DONE)
        else:
            message = "\n".join((error.message, *error.details))
            self._write(error.outcome, type(error).__name__, message)

    def end_oddly(self, error: BaseException) -> None:
        """It ended with what is no error of ours. After Ctrl-C and SIGTERM, what was done is undone by now."""
        odd = isinstance(error, Exception)
        self._write("failed" if odd else runs.INTERRUPTED, type(error).__name__, str(error) if odd else None)

    def _write(self, outcome: str, error: str | None = None, message: str | None = None) -> None:
        if self._context.journal is not None:
            at = self._done_at or self._context.now()
            self._context.journal.end(self._number, at=at, outcome=outcome, error=error, message=message)


@contextmanager
def recorded(context: Context, entry: Entry) -> Iterator[Line]:
    """Begin a line. An exception of the block ends it and passes through; after a block that did all, who called ends it."""
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


def entry_of(
    steps: Sequence[changes.Step],
    *,
    verb: str,
    why: str,
    host: HostName,
    vm: VmName | None = None,
    vm_uuid: VmUuid | None = None,
) -> Entry:
    """The line of these steps. Slot and GPU are read from them, None where they name several. Without `vm`: a host's own."""
    told = tuple(changes.record(step) for step in steps)
    return Entry(
        verb=verb,
        why=why,
        host=host,
        vm=vm,
        vm_uuid=vm_uuid,
        slot=_only(told, "slot"),
        gpu=_only(told, "gpu"),
        steps=told,
    )


def findings(context: Context) -> tuple[Finding, ...]:
    """That the journal could not be written, if so: for the result. It was told on stderr when it happened."""
    problem = context.journal.problem if context.journal else None
    if problem is None:
        return ()
    return (Finding(kind="journal", host=None, vm=None, slot=None, text=problem),)


def _only(told: Sequence[Mapping[str, object]], key: str) -> str | None:
    """What all steps that have the key name under it; None where they name nothing, or several."""
    found = {str(step[key]) for step in told if step.get(key) is not None}
    return found.pop() if len(found) == 1 else None
