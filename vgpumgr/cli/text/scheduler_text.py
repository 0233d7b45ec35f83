"""A GPU's scheduler for people: the plan's lines, the last line, a table's cells."""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING

from vgpumgr.cli.text.vgpu_moves import move_line
from vgpumgr.core.driver import modprobe, scheduler
from vgpumgr.core.plan import step as steps
from vgpumgr.errors import Outcome

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from vgpumgr.controller.results import Planned, SchedulerResult
    from vgpumgr.core.plan.scheduler import GpuPlan
    from vgpumgr.core.report.schedulers import SchedulerRow


def lines(planned: Planned[GpuPlan], *, diff: bool) -> Iterator[str]:
    """The head and one line per step; with `diff` also the lines of the file that change."""
    plan = planned.plan
    yield f"GPU {plan.gpu.pci} on {planned.host} ({plan.gpu.board or plan.gpu.name or '?'}), requested {planned.requested}"
    for text in step_lines(plan, diff=diff):
        yield f"  {text}"


def step_lines(plan: GpuPlan, *, diff: bool) -> Iterator[str]:
    """One line per step; with `diff` also the lines of the file that change."""
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
            return f"would be granted: {plan.granted.text}; nothing was written (--check)."
        case Outcome.DONE:
            return f"done in {elapsed_s:.1f} s. Granted: {plan.granted.text}."


def cells(row: SchedulerRow) -> dict[str, object]:
    """A table's row. A value with a question mark was set but cannot be read back now; a dash is known to be none."""
    none = row.policy == scheduler.BEST_EFFORT
    set_to = row.remembered
    fixed = none or (set_to is not None and set_to.arr is False)
    slice_ns = set_to.time_slice_ns if set_to else None
    if set_to and set_to.frequency_hz and slice_ns is None:
        slice_ns = scheduler.slice_of(set_to.frequency_hz)
    found = row.persistent.found
    setting = row.persistent.setting
    return {
        "host": row.host,
        "gpu": row.pci,
        "board": row.board,
        "policy": row.policy,
        "slice": _cell(row.time_slice_ns, slice_ns, none=none, show=scheduler.show_ms),
        "freq": _cell(row.frequency_hz, set_to.frequency_hz if set_to else None, none=fixed, show=str),
        "factor": _cell(row.averaging_factor, set_to.averaging_factor if set_to else None, none=fixed, show=str),
        "persistent": ("-" if row.persistent.state else None)
        if found is None
        else (scheduler.describe(setting) if setting else found.text),
        "state": row.state if row.state != "undeclared" else "-",
        "declared": scheduler.describe_wish(row.declared) if row.declared else "-",
        "declared_where": row.declared_where or "-",
        "uuid": row.uuid,
        "value": found.text if found else "-",
        "file": (found.path if found else None) or "-",
    }


def _cell(seen: int | None, set_to: int | None, *, none: bool, show: Callable[[int], str]) -> str | None:
    if seen is not None:
        return show(seen)
    if set_to is not None:
        return f"{show(set_to)}?"
    return "-" if none else None


def _line(step: steps.Step, plan: GpuPlan) -> str:
    match step:
        case steps.SetScheduler():
            return f"~ policy  {step.expect.get('graphics') or '?'} -> {plan.granted.text}"
        case steps.WriteModprobe():
            mark = "+" if step.before is None else "~"
            value = f"{modprobe.KEY}=0x{scheduler.rm_pvmrl(plan.granted.setting):08x}"
            return f"{mark} boot    {step.path}: {value}      from the next load of the module on"
        case _:
            return move_line(step, plan.steps)


def _diff(step: steps.WriteModprobe) -> Iterator[str]:
    before, after = (step.before or "", step.text or "")
    for line in list(difflib.unified_diff(before.splitlines(), after.splitlines(), lineterm="", n=0))[2:]:
        yield f"    {line}"
