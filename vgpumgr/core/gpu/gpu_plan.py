"""What plans about a GPU share: the GPU, what must hold before, and how they refuse."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from vgpumgr import errors
from vgpumgr.core import step as plan_steps
from vgpumgr.core.model import view as views
from vgpumgr.core.slot import detach
from vgpumgr.core.slot import plan as plans
from vgpumgr.wording import Command, say

if TYPE_CHECKING:
    from collections.abc import Iterable

    from vgpumgr.core.model.snapshot import Gpu, HostSnapshot
    from vgpumgr.core.model.view import HostView


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuPlan(plans.AnyPlan):
    """A plan about one GPU as a whole: its mode, its scheduler or its GPU instances."""

    gpu: Gpu

    @property
    def about(self) -> str:
        return f"GPU {self.gpu.pci}"

    @property
    def takes_away(self) -> tuple[plan_steps.Step, ...]:
        """The steps that disturb something: not those that create vGPUs or GPU instances, or add claims or hostdevs."""
        harmless = plan_steps.CreateVgpu | plan_steps.CreateInstance | plan_steps.PutClaim | plan_steps.AttachHostdev
        return tuple(step for step in self.steps if not isinstance(step, harmless))

    @property
    def gpus(self) -> tuple[str, ...]:
        return (self.gpu.uuid,) if self.gpu.uuid is not None and self.changed else ()


def find(view: HostView, gpu_uuid: str) -> Gpu:
    """The GPU of a request, on a host whose ledger can be read. Raises Unsure or LedgerBroken."""
    detach.guard_ledger(view)
    gpu = view.snapshot.gpu_by_uuid(gpu_uuid)
    if gpu is None:
        host = view.snapshot.host
        raise errors.Unsure(
            say("{} now shows no GPU {}; nothing is written to a GPU whose UUID cannot be read", host, gpu_uuid),
            hint=say("{}", Command("vgpumgr", "discover", host)),
        )
    return gpu


def unread(facts: HostSnapshot, gpu: Gpu, what: str, why: str | None = None) -> errors.Unsure:
    """The error if `what` of the GPU is unknown. `why` None: the snapshot has the reason for that fact."""
    why = why or views.why_unknown(facts, what, gpu.pci)
    return errors.Unsure(
        say("the {} of GPU {} of {} cannot be read: {}", what, gpu.pci, facts.host, why),
        hint=say("{} shows what else is unknown there", Command("vgpumgr", "discover", facts.host)),
    )


def refused(facts: HostSnapshot, gpu: Gpu, why: str, hint: str, details: Iterable[str] = ()) -> errors.RefusedPlan:
    """The error of a refused plan. `why` continues a line that begins with the GPU."""
    return errors.RefusedPlan(say("GPU {} of {} {}", gpu.pci, facts.host, why), details=[*details], hint=hint)
