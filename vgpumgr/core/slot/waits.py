"""Wishes that wait for room on the host: each is noted in the VM's definition until its slot is served or freed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vgpumgr import errors
from vgpumgr.core import step as plan_steps
from vgpumgr.core.driver import profiles
from vgpumgr.core.model.claims import Wait
from vgpumgr.core.model.view import Finding
from vgpumgr.core.slot import plan as plans
from vgpumgr.wording import say

if TYPE_CHECKING:
    from vgpumgr.core.model.domain_xml import Domain
    from vgpumgr.core.model.view import HostView
    from vgpumgr.core.slot.plan import Plan
    from vgpumgr.core.slot.request import AttachRequest
    from vgpumgr.names import Slot


def may_pass(refused: errors.VgpumgrError) -> bool:
    """Whether a refused request can be served as it is once the host has room, or once a cordon is lifted."""
    lacks_room = isinstance(refused, errors.NoCapacity) and not isinstance(refused, errors.ProfileNotHere)
    return lacks_room or isinstance(refused, errors.Cordoned)


def plan_waiting(view: HostView, request: AttachRequest, refused: errors.VgpumgrError) -> Plan:
    """Plan to note that the slot waits for its wish; no steps if it does already.

    Raises `refused` if neither room nor a cordon is its reason, if the slot has a claim, or if nothing can be noted.
    """
    domain = plans.find_domain(view, request.vm)
    if not may_pass(refused) or domain.claim(request.slot) is not None:
        raise refused
    steps = noted(domain, request)
    waits = domain.wait(request.slot) if not steps else steps[0].wait
    if waits is None:  # its definition cannot be written now
        raise refused
    text = say("{} {} waits for room, since {}: {}", domain.name, request.slot, waits.at, refused.message)
    finding = Finding(kind="waiting", host=view.snapshot.host, vm=domain.name, slot=request.slot, text=text)
    return plans.Plan(vm=domain, slot=request.slot, steps=steps, findings=(finding,))


def noted(domain: Domain, request: AttachRequest) -> tuple[plan_steps.SetWait, ...]:
    """The step that notes a request as waiting; none if it is noted, or if the definition cannot be written now.

    The same wish has waited since it was first noted, whoever asks for it now.
    """
    before = domain.wait(request.slot)
    asks_same = before is not None and _asks_same(before, request)
    if before is not None and asks_same and (before.origin, before.site) == (request.origin, request.site):
        return ()
    if not domain.persistent or domain.managed_save or domain.problem or domain.claim_problem or domain.copied:
        return ()
    wait = Wait(
        slot=request.slot,
        origin=request.origin,
        by=request.by,
        at=before.at if before is not None and asks_same else request.at,
        wish=request.wish,
        conditions=request.conditions,
        site=request.site,
    )
    return (_set(domain, request.slot, wait),)


def ended(domain: Domain, slot: Slot) -> tuple[plan_steps.SetWait, ...]:
    """The step that ends the wait of a slot; no step if the slot does not wait."""
    return () if domain.wait(slot) is None else (_set(domain, slot, None),)


def _asks_same(wait: Wait, request: AttachRequest) -> bool:
    return wait.conditions == request.conditions and profiles.same_wish(wait.wish, request.wish)


def _set(domain: Domain, slot: Slot, wait: Wait | None) -> plan_steps.SetWait:
    return plan_steps.SetWait(vm=domain.uuid, vm_name=domain.name, slot=slot, wait=wait, before=domain.wait(slot))
