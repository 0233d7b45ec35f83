"""Plans that give a VM's slot what was declared for it or once bound to it, or free it once it is not declared."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Final

from vgpumgr import errors, names
from vgpumgr.core.commands import command, in_words
from vgpumgr.core.driver import profiles
from vgpumgr.core.evidence import ownership
from vgpumgr.core.gpu import gpu_choice
from vgpumgr.core.model import claims
from vgpumgr.core.placing import health
from vgpumgr.core.reconcile import drift as drifts
from vgpumgr.core.reconcile import tasks, waiting
from vgpumgr.core.reconcile.planned import PlannedTask
from vgpumgr.core.slot import attach, detach, targets, to_come, waits
from vgpumgr.core.slot import plan as plans
from vgpumgr.core.slot.request import AttachRequest, request_of
from vgpumgr.wording import say

if TYPE_CHECKING:
    from vgpumgr.core.inventory import HostDeclaration, SlotDeclaration
    from vgpumgr.core.model.claims import Claim
    from vgpumgr.core.model.domain_xml import Domain
    from vgpumgr.core.model.view import HostView
    from vgpumgr.core.reconcile.tasks import EnsureSlot, FinishDetach, PruneSlot
    from vgpumgr.core.slot.plan import Plan

_LATELY_DAYS: Final = 7


def plan_ensure(view: HostView, declared: HostDeclaration, task: EnsureSlot, author: tasks.Author) -> PlannedTask:
    """Serve the slot; if its declaration is refused, keep what it has. Raises DeclaredVmUnknown."""
    domain = view.vms.of_name(task.vm)
    if domain is None:
        where = say(" ({})", task.declared.where) if task.declared else ""
        near = names.nearest(task.vm, {item.name for item in view.domains})
        raise errors.DeclaredVmUnknown(
            say("{} has no VM '{}'{}", view.snapshot.host, task.vm, where),
            hint=f"did you mean {near}?" if near else "define it there, or remove it from the inventory",
        )
    try:
        request = _request(view, declared, domain, task, author)
    except errors.VgpumgrError as error:
        return _kept(view, declared, domain, task, error)
    again = partial(_plan_request, domain=domain, task=task, request=request)
    try:
        owner = view.owner(domain.uuid, domain.name)
        plan = to_come.planned(view, declared, again, owner, newcomer=task.wait is not None)
    except errors.VgpumgrError as error:
        refused = waiting.instead(view, declared, error, again) if isinstance(error, errors.NoCapacity) else error
        kept = _kept(view, declared, domain, task, refused)
        return _noted(domain, request, kept) if waits.may_pass(error) else kept
    return PlannedTask(
        task=task,
        plan=plan,
        drift=drifts.of_slot(view, domain, task.slot, request.wish, plan),
        unverified=health.why_unverified(view.snapshot, plan.target),
    )


def _plan_request(view: HostView, domain: Domain, task: EnsureSlot, request: AttachRequest) -> Plan:
    claim = domain.claim(task.slot)
    whole = claim is not None and claim.state == claims.BOUND and targets.serves(view, claim, request)
    if (task.declared is None and task.wait is None) or (whole and domain.managed_save):
        return attach.plan_mending(view, request)
    return attach.plan_attach(view, request)


def _kept(
    view: HostView, declared: HostDeclaration, domain: Domain, task: EnsureSlot, refused: errors.VgpumgrError
) -> PlannedTask:
    """Keep the slot's present vGPU intact while its declaration cannot be served."""
    claim = domain.claim(task.slot)
    refusal = PlannedTask(task=task, refused=refused)
    if task.declared is None or claim is None or claim.state != claims.BOUND:
        return refusal
    if (
        claim not in tasks.own_claims(view, domain)
        or ownership.is_reverted(view, domain, claim)
        or ownership.lacks_entry(view, domain, claim)
        or not profiles.is_served(claim.wish)
    ):
        return refusal
    request = request_of(domain, claim, policy=declared.policy)
    try:
        plan = attach.plan_mending(view, request)
    except errors.VgpumgrError:
        return refusal  # the first refusal is the one that counts
    return PlannedTask(
        task=task, plan=plan, refused=refused, drift=drifts.of_slot(view, domain, task.slot, claim.wish, plan)
    )


def _noted(domain: Domain, request: AttachRequest, kept: PlannedTask) -> PlannedTask:
    """The refused task, with the plan that notes since when its slot waits."""
    steps = waits.noted(domain, request)
    plan = plans.Plan(vm=domain, slot=request.slot, steps=steps, findings=())
    return replace(kept, note=plan) if steps else kept


def _declared_request(
    view: HostView,
    declared: HostDeclaration,
    domain: Domain,
    task: EnsureSlot,
    author: tasks.Author,
) -> AttachRequest:
    assert task.declared is not None
    slot_declared = task.declared
    return AttachRequest(
        vm=domain.uuid,
        slot=task.slot,
        wish=slot_declared.wish,
        origin=claims.INVENTORY,
        by=author.by,
        at=author.at,
        policy=declared.policy_of(slot_declared),
        gpus=gpu_choice.named(view.snapshot, slot_declared.gpu_id),
        site=declared.site,
        declared=declared.vms_from,
        conditions=slot_declared.conditions,
    )


def _old_request(declared: HostDeclaration, domain: Domain, task: EnsureSlot, author: tasks.Author) -> AttachRequest:
    """The request of an earlier attach, made again: from its claim, or from the wish that waits for room."""
    claim = domain.claim(task.slot)
    if claim is not None:
        return request_of(domain, claim, policy=declared.policy)
    assert task.wait is not None
    return AttachRequest(
        vm=domain.uuid,
        slot=task.slot,
        wish=task.wait.wish,
        origin=task.wait.origin,
        by=task.wait.by,
        at=author.at,
        policy=declared.policy,
        conditions=task.wait.conditions,
    )


def _request(
    view: HostView, declared: HostDeclaration, domain: Domain, task: EnsureSlot, author: tasks.Author
) -> AttachRequest:
    claim = domain.claim(task.slot)
    if task.declared is None:
        return _old_request(declared, domain, task, author)
    request = _declared_request(view, declared, domain, task, author)
    if claim is not None and _is_ours_here(view, domain, claim) and tasks.is_of_other_site(declared, claim):
        return _of_other_site(view, declared, domain, claim, request)
    if claim is not None and claim.origin == claims.INVENTORY and domain.managed_save:
        # Only the claim would be rewritten, but an image forbids every change of the definition.
        conditions = claim.conditions if targets.serves(view, claim, request) else request.conditions
        request = replace(request, site=claim.site, declared=claim.declared, conditions=conditions)
    if claim is None or targets.serves(view, claim, request) or not _is_ours_here(view, domain, claim):
        return request
    # Its detach could not be finished, and the plan says so.
    if claim.state == claims.LEAVING:
        return request
    if claim.origin == claims.INVENTORY:
        return replace(request, replace=True)
    targets.guard_offered(view, domain, request)
    raise _conflict(domain, task.declared, claim, request)


def _conflict(
    domain: Domain, declared: SlotDeclaration, claim: Claim, request: AttachRequest
) -> errors.ConflictingClaim:
    exchange = command("attach", domain.name, slot=claim.slot, options=(*request.options, "--replace"))
    return errors.ConflictingClaim(
        say(
            "{} slot {} has {}, attached by {} as {}, but is declared with {} ({})",
            domain.name,
            claim.slot,
            claim.binding.type_name,
            claim.by,
            claim.asked,
            declared.asked,
            declared.where,
        ),
        hint=say("`{}` carries out the declaration; or change the inventory", exchange),
    )


def _of_other_site(
    view: HostView, declared: HostDeclaration, domain: Domain, claim: Claim, request: AttachRequest
) -> AttachRequest:
    """The request that keeps the slot intact as the other site's, if both sites want the same.

    Raises ConflictingClaim if they do not.
    """
    if targets.serves(view, claim, request):
        return replace(request, site=claim.site, declared=claim.declared, conditions=claim.conditions)
    targets.guard_offered(view, domain, request)
    again = command("attach", domain.name, slot=claim.slot, options=(*request.options, "--replace"))
    raise errors.ConflictingClaim(
        say(
            "{} slot {} has {}, which the inventory of site {} declared, but is declared with {} by {}",
            domain.name,
            claim.slot,
            claim.binding.type_name,
            claim.site,
            in_words(request.options),
            tasks.site_text(declared),
        ),
        hint=say("remove it from one of the two inventories; `{}` makes it this one's", again),
    )


def _is_ours_here(view: HostView, domain: Domain, claim: Claim) -> bool:
    return not domain.copied and claim.binding.host == view.snapshot.machine


def _guard_other_controller(view: HostView, task: PruneSlot | FinishDetach, author: tasks.Author) -> None:
    """Raises OtherController if another controller's inventory declared the slot lately, without naming a site.

    Otherwise each of two controllers could remove every night what the other one gives, or that its slot waits.
    """
    domain = plans.find_domain(view, task.uuid)
    found = domain.claim(task.slot) or domain.wait(task.slot)
    if not isinstance(task, tasks.PruneSlot) or found is None or found.site is not None:
        return
    theirs, ours = found.by.rpartition("@")[2], author.by.rpartition("@")[2]
    age = _days(found.at, author.at)
    if theirs == ours or age is None or age > _LATELY_DAYS:
        return
    raise errors.OtherController(
        say(
            "{} slot {} was declared by {} on {}, and the inventory of {} does not declare it",
            domain.name,
            task.slot,
            found.by,
            found.at[:10],
            author.by,
        ),
        hint=say(
            "give each inventory a vgpumgr_site of its own: then it removes only what it declared itself; or `{}`",
            command("detach", domain.name, slot=task.slot, on=view.snapshot.host),
        ),
    )


def _days(earlier: str, later: str) -> float | None:
    """The days between two RFC 3339 times; None if either is not one."""
    try:
        return (datetime.fromisoformat(later) - datetime.fromisoformat(earlier)).total_seconds() / 86400
    except (ValueError, TypeError):
        return None


def plan_freeing(view: HostView, task: PruneSlot | FinishDetach, author: tasks.Author) -> PlannedTask:
    """Free a slot no longer declared, or whose detach has begun. Raises what a detach raises, and OtherController."""
    _guard_other_controller(view, task, author)
    domain = plans.find_domain(view, task.uuid)
    claim = domain.claim(task.slot)
    if isinstance(task, tasks.FinishDetach) and (claim is None or claim.state != claims.LEAVING):
        # Its detach was finished since, or a task before this one attached something.
        return PlannedTask(task=task, plan=plans.Plan(vm=domain, slot=task.slot, steps=(), findings=()))
    request = detach.DetachRequest(vm=task.uuid, slots=(task.slot,), by=author.by, at=author.at)
    plan = detach.plan_detach(view, request)
    why = drifts.of_undeclared if isinstance(task, tasks.PruneSlot) else drifts.of_half_freed
    drift = (why(view, domain, claim),) if claim is not None else ()
    return PlannedTask(task=task, plan=plan, drift=drift)
