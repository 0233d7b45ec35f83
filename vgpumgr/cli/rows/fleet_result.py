"""What reconcile and gc print about a whole fleet once they are done."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vgpumgr.cli.rows import printing
from vgpumgr.cli.text import output

if TYPE_CHECKING:
    from vgpumgr.cli.rows.column import View
    from vgpumgr.cli.settings import Settings
    from vgpumgr.controller.results import FleetResult


def print_rows(settings: Settings, result: FleetResult, view: View, *, what: str) -> None:
    """For programs: the document or its rows, and the errors. `what` names the errors if there are several."""
    from vgpumgr.documents import change

    printing.print_rows(settings, view, change.of_fleet(result))
    told = "the details name each; `errors` and `result` on stdout are complete"
    output.print_errors(settings, result.problems, what=what, hint=told)


def print_problems(settings: Settings, result: FleetResult) -> None:
    """For people: what failed, each with its host and subject."""
    for host, task_result in result.failed:
        assert task_result.error is not None
        output.print_error(settings, task_result.error, about=(host, task_result.planned.task.subject))
    output.print_errors(settings, [error for _, error in result.errors])
    if result.guard is not None:
        output.print_error(settings, result.guard)
