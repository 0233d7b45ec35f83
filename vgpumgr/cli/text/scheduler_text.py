"""What the scheduler's commands print for people: the plan's lines and the last line."""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING

from vgpumgr.cli.text.vgpu_moves import gpu_lines, move_line
from vgpumgr.core import step as steps
from vgpumgr.core.driver import modprobe, scheduler
from vgpumgr.errors import Outcome

if TYPE_CHECKING:
    from collections.abc import Iterator

    from vgpumgr.controller.results import Planned, SchedulerResult
    from vgpumgr.core.gpu.scheduler import SchedulerPlan


def lines(planned: Planned[SchedulerPlan], *, diff: bool) -> Iterator[str]:
    """The head and one line per step; with `diff` also the lines that change in the modprobe file."""
    return gpu_lines(planned, step_lines(planned.plan, diff=diff))


def step_lines(plan: SchedulerPlan, *, diff: bool) -> Iterator[str]:
    """One line per step; with `diff` also the lines that change in the modprobe file."""
    for step in plan.steps:
        yield _line(step, plan)
        for evacuation in step.around if isinstance(step, steps.SetScheduler) else ():
            yield move_line(evacuation, plan.steps, maybe=True)
        if diff and isinstance(step, steps.WriteModprobe):
            yield from _diff(step)


def closing(result: SchedulerResult, elapsed_s: float) -> str:
    """The last line: the granted setting."""
    plan = result.planned.plan
    match result.outcome:
        case Outcome.UNCHANGED:
            return f"GPU {plan.gpu.pci} on {result.planned.host} already has it: {plan.granted.text}. Nothing to do."
        case Outcome.WOULD_CHANGE:
            return f"would be granted: {plan.granted.text}; dry run: nothing was changed (--check)."
        case Outcome.DONE:
            return f"done in {elapsed_s:.1f} s. Granted: {plan.granted.text}."


def _line(step: steps.Step, plan: SchedulerPlan) -> str:
    match step:
        case steps.SetScheduler():
            return f"~ policy  {step.expect.get('graphics') or '?'} -> {plan.granted.text}"
        case steps.WriteModprobe():
            mark = "+" if step.expect is None else "~"
            value = f"{modprobe.KEY}=0x{scheduler.rm_pvmrl(plan.granted.setting):08x}"
            return f"{mark} boot    {step.path}: {value}      at the next load of the module"
        case _:
            return move_line(step, plan.steps)


def _diff(step: steps.WriteModprobe) -> Iterator[str]:
    old, new = (step.expect or "", step.text or "")
    for line in list(difflib.unified_diff(old.splitlines(), new.splitlines(), lineterm="", n=0))[2:]:
        yield f"    {line}"
