"""Giving back GPU instances: those of ours that hold no vGPU, and to which none comes back."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from vgpumgr import errors
from vgpumgr.core.plan import blocked_write, detach, gpu_choice, instances
from vgpumgr.core.plan import plan as plans
from vgpumgr.core.plan import step as steps

if TYPE_CHECKING:
    from collections.abc import Iterator

    from vgpumgr.core.model.snapshot import Gpu, HostSnapshot
    from vgpumgr.core.model.view import HostView
    from vgpumgr.names import HostName, PciAddress


@dataclass(frozen=True, slots=True, kw_only=True)
class FreePlan(plans.AnyPlan):
    """A plan that removes cached instances. `gpu` None: of every GPU of the host. `in_use`: how many of ours stay, since they hold vGPUs."""

    host: HostName
    gpu: PciAddress | None
    in_use: int

    @property
    def about(self) -> str:
        return "GPU instances" if self.gpu is None else f"GPU instances of {self.gpu}"

    @property
    def gpus(self) -> tuple[str, ...]:
        return tuple(sorted({step.instance.gpu_uuid for step in self.steps if isinstance(step, steps.InstanceStep)}))

    def rests_on(self, view: HostView) -> tuple[object, ...]:
        return plans.of_host(view)


def plan_giving_back(view: HostView, gpu_id: str | None) -> FreePlan:
    """Plan what removes the cached instances, and entries of instances that are gone. Raises UnknownGpu, LedgerBroken, Unsure, BlockedWrite."""
    detach.guard_ledger(view)
    facts = view.snapshot
    gpus = facts.gpus if gpu_id is None else (gpu_choice.find(facts, gpu_id)[0],)
    for gpu in gpus:
        _guard_read(facts, gpu)
    found = tuple(step for gpu in gpus for step in _of_gpu(facts, gpu))
    blocked_write.guard(facts, found)
    stays = sum(one.ours and not one.is_idle for gpu in gpus for one in instances.held(facts, gpu))
    return FreePlan(
        host=facts.host, gpu=None if gpu_id is None else gpus[0].pci, steps=found, findings=(), in_use=stays
    )


def _guard_read(facts: HostSnapshot, gpu: Gpu) -> None:
    """Where the ledger has no instance, none of ours can be cached, whatever cannot be read."""
    why = instances.why_unread(facts, gpu)
    entered = (one.instance for one in facts.instances)
    if why is not None and any(
        one.gpu_uuid == gpu.uuid or (gpu.uuid is None and one.gpu == gpu.pci) for one in entered
    ):
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
