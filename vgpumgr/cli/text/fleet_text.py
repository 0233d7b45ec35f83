"""A fleet's plan for people: what differs on each host, why, and the steps; the last lines summarize."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from vgpumgr.cli.text import plan_text, scheduler_text
from vgpumgr.core.plan import changes
from vgpumgr.core.plan.scheduling import GpuPlan
from vgpumgr.core.reconcile.jobs import Share

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from vgpumgr.controller.results import FleetPlan, ReconcileResult, UnitResult
    from vgpumgr.core.plan.plan import Plan
    from vgpumgr.core.reconcile.adopting import AdoptPlan
    from vgpumgr.core.reconcile.reconciling import HostPlan, Unit


def lines(fleet: FleetPlan, *, diff: bool) -> Iterator[str]:
    """Every host with something to do, its jobs, and a last line of totals. There are no lines if nothing is to be done."""
    for plan in fleet.plans:
        yield from _host(plan, diff=diff)
    if fleet.changed:
        yield f"Plan: {counted(fleet)}."


def _host(plan: HostPlan, *, diff: bool) -> Iterator[str]:
    units = [unit for unit in plan.units if unit.steps]
    if units:
        yield plan.host
    for unit in units:
        yield f"  {unit.job.subject}, {unit.job.why}"
        for row in unit.drift:
            yield f"    {row.text()}"
        assert unit.plan is not None
        for text in _steps(unit.plan, diff=diff):
            yield f"    {text}"


def _steps(plan: Plan | GpuPlan | AdoptPlan, *, diff: bool) -> Iterator[str]:
    if isinstance(plan, GpuPlan):
        return scheduler_text.step_lines(plan, diff=diff)
    return plan_text.step_lines(plan, diff=diff)


def counted(fleet: FleetPlan) -> str:
    """`2 to create, 1 to destroy, 3 to repair in place; 1 host not read`."""
    steps = [step for plan in fleet.plans for step in plan.steps]
    made = sum(isinstance(step, changes.CreateVgpu) for step in steps) - _parked(steps)
    gone = sum(changes.destroys(step) for step in steps)
    others = sum(_is_other(unit) for plan in fleet.plans for unit in plan.units if unit.steps)
    parts = [f"{made} to create", f"{gone} to destroy"]
    if others:
        parts.append(f"{others} to repair in place")
    return ", ".join(parts) + _unread(fleet)


def _parked(steps: list[changes.Step]) -> int:
    """A vGPU that is moved out and back counts as neither created nor destroyed."""
    return sum(isinstance(step, changes.ParkVgpu) for step in steps)


def _is_other(unit: Unit) -> bool:
    return not any(isinstance(step, changes.CreateVgpu) or changes.destroys(step) for step in unit.steps)


def _unread(fleet: FleetPlan) -> str:
    count = len(fleet.errors)
    return f"; {count} host{'' if count == 1 else 's'} not read" if count else ""


def closing(result: ReconcileResult, elapsed_s: float) -> Iterator[str]:
    """The last line: the state after the run."""
    failed = result.failed
    if result.check and result.fleet.changed:
        yield "would change; nothing was written (--check)."
        return
    units = [unit for host in result.hosts for unit in host.units]
    count = Counter(unit.outcome for unit in units)
    hosts = f"{len(result.fleet.plans)} host{'' if len(result.fleet.plans) == 1 else 's'}"
    if not result.fleet.changed and not failed and not result.errors:
        yield f"{hosts}: {_wanted(units)}."
        return
    parts = [f"{number} {outcome.replace('_', ' ')}" for outcome, number in sorted(count.items())]
    yield f"{hosts} in {elapsed_s:.1f} s: {', '.join(parts) or 'nothing to do'}{_unread(result.fleet)}."


def _wanted(units: Sequence[UnitResult]) -> str:
    """`8 vGPUs and 2 schedulers are as wanted`."""
    shares = sum(isinstance(unit.unit.job, Share) for unit in units)
    parts = [
        f"{number} {word}{'' if number == 1 else 's'}"
        for number, word in ((len(units) - shares, "vGPU"), (shares, "scheduler"))
        if number
    ]
    return (
        f"{' and '.join(parts)} {'is' if len(units) == 1 else 'are'} as wanted"
        if parts
        else "nothing is declared or attached there"
    )
