"""`mode set` and `scheduler set` with --board."""

from __future__ import annotations

import time
from functools import partial
from typing import TYPE_CHECKING

from vgpumgr.cli.params import asking
from vgpumgr.cli.rows import fleet_result
from vgpumgr.cli.rows.runs import RECONCILE
from vgpumgr.cli.text.words import counted

if TYPE_CHECKING:
    from vgpumgr.cli.settings import Settings
    from vgpumgr.controller.of_board import BoardOptions
    from vgpumgr.controller.results import FleetPlan


def run(settings: Settings, options: BoardOptions) -> int:
    """Set the mode or the scheduler, and print the result. Returns the exit code."""
    from vgpumgr.cli.text import fleet_text
    from vgpumgr.cli.wiring import build_context
    from vgpumgr.controller import of_board as use_case

    start = time.monotonic()
    lines = partial(fleet_text.lines, diff=settings.diff)

    def sentences(fleet: FleetPlan) -> tuple[str, str]:
        number = sum(bool(task.steps) for plan in fleet.plans for task in plan.tasks)
        return f"Set the {options.task.verb} of {counted(number, 'GPU')}?", fleet_text.disturbs(fleet)

    consent = asking.consent_to(settings, lines, sentences, given=settings.yes)
    result = use_case.set_on_board(build_context(settings), options, consent)
    last_lines = fleet_text.closing(result, time.monotonic() - start)
    findings = ([one for plan in result.fleet.plans for one in plan.findings], result.findings)
    what = "hosts or GPUs are not as requested"
    return fleet_result.print_result(settings, result, RECONCILE, last_lines, what=what, findings=findings)
