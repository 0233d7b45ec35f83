"""What attach, detach, adopt, cordon and `scheduler set` print once they are done, and their exit code."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vgpumgr.cli.text import output
from vgpumgr.errors import Outcome

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from vgpumgr.cli.settings import Settings
    from vgpumgr.controller.results import ChangeResult, ModeResult, SchedulerResult
    from vgpumgr.core.plan.cordons import CordonPlan
    from vgpumgr.core.plan.plan import Plan
    from vgpumgr.core.reconcile.adopt import AdoptPlan

VGPUS = ("vm", "slot", "host", "gpu", "type_name", "state")


def print_vgpus(
    settings: Settings, result: ChangeResult[Plan] | ChangeResult[AdoptPlan], closing: str, empty: Mapping[str, object]
) -> int:
    """Print the vGPUs after the change; `empty` is the row if there is none."""
    from vgpumgr.documents import common

    rows = [common.plain(row) for row in result.rows] or [empty]
    return print_rows(settings, result, closing, rows, columns=VGPUS, wide=VGPUS, name="vm")


def print_rows(
    settings: Settings,
    result: ChangeResult[Plan] | ChangeResult[AdoptPlan] | ChangeResult[CordonPlan] | SchedulerResult | ModeResult,
    closing: str,
    rows: Sequence[Mapping[str, object]],
    *,
    columns: Sequence[str],
    wide: Sequence[str],
    name: str,
) -> int:
    """Print the findings and the last line, `closing`, for people; the document or the rows for programs."""
    if settings.for_people:
        output.print_findings(settings, result.findings)
        output.echo(closing)
    else:
        from vgpumgr.documents import change

        document = change.document(result, check=settings.check)
        output.print_rows(settings, document, rows, columns=columns, wide=wide, name=name)
    return 3 if result.outcome == Outcome.WOULD_CHANGE else 0
