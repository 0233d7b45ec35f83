"""Plans for what a user requests of a slot, alone or among many, combined with the inventory's declaration of that slot."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from vgpumgr import errors
from vgpumgr.core.driver import profiles
from vgpumgr.core.model import claims
from vgpumgr.core.model.observed import Finding
from vgpumgr.core.plan import attaching, detaching, gpu_choice, targets
from vgpumgr.core.plan import plan as plans
from vgpumgr.core.reconcile import jobs
from vgpumgr.core.reconcile.jobs import Replace

if TYPE_CHECKING:
    from vgpumgr.core.inventory import HostDeclaration
    from vgpumgr.core.model.domain_xml import Domain
    from vgpumgr.core.model.observed import HostView
    from vgpumgr.core.plan.plan import Plan
    from vgpumgr.core.reconcile.jobs import Give, Run, Take
    from vgpumgr.names import Slot


def plan_give(view: HostView, declared: HostDeclaration, job: Give, run: Run) -> Plan:
    """Plan the steps that give the slot the wish. If the same wish is declared, the declaration applies, with its options.

    Raises ConflictingClaim if something else is declared, and what plan_attach raises.
    """
    domain = plans.find_domain(view, job.uuid)
    slot = jobs.declaration(declared, job.vm, job.slot)
    if slot is not None and not profiles.same_wish(slot.wish, job.wish):
        raise errors.ConflictingClaim(
            f"{job.vm} slot {job.slot} is declared with {profiles.describe(slot.wish)} ({slot.where})",
            hint="change the inventory, or use another slot",
        )
    request = targets.AttachRequest(
        vm=job.uuid,
        slot=job.slot,
        wish=job.wish,
        origin=claims.ATTACH if slot is None else claims.INVENTORY,
        by=run.by,
        at=run.at,
        policy=(slot.policy if slot else None) or declared.policy,
        gpus=gpu_choice.named(view.snapshot, job.gpu_id or (slot.gpu_id if slot else None)),
        site=declared.site if slot else None,
        declared=declared.vms_from if slot else None,
        even_if_it_will_not_start=job.even_if_it_will_not_start,
    )
    return attaching.plan_attach(view, replace(request, replace=_replaces(view, domain, job, request)))


def _replaces(view: HostView, domain: Domain, job: Give, request: targets.AttachRequest) -> bool:
    if job.replace is not Replace.IF_OTHER:
        return job.replace is Replace.ALWAYS
    claim = domain.claim(job.slot)
    return claim in jobs.own_claims(view, domain) and not targets.serves(claim, request)


def plan_take(view: HostView, declared: HostDeclaration, job: Take, run: Run) -> Plan:
    """Plan the steps that free the slots; a declared slot is a finding, since reconcile will attach it again.

    Raises as plan_detach does, and UnknownSlot if no slot is named but the VM has several.
    """
    domain = view.domain(job.uuid)
    slots = _slots(plans.slots_of(view, domain or plans.GoneVm(name=job.vm, uuid=job.uuid)), job)
    request = detaching.DetachRequest(
        vm=job.uuid,
        slots=slots,
        by=run.by,
        at=run.at,
        keep_snapshots=job.keep_snapshots,
        gone=job.vm if domain is None else None,
    )
    plan = detaching.plan_detach(view, request)
    found = []
    for name in slots:
        slot = jobs.declaration(declared, job.vm, name)
        if slot is not None:
            text = f"{job.vm} slot {name} is declared ({slot.where}): the next reconcile will attach it again"
            found.append(Finding(kind="declared", host=view.snapshot.host, vm=job.vm, slot=name, text=text))
    return replace(plan, findings=(*plan.findings, *found))


def _slots(have: tuple[Slot, ...], job: Take) -> tuple[Slot, ...]:
    if job.slot is not None:
        return (job.slot,)
    if len(have) > 1 and not job.every:
        raise errors.UnknownSlot(
            f"{job.vm} has {len(have)} slots: {', '.join(have)}", hint="name one (--slot), or free all (--all)"
        )
    return have
