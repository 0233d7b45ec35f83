"""The room that a host keeps for VMs which are declared there, but not defined yet.

It is taken as by a reservation, where the host's policy would place them now. Nothing of it is written anywhere, and a
VM that could not be served keeps nothing.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from vgpumgr import errors
from vgpumgr.core import simulate
from vgpumgr.core.model.reservation import Terms
from vgpumgr.core.placing import resolve
from vgpumgr.core.slot import reserving
from vgpumgr.wording import say

if TYPE_CHECKING:
    from vgpumgr.core.inventory import HostDeclaration, SlotDeclaration
    from vgpumgr.core.model.view import HostView
    from vgpumgr.names import VmName


def with_room_kept(view: HostView, declared: HostDeclaration) -> HostView:
    """The host as those see it who are not declared there: its declared VMs that do not exist yet have their places."""
    if view.snapshot.ledger is None:
        return view
    for vm in declared.vms.values():
        for slot in () if view.vms.of_name(vm.name) is not None else vm.slots.values():
            with contextlib.suppress(errors.VgpumgrError):  # it has no room either
                view = _kept(view, declared, vm.name, slot)
    return view


def _kept(view: HostView, declared: HostDeclaration, vm: VmName, slot: SlotDeclaration) -> HostView:
    ask = resolve.Ask.at_host(view, slot.wish, slot.conditions, policy=declared.policy_of(slot))
    only = None if slot.gpu_id is None else [one for one in view.snapshot.gpus if slot.gpu_id in (one.pci, one.uuid)]
    name = say("{}, declared but not defined yet", vm)
    terms = Terms(owner=None, by=str(slot.where), at="", left_s=0)
    return simulate.apply_one(view, reserving.keep(view, ask, (name, slot.slot), only, terms))
