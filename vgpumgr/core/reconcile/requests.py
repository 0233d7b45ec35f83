"""Plans for what a user requests of a slot, alone or among many, combined with the slot's declaration."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from vgpumgr import errors
from vgpumgr.core import simulate
from vgpumgr.core.commands import command
from vgpumgr.core.driver import profiles
from vgpumgr.core.driver.asking import NO_CONDITIONS
from vgpumgr.core.gpu import gpu_choice
from vgpumgr.core.model import claims
from vgpumgr.core.model.vgpu import ExactPlace
from vgpumgr.core.model.view import Finding, GoneVm
from vgpumgr.core.reconcile import policy_first, tasks
from vgpumgr.core.slot import attach, detach, no_room, targets, to_come, waits
from vgpumgr.core.slot import plan as plans
from vgpumgr.core.slot.request import AttachRequest, Replace, request_of
from vgpumgr.wording import Option, say

if TYPE_CHECKING:
    from collections.abc import Callable

    from vgpumgr.core.driver.asking import Conditions
    from vgpumgr.core.driver.profiles import Wish
    from vgpumgr.core.inventory import HostDeclaration, SlotDeclaration
    from vgpumgr.core.model.claims import Claim
    from vgpumgr.core.model.domain_xml import Domain
    from vgpumgr.core.model.view import HostView
    from vgpumgr.core.reconcile.tasks import Author, ConvertSlot, MoveSlot, ServeSlot
    from vgpumgr.core.slot.plan import Plan
    from vgpumgr.core.slot.request import SlotRequest
    from vgpumgr.names import GpuUuid, Slot


def plan_serve_slot(view: HostView, declared: HostDeclaration, task: ServeSlot, author: Author) -> Plan:
    """Plan each slot on what those before it leave: all or none. Raises what plan_attach and plan_detach raise."""
    if task.request.wish is None:
        return _plan_freeing(view, declared, task, author)
    if task.request.count == 1:
        return _plan_attach(view, declared, task, author)
    parts: list[Plan] = []
    after = view
    for one in task.each:
        try:
            part = _plan_attach(after, declared, one, author)
        except errors.NoCapacity as error:
            error.message = say(
                "{}: {} of {} slots could get one, so none is created", error.message, len(parts), task.request.count
            )
            raise
        parts.append(part)
        after = simulate.apply(after, part.steps)
    return plans.Plan(
        vm=plans.find_domain(view, task.uuid),
        slot=None,
        steps=tuple(step for part in parts for step in part.steps),
        findings=tuple(dict.fromkeys(finding for part in parts for finding in part.findings)),
        parts=tuple(parts),
    )


def plan_move_slot(view: HostView, declared: HostDeclaration, task: MoveSlot) -> Plan:
    """Plan to give the slot the same vGPU at another place. Raises as plan_attach does; UnknownSlot without a claim."""
    domain = plans.find_domain(view, task.uuid)
    claim = domain.claim(task.slot)
    if claim is None:
        raise errors.UnknownSlot(
            say("{} has no claim in slot {}", task.vm, task.slot),
            hint=say("`vgpumgr show {}` lists its slots", task.vm),
        )
    view = _as_it_is(view, domain, task.slot)
    if task.to is not None:
        return _plan_to(view, declared, domain, claim, task.to)
    others = tuple(gpu.uuid for gpu in view.snapshot.gpus if gpu.uuid not in (None, task.away_from))
    request = request_of(domain, claim, policy=declared.policy)
    return attach.plan_attach(view, replace(request, gpus=tuple(uuid for uuid in others if uuid), replace=True))


def _as_it_is(view: HostView, domain: Domain, slot: Slot) -> HostView:
    """The view, with new vGPUs lazy only if the slot's present vGPU is: a move does not change that."""
    entries = view.entries(domain.uuid, slot)
    return replace(view, lazy=entries[-1].lazy) if entries else view


def plan_convert_slot(view: HostView, declared: HostDeclaration, task: ConvertSlot, author: Author) -> Plan:
    """Plan to give the slot the same type on the same GPU, or to free a slot that no claim wants.

    Raises what attach and detach raise, InUse if the VM runs, and the task's own error if the task is blocked.
    """
    if task.blocked is not None:
        raise task.blocked
    found = view.domain(task.uuid)
    claim = None if found is None else found.claim(task.slot)
    if found is None or claim is None or claim.state == claims.LEAVING:
        gone = task.vm if found is None else None
        request = detach.DetachRequest(vm=task.uuid, slots=(task.slot,), by=author.by, at=author.at, gone=gone)
        return detach.plan_detach(view, request)
    return _plan_converted(view, declared, found, claim, task.gpu_uuid)


def _plan_converted(view: HostView, declared: HostDeclaration, domain: Domain, claim: Claim, gpu_uuid: GpuUuid) -> Plan:
    gpu, had = view.snapshot.gpu_by_uuid(gpu_uuid), profiles.read_type_name(claim.binding.type_name)
    _guard_off(domain)
    slot = tasks.declaration(declared, domain.name, claim.slot)
    request = request_of(domain, claim, policy=declared.policy_of(slot, None))
    if gpu is not None and gpu.types and had is not None and gpu.type_named(had.text) is None:
        raise no_room.dropped(view, domain.name, request, gpu, had)
    plan = attach.plan_attach(_as_it_is(view, domain, claim.slot), replace(request, gpus=(gpu_uuid,), replace=True))
    _guard_same(view, claim, plan, ExactPlace(gpu_uuid, None))
    return plan


def _guard_off(domain: Domain) -> None:
    if domain.active:
        raise errors.InUse(say("{} runs, so its vGPU stays where it is", domain.name), hint="shut it down first")


def _guard_same(view: HostView, claim: Claim, plan: Plan, to: ExactPlace) -> None:
    target = plan.target
    if target is None or not to.holds(target.exact_place) or target.type_name != claim.binding.type_name:
        look = command("list", view.snapshot.host)
        raise errors.NoCapacity(
            say("{} slot {} cannot get the same vGPU at the place planned for it", plan.about, claim.slot),
            hint=say("something else is there now (`{}`): once that is gone, run the command again", look),
        )


def request_to_move(view: HostView, declared: HostDeclaration, domain: Domain, claim: Claim) -> AttachRequest:
    """The request of a slot's claim, on the GPU that its declaration names: a move keeps to both. Raises UnknownGpu."""
    slot = tasks.declaration(declared, domain.name, claim.slot)
    request = request_of(domain, claim, policy=declared.policy_of(slot, None))
    return replace(request, gpus=gpu_choice.named(view.snapshot, slot.gpu_id if slot else None))


def _plan_to(view: HostView, declared: HostDeclaration, domain: Domain, claim: Claim, to: ExactPlace) -> Plan:
    _guard_off(domain)
    request = replace(request_to_move(view, declared, domain, claim), place=to, replace=True)
    plan = attach.plan_attach(view, request)
    _guard_same(view, claim, plan, to)
    return plan


def _plan_attach(view: HostView, declared: HostDeclaration, task: ServeSlot, author: Author) -> Plan:
    """Plan the steps that serve the wish. If the same wish is declared, its declaration applies, with its options.

    Raises ConflictingClaim if something else is declared, and what plan_attach raises.
    """
    domain, asked = plans.find_domain(view, task.uuid), task.request
    assert asked.wish is not None
    assert asked.slot is not None
    claim, slot = domain.claim(asked.slot), tasks.declaration(declared, task.vm, asked.slot)
    wish = _as_known(asked.wish, slot, claim)
    if slot is not None and not _agree(slot, wish, asked.conditions):
        raise errors.ConflictingClaim(
            say("{} slot {} is declared with {} ({})", task.vm, asked.slot, slot.asked, slot.where),
            hint="change the inventory, or use another slot",
        )
    request = AttachRequest(
        vm=task.uuid,
        slot=asked.slot,
        wish=wish,
        origin=claims.ATTACH if slot is None else claims.INVENTORY,
        by=author.by,
        at=author.at,
        policy=declared.policy_of(slot, asked.policy),
        gpus=gpu_choice.named(view.snapshot, asked.gpu_id or (slot.gpu_id if slot else None)),
        site=declared.site if slot else None,
        declared=declared.vms_from if slot else None,
        even_if_it_will_not_start=asked.even_if_it_will_not_start,
        live=asked.live,
        conditions=slot.conditions if slot else asked.conditions,
        reservation=asked.reservation,
    )
    owner = view.owner(domain.uuid, domain.name)
    whole = replace(request, replace=_replaces(view, domain, asked, request))
    attach_on = partial(attach.plan_attach, request=whole)
    plan_on: Callable[[HostView], Plan] = partial(
        to_come.planned, declared=declared, plan_on=attach_on, owner=owner, newcomer=slot is None
    )
    if asked.may_set_scheduler and not asked.wait:
        plan_on = policy_first.planner(declared, whole, plan_on)
    try:
        return plan_on(view)
    except errors.VgpumgrError as refused:
        if not asked.wait:
            raise
        return waits.plan_waiting(view, request, refused)


def _as_known(wish: Wish, slot: SlotDeclaration | None, claim: Claim | None) -> Wish:
    """The wish as the declaration or the claim spells it, where both mean the same type: 4Q is A40-4Q on an A40."""
    profile = wish.profile if isinstance(wish, profiles.ByProfile) else None
    for candidate in (slot and slot.wish, claim and claim.wish):
        if profile is None or not isinstance(candidate, profiles.ByProfile) or candidate.profile.short != profile.short:
            continue
        has = claim is not None and claim.binding.type_name == f"{profile.board}-{profile.short}"
        if profile.board is None or (candidate.profile.board is None and has):
            return candidate
    return wish


def _agree(slot: SlotDeclaration, wish: Wish, conditions: Conditions) -> bool:
    """Whether a declaration is what the user asks for; the user may leave its conditions out."""
    return profiles.same_wish(slot.wish, wish) and conditions in (NO_CONDITIONS, slot.conditions)


def _replaces(view: HostView, domain: Domain, asked: SlotRequest, request: AttachRequest) -> bool:
    if asked.replace is not Replace.IF_OTHER:
        return asked.replace is Replace.ALWAYS
    claim = domain.claim(request.slot)
    return claim in tasks.own_claims(view, domain) and not targets.serves(view, claim, request)


def _plan_freeing(view: HostView, declared: HostDeclaration, task: ServeSlot, author: Author) -> Plan:
    """Plan the steps that free the slots; a declared slot is a finding, since reconcile will attach it again.

    Raises as plan_detach does, and UnknownSlot if no slot is named but the VM has several.
    """
    domain = view.domain(task.uuid)
    slots = _slots(plans.slots_of(view, domain or GoneVm(name=task.vm, uuid=task.uuid)), task)
    request = detach.DetachRequest(
        vm=task.uuid,
        slots=slots,
        by=author.by,
        at=author.at,
        keep_snapshots=task.request.keep_snapshots,
        live=task.request.live,
        gone=task.vm if domain is None else None,
    )
    plan = detach.plan_detach(view, request)
    findings = []
    for name in slots:
        slot = tasks.declaration(declared, task.vm, name)
        if slot is not None:
            text = say(
                "{} slot {} is declared ({}): the next reconcile will attach it again", task.vm, name, slot.where
            )
            findings.append(Finding(kind="declared", host=view.snapshot.host, vm=task.vm, slot=name, text=text))
    return replace(plan, findings=(*plan.findings, *findings))


def _slots(have: tuple[Slot, ...], task: ServeSlot) -> tuple[Slot, ...]:
    if task.slot is not None:
        return (task.slot,)
    if len(have) > 1 and not task.request.every:
        raise errors.UnknownSlot(
            say("{} has {} slots: {}", task.vm, len(have), ", ".join(have)),
            hint=say("name one ({}), or free all ({})", Option("--slot"), Option("--all")),
        )
    return have
