"""A host's plan with what the metrics say of the host once the plan is carried out: what still fits, and whose VMs."""

from __future__ import annotations

import contextlib
from dataclasses import replace
from typing import TYPE_CHECKING

from vgpumgr.core import simulate
from vgpumgr.core.reconcile import host_plan
from vgpumgr.core.report import capacity, listing
from vgpumgr.core.slot import to_come
from vgpumgr.names import VmName

if TYPE_CHECKING:
    from collections.abc import Iterable

    from vgpumgr.core.inventory import HostDeclaration
    from vgpumgr.core.model.view import HostView
    from vgpumgr.core.reconcile.host_plan import HostPlan
    from vgpumgr.core.reconcile.tasks import Author, Task
    from vgpumgr.names import OwnerName


def plan_recorded(view: HostView, declared: HostDeclaration, todo: Iterable[Task], author: Author) -> HostPlan:
    """The plan of plan_reconcile, with `fits` and `owners`. If the plan cannot be carried out, both are empty."""
    plan = host_plan.plan_reconcile(view, declared, todo, author)
    with contextlib.suppress(simulate.ImpossibleStepError):
        after = simulate.apply(view, plan.steps)
        return replace(plan, fits=_fits(to_come.with_room_kept(after, declared)), owners=_owners(after))
    return plan


def _fits(view: HostView) -> dict[str, int]:
    """How many more of each type fit, each type alone; without the types for which that is unknown."""
    found = capacity.overview(view)
    more = any(one.is_unknown for one in found.closed)
    left = {row.type_name: capacity.total([row.left], more=more).fits_now for row in found.rows}
    return {type_name: count for type_name, count in left.items() if count is not None}


def _owners(view: HostView) -> dict[str, OwnerName]:
    """The owner of each VM that has a vGPU; VMs without an owner are left out."""
    vms = {(row.vm, row.vm_uuid) for row in listing.rows(view)}
    found = {vm: view.owner(uuid, VmName(vm)) for vm, uuid in vms if vm is not None and uuid is not None}
    return {vm: owner for vm, owner in found.items() if owner is not None}
