"""The room that a host keeps for what is declared there: for VMs not defined yet, and for owners' reservations.

The room counts as taken, as if it were reserved, where the host's policy would place the vGPUs now. It is written
nowhere. If a declared vGPU has no place now, nothing is kept for it.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from vgpumgr import errors
from vgpumgr.core import step as plan_steps
from vgpumgr.core.driver import profiles
from vgpumgr.core.model.reservation import Reservation, Terms
from vgpumgr.core.placing import resolve
from vgpumgr.core.slot import reserving
from vgpumgr.names import Slot, VmName
from vgpumgr.wording import say

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from vgpumgr.core.inventory import HostDeclaration, ReservationDeclaration, SlotDeclaration, VmDeclaration
    from vgpumgr.core.model.view import HostView
    from vgpumgr.core.slot.plan import Plan
    from vgpumgr.names import OwnerName


def with_room_kept(
    view: HostView, declared: HostDeclaration, owner: OwnerName | None = None, *, newcomer: bool = True
) -> HostView:
    """The host as a VM of this owner sees it: what is kept for others is taken.

    `newcomer`: the VM is not declared on this host, so declared VMs that do not exist yet come before it.
    """
    if view.snapshot.ledger is None:
        return view
    for vm in _awaited(view, declared) if newcomer else ():
        for slot in vm.slots.values():
            view = _kept(view, declared, say("{}, declared but not defined yet", vm.name), slot)
    for one in declared.reservations:
        if one.owner != owner:
            count = missing(view, declared, one, newcomer=newcomer)
            view = _kept(view, declared, _named(one), one.asked, count)
    return view


def declared_places(view: HostView, declared: HostDeclaration) -> tuple[Reservation, ...]:
    """What is kept for the declared reservations now, as `capacity` counts it: under their names, for their owners."""
    by_name = {_named(one): one for one in declared.reservations}
    kept = with_room_kept(view, declared).snapshot.reservations[len(view.snapshot.reservations) :]
    return tuple(
        Reservation(vgpu=replace(place.vgpu, vm_name=VmName(one.name)), terms=replace(place.terms, owner=one.owner))
        for place in kept
        if (one := by_name.get(place.name)) is not None
    )


def _named(one: ReservationDeclaration) -> str:
    return say("{}, declared", one.name)


def planned(
    view: HostView,
    declared: HostDeclaration,
    plan_on: Callable[[HostView], Plan],
    owner: OwnerName | None,
    *,
    newcomer: bool,
) -> Plan:
    """The plan of an owner's VM, whose new vGPUs leave what is kept for others. `newcomer`: the VM is not declared."""
    if newcomer:
        return plan_on(with_room_kept(view, declared, owner))
    plan = plan_on(view)
    if not declared.reservations or not any(map(_is_new, plan.steps)):
        return plan
    return plan_on(with_room_kept(view, declared, owner, newcomer=False))


def _is_new(step: plan_steps.Step) -> bool:
    return isinstance(step, plan_steps.CreateVgpu) and step.expect == plan_steps.EMPTY


def _awaited(view: HostView, declared: HostDeclaration) -> Iterator[VmDeclaration]:
    return (vm for vm in declared.vms.values() if view.vms.of_name(vm.name) is None)


def missing(view: HostView, declared: HostDeclaration, one: ReservationDeclaration, *, newcomer: bool) -> int:
    """How many places of a reservation its owner lacks. `newcomer`: declared VMs to come count as having theirs."""
    ask = resolve.Ask.at_host(view, one.asked.wish, one.asked.conditions)
    entries = (entry.vgpu for entry in view.snapshot.ledger or ())
    have = sum(
        view.owner(vgpu.vm, vgpu.vm_name) == one.owner and reserving.fits_wish(view.snapshot, vgpu, ask)
        for vgpu in entries
    )
    have += sum(
        profiles.same_wish(slot.wish, one.asked.wish)
        for vm in (_awaited(view, declared) if newcomer else ())
        if declared.owners.of(vm.name) == one.owner
        for slot in vm.slots.values()
    )
    return max(0, one.count - have)


def _kept(view: HostView, declared: HostDeclaration, name: str, asked: SlotDeclaration, count: int = 1) -> HostView:
    """The host with `count` places kept, or as many as there is room for. Its ledger does not change."""
    terms = Terms(owner=None, by=str(asked.where), at="", left_s=0)
    for number in range(count):
        facts, slot = view.snapshot, Slot(f"{asked.slot}.{number}")
        try:
            ask = resolve.Ask.at_host(view, asked.wish, asked.conditions, policy=declared.policy_of(asked))
            named = [one for one in facts.gpus if asked.gpu_id in (one.pci, one.uuid)]
            among = None if asked.gpu_id is None else named
            step = reserving.keep(view, ask, (name, slot), among, terms)
        except errors.VgpumgrError:
            break
        kept = Reservation(vgpu=step.vgpu, terms=terms)
        view = replace(view, snapshot=replace(facts, reservations=(*facts.reservations, kept)))
    return view
