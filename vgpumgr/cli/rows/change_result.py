"""What attach, detach, adopt, cordon, `mode set` and `scheduler set` print once they are done, and their exit code."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vgpumgr.cli.rows import printing, vgpus
from vgpumgr.cli.text import output
from vgpumgr.errors import Outcome

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from vgpumgr.cli.rows.cells import Row
    from vgpumgr.cli.rows.column import View
    from vgpumgr.cli.settings import Settings
    from vgpumgr.controller.results import ChangeResult
    from vgpumgr.core.reconcile.adopt import AdoptPlan
    from vgpumgr.core.slot.plan import Plan
    from vgpumgr.documents.change import AnyResult


def print_vgpus(
    settings: Settings, result: ChangeResult[Plan] | ChangeResult[AdoptPlan], closing: str, empty: Mapping[str, object]
) -> int:
    """Print the vGPUs after the change; `empty` is the row if there is none."""
    from vgpumgr.documents import common

    rows = [common.plain(row) for row in result.rows] or [empty]
    return print_rows(settings, result, closing, vgpus.CHANGE, rows)


def print_rows(
    settings: Settings,
    result: AnyResult,
    closing: str,
    view: View,
    rows: Sequence[Row] | None = None,
) -> int:
    """Print the findings, and the last line, `closing`, for people; the document or the rows for programs."""
    output.print_findings(settings, result.findings)
    if settings.for_people:
        output.echo(closing)
    else:
        from vgpumgr.documents import change

        printing.print_rows(settings, view, change.document(result, check=settings.check), rows)
    return 3 if result.outcome == Outcome.WOULD_CHANGE else 0
