"""What a host needs once its GPUs have another framework than that of their vGPUs, as after another kernel.

From Linux 6.8 on, NVIDIA's vGPU 17 makes no mdevs on boards with SR-IOV, but gives types to virtual functions (its
release notes for Ubuntu 24.04). Our entries, claims and host devices still name mdevs, which can no longer exist. Each
slot gets the same type on the same GPU again; a vGPU that no claim wants is freed. Cordons and reservations hold as
they are: they name GPUs, functions and types, which stay the same.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from vgpumgr import errors, names
from vgpumgr.core.evidence import ownership
from vgpumgr.core.model import claims
from vgpumgr.core.reconcile import host_plan, tasks
from vgpumgr.core.reconcile.tasks import ConvertSlot
from vgpumgr.wording import say

if TYPE_CHECKING:
    from collections.abc import Iterator

    from vgpumgr.core.inventory import HostDeclaration
    from vgpumgr.core.model.claims import Claim
    from vgpumgr.core.model.domain_xml import Domain
    from vgpumgr.core.model.view import HostView
    from vgpumgr.core.reconcile.tasks import Author, Task


def todo(view: HostView, declared: HostDeclaration, author: Author) -> tuple[Task, ...]:
    """A task for each slot to convert; before these, the tasks that set the modes of their GPUs.

    If the task of one slot is refused, those of all slots are blocked, and no mode is set.
    """
    slots = tuple(_slots(view))
    uuids = {one.gpu_uuid for one in slots}
    gpu_ids = {name for gpu in view.snapshot.gpus if gpu.uuid in uuids for name in (gpu.pci, gpu.uuid)}
    work: tuple[Task, ...] = (*(one for one in tasks.of_modes(view, declared) if one.gpu_id in gpu_ids), *slots)
    planned, _ = host_plan.plan_tasks(view, declared, work, author)
    refused = {one.task: one.refused for one in planned if isinstance(one.task, ConvertSlot) and one.refused}
    if not refused:
        return work
    return tuple(replace(one, blocked=refused.get(one) or _held_back(view, one)) for one in slots)


def _held_back(view: HostView, task: ConvertSlot) -> errors.HeldBack:
    host = view.snapshot.host
    return errors.HeldBack(
        say("{}: others of {} cannot be migrated, so this slot was left as it is", task.subject, host)
    )


def _slots(view: HostView) -> Iterator[ConvertSlot]:
    """A task for each slot to convert: those with a claim, by the names of VMs; then those that only the ledger has."""
    facts = view.snapshot
    entered = {
        (entry.vgpu.vm, entry.vgpu.slot): entry.vgpu
        for entry in facts.ledger or ()
        if (gpu := facts.gpu_by_uuid(entry.vgpu.gpu_uuid)) and ownership.is_of_other_framework(gpu, entry.vgpu)
    }
    for domain in sorted(view.domains, key=lambda one: one.name):
        for claim in sorted(tasks.own_claims(view, domain), key=lambda one: names.slot_order(one.slot)):
            ours = entered.pop((domain.uuid, claim.slot), None)
            gpu = facts.gpu_by_uuid(claim.binding.gpu_uuid)
            if gpu is not None and (ours is not None or _is_left(view, domain, claim)):
                why = f"the framework of its GPU is {gpu.framework} now"
                if claim.state == claims.LEAVING:
                    why = "its detach has begun"
                uuid = claim.binding.gpu_uuid
                yield ConvertSlot(vm=domain.name, uuid=domain.uuid, slot=claim.slot, gpu_uuid=uuid, why=why)
    for ours in sorted(entered.values(), key=lambda one: (one.vm_name, names.slot_order(one.slot))):
        left = view.domain(ours.vm)
        if left is None or not left.copied:
            why = "its VM is gone" if left is None else "no claim of its VM wants it"
            yield ConvertSlot(vm=ours.vm_name, uuid=ours.vm, slot=ours.slot, gpu_uuid=ours.gpu_uuid, why=why)


def _is_left(view: HostView, domain: Domain, claim: Claim) -> bool:
    """Whether a claim, without a ledger entry, still wants a vGPU of the earlier framework.

    A claim of a restored old definition does not count, nor one that was written by hand.
    """
    gpu = view.snapshot.gpu_by_uuid(claim.binding.gpu_uuid)
    if gpu is None or not ownership.is_of_other_framework(gpu, claim.binding):
        return False
    return not (ownership.is_reverted(view, domain, claim) or ownership.lacks_entry(view, domain, claim))
