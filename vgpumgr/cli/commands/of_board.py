"""`mode set` and `scheduler set` with --board."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from vgpumgr.cli.params import asking
from vgpumgr.cli.rows import fleet_result
from vgpumgr.cli.rows.runs import RECONCILE
from vgpumgr.cli.text import output
from vgpumgr.cli.text.words import counted

if TYPE_CHECKING:
    from vgpumgr.cli.settings import Settings
    from vgpumgr.controller.of_board import BoardOptions
    from vgpumgr.controller.results import Consent, FleetPlan


def run(settings: Settings, options: BoardOptions) -> int:
    """Set it, print what came of it; the result is the exit code."""
    from vgpumgr.cli.text import fleet_text
    from vgpumgr.cli.wiring import build_context
    from vgpumgr.controller import of_board as use_case

    started = time.monotonic()
    result = use_case.set_on_board(build_context(settings), options, _consent(settings, options.task.verb))
    if settings.for_people:
        output.print_findings(settings, [one for plan in result.fleet.plans for one in plan.findings])
        output.print_findings(settings, result.findings)
        fleet_result.print_problems(settings, result)
        for line in fleet_text.closing(result, time.monotonic() - started):
            output.echo(line)
    else:
        fleet_result.print_rows(settings, result, RECONCILE, what="hosts or GPUs are not as requested")
    return result.exit_code


def _consent(settings: Settings, verb: str) -> Consent[FleetPlan]:
    from vgpumgr.cli.text import fleet_text
    from vgpumgr.controller.results import Consent

    def show(fleet: FleetPlan) -> None:
        if settings.for_people:
            output.plan_lines(settings, fleet_text.lines(fleet, diff=settings.diff))

    def ask(fleet: FleetPlan) -> None:
        number = sum(bool(task.steps) for plan in fleet.plans for task in plan.tasks)
        question = f"Set the {verb} of {counted(number, 'GPU')}?"
        asking.confirm(settings, question, why=fleet_text.disturbs(fleet), hint=asking.SEE_FIRST)

    return Consent(check=settings.check, show=show, ask=ask, given=settings.yes)
