"""What somebody asks for many slots of one host at once: each job's plan, by the functions that attach and detach use.

Unlike attach, which wants --replace for it, asking for another profile here *is* asking for the exchange.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from vgpumgr import errors
from vgpumgr.core.driver import profiles
from vgpumgr.core.model.observed import Finding
from vgpumgr.core.plan import attaching, detaching, gpu_choice, targets
from vgpumgr.core.plan import plan as plans
from vgpumgr.core.reconcile import jobs

if TYPE_CHECKING:
    from vgpumgr.core.inventory import HostDeclaration
    from vgpumgr.core.model.observed import HostView
    from vgpumgr.core.plan.plan import Plan
    from vgpumgr.core.reconcile.jobs import Give, Run, Take


def plan_give(view: HostView, declared: HostDeclaration, job: Give, run: Run) -> Plan:
    """What gives the slot the wish. Where the very same is declared, the declaration is carried out, with its options.

    Raises ConflictingClaim where something else is declared, and what plan_attach raises.
    """
    domain = plans.find_domain(view, job.uuid)
    slot = jobs.declaration(declared, job.vm, job.slot)
    if slot is not None and not profiles.same_wish(slot.wish, job.wish):
        raise errors.ConflictingClaim(
            f"{job.vm} slot {job.slot} is declared with {profiles.describe(slot.wish)} ({slot.where})",
            hint="change the inventory, or ask for another slot",
        )
    request = targets.AttachRequest(
        vm=job.uuid,
        slot=job.slot,
        wish=job.wish,
        origin=jobs.ATTACH if slot is None else jobs.INVENTORY,
        by=run.by,
        at=run.at,
        policy=(slot.policy if slot else None) or declared.policy,
        gpus=gpu_choice.named(view.snapshot, slot.gpu_id if slot else None),
        site=declared.site if slot else None,
        declared=declared.vms_from if slot else None,
    )
    claim = domain.claim(job.slot)
    if claim in jobs.own_claims(view, domain) and not targets.serves(claim, request):
        request = replace(request, replace=True)
    return attaching.plan_attach(view, request)


def plan_take(view: HostView, declared: HostDeclaration, job: Take, run: Run) -> Plan:
    """What frees the slot; what declares it is a finding, since reconcile would give it back. Raises as plan_detach."""
    gone = job.vm if view.domain(job.uuid) is None else None
    request = detaching.DetachRequest(vm=job.uuid, slots=(job.slot,), by=run.by, at=run.at, gone=gone)
    plan = detaching.plan_detach(view, request)
    slot = jobs.declaration(declared, job.vm, job.slot)
    if slot is None:
        return plan
    text = f"{job.vm} slot {job.slot} is declared ({slot.where}): the next reconcile gives it back"
    found = Finding(kind="declared", host=view.snapshot.host, vm=job.vm, slot=job.slot, text=text)
    return replace(plan, findings=(*plan.findings, found))
