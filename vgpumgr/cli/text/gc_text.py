"""gc for people: the plan's lines, the last line."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vgpumgr.cli.text.plan_text import instance_lines
from vgpumgr.cli.text.words import counted
from vgpumgr.errors import Outcome

if TYPE_CHECKING:
    from collections.abc import Iterator

    from vgpumgr.controller.results import ChangeResult, Planned
    from vgpumgr.core.plan.cached import FreePlan


def lines(planned: Planned[FreePlan]) -> Iterator[str]:
    """The head and one line per instance that goes."""
    yield planned.host if planned.plan.gpu is None else f"GPU {planned.plan.gpu} of {planned.host}"
    for text in instance_lines(planned.plan):
        yield f"  {text}"


def closing(result: ChangeResult[FreePlan], elapsed_s: float) -> str:
    """The last line."""
    plan = result.planned.plan
    where = plan.host if plan.gpu is None else f"GPU {plan.gpu} of {plan.host}"
    holds = "stays, since it holds a vGPU" if plan.in_use == 1 else "stay, since they hold vGPUs"
    stay = f" {counted(plan.in_use, 'GPU instance')} {holds}." if plan.in_use else ""
    match result.outcome:
        case Outcome.WOULD_CHANGE:
            return f"would change; nothing was written (--check).{stay}"
        case Outcome.UNCHANGED:
            return f"{where} has no cached GPU instance. Nothing to do.{stay}"
        case Outcome.DONE:
            return f"done in {elapsed_s:.1f} s.{stay}"
