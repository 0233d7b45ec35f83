"""A cordon for people: the plan's lines, the last line."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vgpumgr.core import step as steps
from vgpumgr.errors import Outcome

if TYPE_CHECKING:
    from collections.abc import Iterator

    from vgpumgr.controller.results import ChangeResult, Planned
    from vgpumgr.core.gpu.cordon_plan import CordonPlan


def lines(planned: Planned[CordonPlan]) -> Iterator[str]:
    """The head and one line per step."""
    yield _where(planned.plan)
    for text in step_lines(planned.plan):
        yield f"  {text}"


def step_lines(plan: CordonPlan) -> Iterator[str]:
    """One line per step."""
    for step in plan.steps:
        if isinstance(step, steps.SetCordon):
            if step.expect is not None:
                yield f"- cordon  {step.expect.reason} ({step.expect.by}, {step.expect.at})"
            if step.cordon is not None:
                yield f"+ cordon  {step.cordon.reason}"


def closing(result: ChangeResult[CordonPlan], elapsed_s: float) -> str:
    """The last line."""
    plan, where = result.planned.plan, _where(result.planned.plan)
    match result.outcome:
        case Outcome.WOULD_CHANGE:
            return "dry run: nothing was changed (--check)."
        case Outcome.UNCHANGED if plan.cordon is not None:
            reason = f"{plan.cordon.reason} ({plan.cordon.by}, {plan.cordon.at})"
            return f"{where} is cordoned already: {reason}. Nothing to do."
        case Outcome.UNCHANGED:
            return f"{where} is not cordoned. Nothing to do."
        case Outcome.DONE if plan.cordon is None:
            return f"done in {elapsed_s:.1f} s. {where} takes new vGPUs again{_except(plan)}."
        case Outcome.DONE:
            return f"done in {elapsed_s:.1f} s. {where} takes no new vGPUs; existing ones stay."


def _except(plan: CordonPlan) -> str:
    return f", except on {' and '.join(str(one.vf or one.gpu) for one in plan.stay)}" if plan.stay else ""


def _where(plan: CordonPlan) -> str:
    return plan.host if plan.gpu is None else f"{plan.about} of {plan.host}"
