"""A fleet's plan for people: what differs on each host, why, and the steps; the last lines summarize."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vgpumgr.cli.text import cordon_text, mode_text, plan_text, scheduler_text, words
from vgpumgr.cli.text.tally import is_good, tally
from vgpumgr.core import step as plan_steps
from vgpumgr.core.gpu.cordon_plan import CordonPlan
from vgpumgr.core.gpu.gpu_plan import GpuPlan
from vgpumgr.core.gpu.instance_plan import InstancePlan
from vgpumgr.core.gpu.mode_plan import ModePlan
from vgpumgr.core.gpu.scheduler import SchedulerPlan
from vgpumgr.core.reconcile.tasks import KeepInstances, SetGpuMode, SetGpuScheduler
from vgpumgr.core.slot.reserving import ReservationPlan
from vgpumgr.errors import Outcome

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from vgpumgr.controller.results import FleetPlan, FleetResult, TaskResult
    from vgpumgr.core.reconcile.adopt import AdoptPlan
    from vgpumgr.core.reconcile.host_plan import HostPlan
    from vgpumgr.core.reconcile.planned import PlannedTask
    from vgpumgr.core.slot.plan import Plan


def lines(fleet: FleetPlan, *, diff: bool) -> Iterator[str]:
    """Every host with something to do, its tasks, and a last line of totals; no lines if nothing is to be done."""
    for plan in fleet.plans:
        yield from host_lines(plan, diff=diff)
    if fleet.changed:
        yield f"Plan: {counted(fleet)}."


def host_lines(plan: HostPlan, *, diff: bool) -> Iterator[str]:
    """One host's tasks that have something to do, each with its steps."""
    planned_tasks = [planned for planned in plan.tasks if planned.steps]
    if planned_tasks:
        yield plan.host
    for planned in planned_tasks:
        yield f"  {planned.task.subject}, {planned.task.why}"
        for row in planned.drift:
            yield f"    {row.text()}"
        assert planned.plan is not None
        for text in _steps(planned.plan, diff=diff):
            yield f"    {text}"


def _steps(plan: Plan | GpuPlan | AdoptPlan | CordonPlan | ReservationPlan, *, diff: bool) -> Iterator[str]:
    if isinstance(plan, InstancePlan):
        return plan_text.instance_lines(plan)
    if isinstance(plan, CordonPlan):
        return cordon_text.step_lines(plan)
    if isinstance(plan, ReservationPlan):
        return (f"- reserved {step.vgpu.vm_name}" for step in plan.steps if isinstance(step, plan_steps.SetReservation))
    if isinstance(plan, ModePlan):
        return mode_text.step_lines(plan)
    if isinstance(plan, SchedulerPlan):
        return scheduler_text.step_lines(plan, diff=diff)
    assert not isinstance(plan, GpuPlan)
    return plan_text.step_lines(plan, diff=diff)


def counted(fleet: FleetPlan) -> str:
    """`2 to create, 1 to destroy, 2 instances to create, 4 to remove, 3 to repair in place; 1 host not read`."""
    steps = [step for plan in fleet.plans for step in plan.steps]
    creations = sum(isinstance(step, plan_steps.CreateVgpu) for step in steps) - _evacuated(steps)
    removals = sum(step.destroys for step in steps)
    planned_tasks = [planned for plan in fleet.plans for planned in plan.tasks if planned.steps]
    notes = sum(_is_note(planned) for planned in planned_tasks)
    others = sum(map(_is_other, planned_tasks)) - notes
    parts = [f"{creations} to create", f"{removals} to destroy", *_instances(steps)]
    if others:
        parts.append(f"{others} to repair in place")
    if notes:
        parts.append(f"{words.counted(notes, 'slot')} to wait for room")
    return ", ".join(parts) + unread(fleet)


def _instances(steps: Sequence[plan_steps.Step]) -> Iterator[str]:
    """`2 instances to create`, `4 to remove`. Only hardware counts, not a mere entry of the ledger."""
    creations = sum(isinstance(step, plan_steps.CreateInstance) and step.expect == plan_steps.EMPTY for step in steps)
    removals = sum(isinstance(step, plan_steps.DestroyInstance) and step.expect == plan_steps.PRESENT for step in steps)
    if creations:
        yield f"{words.counted(creations, 'instance')} to create"
    if removals:
        yield f"{removals} to remove" if creations else f"{words.counted(removals, 'instance')} to remove"


def _evacuated(steps: list[plan_steps.Step]) -> int:
    """How many vGPUs are moved out and back. They count as neither created nor destroyed."""
    back = {step.vgpu.key for step in steps if isinstance(step, plan_steps.CreateVgpu)}
    return sum(isinstance(step, plan_steps.EvacuateVgpu) and step.vgpu.key in back for step in steps)


def _is_note(planned: PlannedTask) -> bool:
    return all(isinstance(step, plan_steps.SetWait) and step.wait is not None for step in planned.steps)


def _is_other(planned: PlannedTask) -> bool:
    return not isinstance(planned.plan, InstancePlan) and not any(
        isinstance(step, plan_steps.CreateVgpu) or step.destroys for step in planned.steps
    )


def unread(fleet: FleetPlan) -> str:
    """`; 2 hosts not read`, for a line about the others."""
    return f"; {words.counted(len(fleet.errors), 'host')} not read" if fleet.errors else ""


def disturbs(fleet: FleetPlan) -> str:
    """What a plan that needs confirmation does, with numbers."""
    removals = sum(step.destroys for plan in fleet.plans for step in plan.steps)
    moves = sum(_evacuated([*plan.steps]) for plan in fleet.plans)
    if removals:
        what = f"removes {words.counted(removals, 'vGPU')}"
    elif moves:
        what = f"takes out {words.counted(moves, 'idle vGPU')} for a moment"
    else:
        what = "changes settings of GPUs or devices of VMs"
    return f"this plan {what} ({counted(fleet)})"


def closing(result: FleetResult, elapsed_s: float, then: str | None = None) -> Iterator[str]:
    """The last line: the state after the run. `then`: the command that carries out what was only planned."""
    failures = result.failed
    task_results = [one for _, one in result.tasks]
    outcomes = [one.outcome for one in task_results]
    if result.check and result.fleet.changed:
        would = "" if is_good(outcomes) else f"{tally(outcomes)}; "
        yield (
            f"{would}dry run: nothing was changed (--check)."
            if then is None
            else f"{would}dry run: nothing was changed. `{then}` does it."
        )
        return
    hosts = words.counted(len(result.fleet.plans), "host")
    if not result.fleet.changed and not failures and not result.errors and is_good(outcomes):
        yield f"{hosts}: {_wanted(task_results)}{_waiting(outcomes.count(Outcome.WAITING))}."
        return
    yield f"{hosts} in {elapsed_s:.1f} s: {tally(outcomes) or 'nothing to do'}{unread(result.fleet)}."


def _waiting(number: int) -> str:
    return f"; {number} {'waits' if number == 1 else 'wait'} for a GPU or VM in use" if number else ""


def _wanted(results: Sequence[TaskResult]) -> str:
    """`8 vGPUs and 2 schedulers in sync`."""
    task_results = [one for one in results if one.outcome != Outcome.WAITING]
    shares = sum(isinstance(task_result.planned.task, SetGpuScheduler) for task_result in task_results)
    modes = sum(isinstance(task_result.planned.task, SetGpuMode) for task_result in task_results)
    layouts = sum(isinstance(task_result.planned.task, KeepInstances) for task_result in task_results)
    vgpus = len(task_results) - shares - modes - layouts
    numbers = ((vgpus, "vGPU"), (shares, "scheduler"), (modes, "mode"), (layouts, "layout"))
    parts = [words.counted(number, noun) for number, noun in numbers if number]
    return (
        f"{' and '.join(parts)} in sync"
        if parts
        else "nothing else is declared or attached there"
        if results
        else "nothing is declared or attached there"
    )
