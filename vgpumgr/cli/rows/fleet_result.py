"""What reconcile, gc and other commands for many hosts print once they are done."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vgpumgr.cli.rows import printing
from vgpumgr.cli.text import output

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from vgpumgr.cli.rows.column import View
    from vgpumgr.cli.settings import Settings
    from vgpumgr.cli.text.alike import Failed
    from vgpumgr.controller.results import FleetResult
    from vgpumgr.core.model.view import Finding

COMPLETE = "the details name each; `errors` and `result` on stdout are complete"


def print_result(
    settings: Settings,
    result: FleetResult,
    view: View,
    closing: Iterable[str],
    *,
    what: str,
    findings: Iterable[Iterable[Finding]],
) -> int:
    """Print the findings, and the result for people (failures, errors, the `closing` lines) or for programs (the
    document or its rows, and the errors). Returns the exit code. `what` follows the number of errors.
    """
    for group in findings:
        output.print_findings(settings, group)
    if settings.for_people:
        output.print_failed(settings, _failed(result))
        output.print_errors(settings, [error for _, error in result.errors])
        if result.guard is not None:
            output.print_error(settings, result.guard)
        for line in closing:
            output.echo(line)
    else:
        from vgpumgr.documents import change

        printing.print_rows(settings, view, change.of_fleet(result))
        output.print_errors(settings, result.problems, what=what, hint=COMPLETE)
    return result.exit_code


def _failed(result: FleetResult) -> Iterator[Failed]:
    from vgpumgr.cli.text.alike import Failed
    from vgpumgr.core.reconcile.tasks import OfSlot

    for host, outcome in result.failed:
        task = outcome.planned.task
        assert outcome.error is not None
        vm, slot = (task.vm, task.slot) if isinstance(task, OfSlot) else (None, None)
        yield Failed(host=host, vm=vm, slot=slot, subject=task.subject, error=outcome.error)
