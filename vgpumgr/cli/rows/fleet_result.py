"""What reconcile and gc print about a whole fleet once they are done."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vgpumgr.cli.rows import printing
from vgpumgr.cli.text import output

if TYPE_CHECKING:
    from collections.abc import Iterator

    from vgpumgr.cli.rows.column import View
    from vgpumgr.cli.settings import Settings
    from vgpumgr.cli.text.alike import Failed
    from vgpumgr.controller.results import FleetResult


def print_rows(settings: Settings, result: FleetResult, view: View, *, what: str) -> None:
    """For programs: the document or its rows, and the errors. `what` names the errors if there are several."""
    from vgpumgr.documents import change

    printing.print_rows(settings, view, change.of_fleet(result))
    told = "the details name each; `errors` and `result` on stdout are complete"
    output.print_errors(settings, result.problems, what=what, hint=told)


def print_problems(settings: Settings, result: FleetResult) -> None:
    """For people: what failed, each with its host and subject."""
    output.print_failed(settings, _failed(result))
    output.print_errors(settings, [error for _, error in result.errors])
    if result.guard is not None:
        output.print_error(settings, result.guard)


def _failed(result: FleetResult) -> Iterator[Failed]:
    from vgpumgr.cli.text.alike import Failed
    from vgpumgr.core.reconcile.tasks import OfSlot

    for host, found in result.failed:
        task = found.planned.task
        assert found.error is not None
        vm = task.vm if isinstance(task, OfSlot) else None
        yield Failed(host=host, vm=vm, subject=task.subject, error=found.error)
