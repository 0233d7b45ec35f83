"""The request for a GPU's mode, its plan, and what every mode asks of a GPU first."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from vgpumgr import errors
from vgpumgr.core import step as plan_steps
from vgpumgr.core.model import view as views
from vgpumgr.core.slot import detach
from vgpumgr.core.slot import plan as plans

if TYPE_CHECKING:
    from collections.abc import Mapping

    from vgpumgr.core.model.claims import ClaimDocument
    from vgpumgr.core.model.snapshot import Gpu, Mode
    from vgpumgr.core.model.view import HostView
    from vgpumgr.names import GpuUuid, HostName, VmUuid


@dataclass(frozen=True, slots=True, kw_only=True)
class ModeRequest:
    """`again`: also re-create our missing vGPUs, to finish a run that was killed. `reset`: the GPU may be reset, where MIG needs it."""

    gpu_uuid: GpuUuid
    mode: Mode
    again: bool = True
    reset: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ModePlan(plans.AnyPlan):
    """A plan about one GPU's mode."""

    host: HostName
    gpu: Gpu
    gpu_uuid: GpuUuid
    mode: Mode
    documents: Mapping[VmUuid, ClaimDocument | None]

    @property
    def about(self) -> str:
        return f"GPU {self.gpu.pci}"

    @property
    def takes_away(self) -> tuple[plan_steps.Step, ...]:
        """All steps that disturb something: everything except creating vGPUs, and what claims and definitions say of them."""
        harmless = plan_steps.CreateVgpu | plan_steps.CreateInstance | plan_steps.PutClaim | plan_steps.AttachHostdev
        return tuple(step for step in self.steps if not isinstance(step, harmless))

    @property
    def gpus(self) -> tuple[str, ...]:
        return (self.gpu_uuid,) if self.changed else ()

    def rests_on(self, view: HostView) -> tuple[object, ...]:
        facts = view.snapshot
        return self.gpu, facts.ledger, facts.blocked_writes, facts.modprobe, *facts.instances, *self.documents.items()

    def claims_of(self, vm: VmUuid) -> ClaimDocument | None:
        return self.documents.get(vm)


def find_gpu(view: HostView, request: ModeRequest) -> Gpu:
    """The GPU, whose mode is known. Raises Unsure or LedgerBroken."""
    detach.guard_ledger(view)
    facts = view.snapshot
    gpu = facts.gpu_by_uuid(request.gpu_uuid)
    if gpu is None:
        raise errors.Unsure(
            f"{facts.host} now shows no GPU {request.gpu_uuid}; nothing is written to a GPU whose UUID cannot be read",
            hint=f"vgpumgr discover {facts.host}",
        )
    if gpu.mode is None:
        why = views.why_unknown(facts, "mode", gpu.pci)
        raise errors.Unsure(
            f"the mode of GPU {gpu.pci} of {facts.host} cannot be read: {why}",
            hint=f"vgpumgr discover {facts.host} shows what else is unknown there",
        )
    return gpu


def guard_foreign(view: HostView, gpu: Gpu, mode: Mode) -> None:
    """Raises RefusedPlan if the GPU has a vGPU that is not ours."""
    foreign = [vgpu for vgpu in gpu.vgpus if view.snapshot.entry_of(gpu, vgpu) is None]
    if foreign:
        raise errors.RefusedPlan(
            f"GPU {gpu.pci} of {view.snapshot.host} is not set to {mode} mode: a vGPU there is not ours",
            details=[f"{vgpu.type_name or '?'} on {vgpu.parent}" for vgpu in foreign],
            hint="the mode needs an empty GPU, and vgpumgr never removes what is not its own",
        )
