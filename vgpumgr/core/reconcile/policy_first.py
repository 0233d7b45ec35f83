"""A plan for a wish with --compute where no GPU has that scheduler: first an idle GPU's scheduler is set.

Only a GPU without any vGPU and without a declared scheduler is taken, so that nobody's share of time changes and no
reconcile sets it back. For the others the refusal says whom it would change (core/explain/remedies.py).
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING

from vgpumgr import errors
from vgpumgr.core import simulate
from vgpumgr.core.driver.scheduler import SchedulerWish
from vgpumgr.core.gpu import scheduler
from vgpumgr.core.inventory import settings
from vgpumgr.core.placing import resolve
from vgpumgr.core.placing.no_place import Cause
from vgpumgr.names import GpuUuid

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from vgpumgr.core.gpu.scheduler import SchedulerRequest
    from vgpumgr.core.inventory import HostDeclaration
    from vgpumgr.core.model.view import HostView
    from vgpumgr.core.slot.plan import Plan
    from vgpumgr.core.slot.request import AttachRequest


def planner(
    declared: HostDeclaration, request: AttachRequest, plan_on: Callable[[HostView], Plan]
) -> Callable[[HostView], Plan]:
    """What plans the request as `plan_on` does and, if no GPU takes it, with another scheduler where that helps."""

    def plan(view: HostView) -> Plan:
        try:
            return plan_on(view)
        except errors.NoCapacity:
            with_scheduler = _plan(view, declared, request, plan_on)
            if with_scheduler is None:
                raise
            return with_scheduler

    return plan


def _plan(
    view: HostView, declared: HostDeclaration, request: AttachRequest, plan_on: Callable[[HostView], Plan]
) -> Plan | None:
    """Plan to set a GPU's scheduler, then to attach there. None if that does not help."""
    found = {one.gpu_uuid: one for one in _settable(view, declared, request)}
    all_set = view
    for one in found.values():
        all_set = simulate.apply(all_set, scheduler.plan_scheduler(all_set, one).steps)
    try:
        chosen = plan_on(all_set).placed if found else None
        if chosen is None or chosen.gpu.uuid not in found:
            return None
        first = scheduler.plan_scheduler(view, found[GpuUuid(chosen.gpu.uuid)])
        attach = plan_on(simulate.apply(view, first.steps))
    except errors.NoCapacity:
        return None
    placed = attach.placed and replace(attach.placed, why=chosen.why)  # the reason among all that could be set
    steps, findings = (*first.steps, *attach.steps), (*first.findings, *attach.findings)
    return replace(attach, steps=steps, findings=findings, placed=placed)


def _settable(view: HostView, declared: HostDeclaration, request: AttachRequest) -> Iterator[SchedulerRequest]:
    """The settings of the GPUs that nobody uses, and whose scheduler alone keeps the wish away."""
    policy, facts = request.conditions.compute, view.snapshot
    used = {entry.vgpu.gpu_uuid for entry in facts.ledger or ()} | {one.vgpu.gpu_uuid for one in facts.reservations}
    for gpu in facts.gpus:
        refusal = resolve.unmet(gpu, request.conditions)
        is_allowed = gpu.uuid is not None and request.gpus in (None, (gpu.uuid,))
        is_idle = not gpu.vgpus and gpu.uuid not in used
        is_undeclared = settings.deciding(gpu, declared.of_gpus, "scheduler") is None
        if refusal is None or refusal.cause is not Cause.OTHER_POLICY or policy is None:
            continue
        if is_allowed and is_idle and is_undeclared:
            one = scheduler.SchedulerRequest(gpu_uuid=GpuUuid(str(gpu.uuid)), wish=SchedulerWish(policy=policy))
            with suppress(errors.VgpumgrError):  # a GPU whose scheduler cannot be set is refused as it is
                scheduler.plan_scheduler(view, one)
                yield one
