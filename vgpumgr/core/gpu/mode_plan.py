"""The request for a GPU's mode, its plan, and the checks that all modes share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from vgpumgr.core.gpu import gpu_plan
from vgpumgr.core.slot import reserving
from vgpumgr.wording import say

if TYPE_CHECKING:
    from collections.abc import Mapping

    from vgpumgr.core.driver.modes import Mode
    from vgpumgr.core.model.claims import ClaimDocument
    from vgpumgr.core.model.snapshot import Gpu
    from vgpumgr.core.model.view import HostView
    from vgpumgr.names import GpuUuid, VmUuid


@dataclass(frozen=True, slots=True, kw_only=True)
class ModeRequest:
    """`again`: also re-create our missing vGPUs, to finish a killed run. `reset`: allow a GPU reset if MIG needs it."""

    gpu_uuid: GpuUuid
    mode: Mode
    again: bool = True
    reset: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ModePlan(gpu_plan.GpuPlan):
    """`documents`: the claims of the VMs that have vGPUs on the GPU, before any step."""

    mode: Mode
    documents: Mapping[VmUuid, ClaimDocument | None]

    def rests_on(self, view: HostView) -> tuple[object, ...]:
        facts = view.snapshot
        return self.gpu, facts.ledger, facts.blocked_writes, facts.modprobe, *facts.instances, *self.documents.items()

    def claims_of(self, vm: VmUuid) -> ClaimDocument | None:
        return self.documents.get(vm)


def find_gpu(view: HostView, request: ModeRequest) -> Gpu:
    """The GPU of a request. Raises Unsure if the GPU or its mode cannot be read, and LedgerBroken."""
    gpu = gpu_plan.find(view, request.gpu_uuid)
    if gpu.mode is None:
        raise gpu_plan.unread(view.snapshot, gpu, "mode")
    return gpu


def guard_foreign(view: HostView, gpu: Gpu, mode: Mode) -> None:
    """Raises RefusedPlan if the GPU has a vGPU that is not ours, or a reserved place of another mode."""
    reserved = sorted(
        {one.name for one in view.snapshot.reservations if one.vgpu.gpu_uuid == gpu.uuid and one.vgpu.made_in != mode}
    )
    if reserved:
        raise gpu_plan.refused(
            view.snapshot,
            gpu,
            say("is not set to {} mode: places of it are reserved", mode),
            say("first `{}`, or wait until it ends", reserving.cancel(reserved[0])),
            [say("reservation {}", name) for name in reserved],
        )
    foreign = [vgpu for vgpu in gpu.vgpus if view.snapshot.entry_of(gpu, vgpu) is None]
    if foreign:
        raise gpu_plan.refused(
            view.snapshot,
            gpu,
            f"is not set to {mode} mode: a vGPU there is not ours",
            "the mode needs an empty GPU, and vgpumgr never removes what is not its own",
            [f"{vgpu.type_name or '?'} on {vgpu.parent}" for vgpu in foreign],
        )
