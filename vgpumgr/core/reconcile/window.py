"""Which VMs to shut down in the next window: those waiting for a restart, and those that a declaration waits for."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from vgpumgr import names
from vgpumgr.core.evidence import restart
from vgpumgr.core.gpu import gpu_choice
from vgpumgr.core.reconcile import host_plan
from vgpumgr.core.reconcile.tasks import OfGpu
from vgpumgr.wording import joined, say

if TYPE_CHECKING:
    from collections.abc import Iterator

    from vgpumgr.core.evidence.restart import Change, Waiting
    from vgpumgr.core.inventory import HostDeclaration
    from vgpumgr.core.model.domain_xml import Domain
    from vgpumgr.core.model.vgpu import LedgerEntry
    from vgpumgr.core.model.view import HostView
    from vgpumgr.core.reconcile.planned import PlannedTask
    from vgpumgr.core.reconcile.tasks import Author


def of_host(view: HostView, declared: HostDeclaration, author: Author) -> tuple[Waiting, ...]:
    """The host's VMs to shut down, by name. If the ledger cannot be read, nothing is known to wait for a VM."""
    by_vm = {row.vm_uuid: row for row in restart.waiting(view)}
    planned_tasks = () if view.snapshot.ledger is None else host_plan.plan_host(view, declared, author).tasks
    for domain in view.domains:
        yields = tuple(_yields(view, domain, planned_tasks))
        if not yields:
            continue
        before = by_vm.get(domain.uuid)
        slots = (*(before.slots if before is not None else ()), *yields)
        row = restart.Waiting(vm=domain.name, vm_uuid=domain.uuid, host=view.snapshot.host, slots=slots)
        by_vm[domain.uuid] = replace(row, slots=tuple(sorted(slots, key=lambda one: names.slot_order(one.slot))))
    return tuple(sorted(by_vm.values(), key=lambda row: names.slot_order(row.vm)))


def _yields(view: HostView, domain: Domain, planned_tasks: tuple[PlannedTask, ...]) -> Iterator[Change]:
    """The vGPUs that the running VM has and that some planned task needs it to give up."""
    live = {device.source for device in domain.live or ()}
    for entry in view.entries(domain.uuid):
        waiting = (one.task for one in planned_tasks if _waits_for(view, one, domain, entry))
        lines = [say("{}, {}", task.subject, task.why) for task in waiting]
        if entry.vgpu.device in live and lines:
            yield restart.Change(
                slot=entry.vgpu.slot,
                does=restart.YIELDS,
                device=entry.vgpu.device,
                type_name=entry.vgpu.type_name,
                parent=entry.vgpu.parent,
                waits=joined("; ", lines),
            )


def _waits_for(view: HostView, planned: PlannedTask, domain: Domain, entry: LedgerEntry) -> bool:
    if planned.waits is None:
        return False
    if isinstance(planned.task, OfGpu):
        return gpu_choice.find(view.snapshot, planned.task.gpu_id)[1] == entry.vgpu.gpu_uuid
    return (planned.task.vm, planned.task.slot) == (domain.name, entry.vgpu.slot)
