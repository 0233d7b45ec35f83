"""One line of the journal around one apply: begun before the first write to the host, ended whatever comes of it.

    with recorded(context, entry_of(plan.steps, verb="attach", why="asked --profile 4Q", host=host, vm=name, vm_uuid=uuid)):
        apply(session, plan)
        …                         # what decides whether it was done: the last look belongs inside

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

__all__ = ["Entry", "entry_of", "findings", "recorded"]


@contextmanager
def recorded(context: Context, entry: Entry) -> Iterator[None]:
    """Record what the block does; its exception passes through, and its class makes the outcome."""
    journal = context.journal
    if journal is None:
        yield
        return
    number = journal.begin(entry, by=context.by, at=context.now())
    try:
        yield
    except VgpumgrError as error:
        message = "\n".join((error.message, *error.details))
        name = type(error).__name__
        journal.end(number, at=context.now(), outcome=error.outcome, error=name, message=message)
        raise
    except Exception as error:
        journal.end(number, at=context.now(), outcome="failed", error=type(error).__name__, message=str(error))
        raise
    except BaseException as error:  # Ctrl-C and SIGTERM: what was done is undone by now
        journal.end(number, at=context.now(), outcome=runs.INTERRUPTED, error=type(error).__name__)
        raise
    journal.end(number, at=context.now(), outcome=runs.DONE)


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
