"""A GPU's mode for people: the plan's lines, the last line."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vgpumgr.cli.text.vgpu_moves import move_line, place_text
from vgpumgr.core.plan import step as steps
from vgpumgr.errors import Outcome

if TYPE_CHECKING:
    from collections.abc import Iterator

    from vgpumgr.controller.results import ModeResult, Planned
    from vgpumgr.core.plan.mode import ModePlan


def lines(planned: Planned[ModePlan]) -> Iterator[str]:
    """The head and one line per step."""
    plan = planned.plan
    yield f"GPU {plan.gpu.pci} on {planned.host} ({plan.gpu.board or plan.gpu.name or '?'}), requested {planned.requested}"
    for text in step_lines(plan):
        yield f"  {text}"


def step_lines(plan: ModePlan) -> Iterator[str]:
    """One line per step."""
    for step in plan.steps:
        if isinstance(step, steps.SetMode):
            yield f"~ mode    {step.before} -> {step.mode}"
            for evacuation in step.around:
                yield f"{move_line(evacuation, plan.steps, maybe=True)}"
        elif isinstance(step, steps.PutClaim):
            yield f"~ claim   {step.vm_name} {step.claim.slot}: {place_text(step.claim.binding.placement_id)}"
        else:
            yield move_line(step, plan.steps)


def closing(result: ModeResult, elapsed_s: float) -> str:
    """The last line."""
    plan = result.planned.plan
    match result.outcome:
        case Outcome.UNCHANGED:
            return f"GPU {plan.gpu.pci} on {result.planned.host} is in {plan.mode} mode. Nothing to do."
        case Outcome.WOULD_CHANGE:
            return "nothing was written (--check)."
        case Outcome.DONE:
            return f"done in {elapsed_s:.1f} s. GPU {plan.gpu.pci} is in {plan.mode} mode."
