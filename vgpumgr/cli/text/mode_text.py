"""The output of `mode set` for people: the lines of the plan, and the last line."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vgpumgr.cli.text.plan_text import slices
from vgpumgr.cli.text.vgpu_moves import gpu_lines, move_line, place_text, vgpu_text
from vgpumgr.core import step as steps
from vgpumgr.core.driver import modes
from vgpumgr.errors import Outcome

if TYPE_CHECKING:
    from collections.abc import Iterator

    from vgpumgr.controller.results import ModeResult, Planned
    from vgpumgr.core.gpu.mode_plan import ModePlan


def lines(planned: Planned[ModePlan]) -> Iterator[str]:
    """The lines of the plan: a heading, then one line for each step."""
    return gpu_lines(planned, step_lines(planned.plan))


def step_lines(plan: ModePlan) -> Iterator[str]:
    """One line for each step of the plan. In a plan that concerns MIG mode some steps have none."""
    if modes.of(plan.mode).mig_backed or any(isinstance(step, steps.MigStep) for step in plan.steps):
        yield from (line for step in plan.steps if (line := _mig_line(step)) is not None)
        return
    for step in plan.steps:
        if isinstance(step, steps.SetMode):
            yield f"~ mode    {step.expect} -> {step.mode}"
            for evacuation in step.around:
                yield f"{move_line(evacuation, plan.steps, maybe=True)}"
        elif isinstance(step, steps.PutClaim):
            yield f"~ claim   {step.vm_name} {step.claim.slot}: {place_text(step.claim.binding.placement_id)}"
        else:
            yield move_line(step, plan.steps)


def _mig_line(step: steps.Step) -> str | None:
    """The line for one step of a plan that concerns MIG mode.

    None for steps that change claims and definitions: the line for the vGPU covers them.
    """
    match step:
        case steps.SetVfs():
            return "+ VFs      by sriov-manage" if step.on else "- VFs      by sriov-manage, until the mode is set"
        case steps.SetMig():
            return f"~ MIG      {'on' if step.on else 'off'}"
        case steps.ResetGpu():
            return "~ reset    of this GPU alone"
        case steps.EvacuateVgpu() | steps.DestroyVgpu(expect=steps.PRESENT):
            return f"- vGPU     {vgpu_text(step.vgpu)}"
        case steps.DestroyInstance():
            remark = "" if step.expect == steps.PRESENT else "      already gone; only its ledger entry is removed"
            return f"- instance {slices(step)}{remark}"
        case steps.CreateInstance():
            return f"+ instance {slices(step)}"
        case steps.CreateVgpu():
            return f"+ vGPU     {vgpu_text(step.vgpu)}"
        case _:
            return None


def closing(result: ModeResult, elapsed_s: float) -> str:
    """The last line, which says how it went."""
    plan = result.planned.plan
    mode = f"{modes.of(plan.mode).words} mode"
    match result.outcome:
        case Outcome.UNCHANGED:
            return f"GPU {plan.gpu.pci} on {result.planned.host} is in {mode}. Nothing to do."
        case Outcome.WOULD_CHANGE:
            return "dry run: nothing was changed (--check)."
        case Outcome.DONE:
            return f"done in {elapsed_s:.1f} s. GPU {plan.gpu.pci} is in {mode}."
