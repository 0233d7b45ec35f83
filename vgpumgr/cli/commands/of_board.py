"""A change of many GPUs at once: `mode set` and `scheduler set` with --board, and `partition apply`."""

from __future__ import annotations

import time
from functools import partial
from typing import TYPE_CHECKING

from vgpumgr.cli.params import asking
from vgpumgr.cli.rows import fleet_result
from vgpumgr.cli.rows.runs import RECONCILE
from vgpumgr.cli.text.words import counted

if TYPE_CHECKING:
    from collections.abc import Callable

    from vgpumgr.cli.settings import Settings
    from vgpumgr.controller.context import Context
    from vgpumgr.controller.of_board import BoardOptions
    from vgpumgr.controller.results import Consent, FleetPlan, FleetResult


def run(settings: Settings, options: BoardOptions) -> int:
    """Set the mode or the scheduler, and print the result. Returns the exit code."""
    from vgpumgr.controller import of_board as use_case

    question = f"Set the {options.task.verb} of {{}}?"
    return carry_out(settings, question, lambda context, consent: use_case.set_on_board(context, options, consent))


def carry_out(
    settings: Settings,
    question: str,
    change: Callable[[Context, Consent[FleetPlan]], FleetResult],
    *,
    nothing: str | None = None,
) -> int:
    """Make a change and print the result. `question` has {} for `3 GPUs`. `nothing` is printed if there is no task."""
    from vgpumgr.cli.text import fleet_text
    from vgpumgr.cli.wiring import build_context

    start = time.monotonic()
    lines = partial(fleet_text.lines, diff=settings.diff)

    def sentences(fleet: FleetPlan) -> tuple[str, str]:
        gpus = {(plan.host, task.gpu) for plan in fleet.plans for task in plan.tasks if task.steps}
        return question.format(counted(len(gpus), "GPU")), fleet_text.disturbs(fleet)

    consent = asking.consent_to(settings, lines, sentences, given=settings.yes)
    result = change(build_context(settings), consent)
    is_idle = nothing is not None and not result.errors and not result.tasks
    last_lines = [str(nothing)] if is_idle else fleet_text.closing(result, time.monotonic() - start)
    findings = ([one for plan in result.fleet.plans for one in plan.findings], result.findings)
    what = "hosts or GPUs are not as requested"
    return fleet_result.print_result(settings, result, RECONCILE, last_lines, what=what, findings=findings)
