"""Giving back GPU instances: those of ours that hold no vGPU, and to which none comes back."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vgpumgr import errors
from vgpumgr.core import step as steps
from vgpumgr.core.evidence import blocked_write
from vgpumgr.core.gpu import gpu_choice
from vgpumgr.core.gpu.instance_plan import InstancePlan
from vgpumgr.core.placing import instances
from vgpumgr.core.slot import detach

if TYPE_CHECKING:
    from collections.abc import Iterator

    from vgpumgr.core.model.snapshot import Gpu, HostSnapshot
    from vgpumgr.core.model.view import HostView
    from vgpumgr.names import PciAddress


def gpus_of_ours(facts: HostSnapshot) -> tuple[PciAddress, ...]:
    """The GPUs of the host on which the ledger has instances."""
    return tuple(gpu.pci for gpu in facts.gpus if _has_entered(facts, gpu))


def plan_giving_back(view: HostView, gpu_id: str) -> InstancePlan:
    """Plan what removes a GPU's cached instances, and the entries of instances that are gone.

    Raises UnknownGpu, LedgerBroken, Unsure, BlockedWrite.
    """
    detach.guard_ledger(view)
    facts = view.snapshot
    for gpu in facts.gpus:
        if gpu_id in {gpu.pci, gpu.uuid}:
            _guard_read(facts, gpu)
    gpu, _ = gpu_choice.find(facts, gpu_id)
    found = tuple(_of_gpu(facts, gpu))
    blocked_write.guard(facts, found)
    stay = sum(one.ours and not one.is_idle for one in instances.held(facts, gpu))
    return InstancePlan(gpu=gpu, steps=found, findings=(), in_use=stay)


def _has_entered(facts: HostSnapshot, gpu: Gpu) -> bool:
    entered = (entry.instance for entry in facts.instances)
    return any(one.gpu_uuid == gpu.uuid or (gpu.uuid is None and one.gpu == gpu.pci) for one in entered)


def _guard_read(facts: HostSnapshot, gpu: Gpu) -> None:
    """Where the ledger has no instance, none of ours can be cached, whatever cannot be read."""
    why = instances.why_unread(facts, gpu)
    if why is not None and _has_entered(facts, gpu):
        raise errors.Unsure(
            f"the GPU instances of GPU {gpu.pci} of {facts.host} cannot be read: {why}",
            hint=f"vgpumgr discover {facts.host} shows what else is unknown there",
        )


def _of_gpu(facts: HostSnapshot, gpu: Gpu) -> Iterator[steps.DestroyInstance]:
    there = {(one.profile.name, one.instance.start) for one in instances.held(facts, gpu) if one.ours}
    for one in instances.cached(facts, gpu):
        ours = instances.ours_at(gpu, one.profile, one.instance.start)
        yield steps.DestroyInstance(host=facts.host, instance=ours, expect=steps.PRESENT)
    wanted = instances.wanted_again(facts, gpu)
    for entry in facts.instances:
        ours = entry.instance
        if ours.gpu_uuid == gpu.uuid and (ours.profile, ours.start) not in there | wanted:
            yield steps.DestroyInstance(host=facts.host, instance=ours, expect=steps.ABSENT)
