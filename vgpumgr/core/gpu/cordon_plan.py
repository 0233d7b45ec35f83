"""The plan that sets or lifts a cordon."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from vgpumgr import names
from vgpumgr.core import step as plan_steps
from vgpumgr.core.evidence import cordons
from vgpumgr.core.gpu import gpu_choice
from vgpumgr.core.model.snapshot import Cordon
from vgpumgr.core.slot import plan as plans
from vgpumgr.errors import BadName

if TYPE_CHECKING:
    from vgpumgr.core.model.snapshot import HostSnapshot
    from vgpumgr.core.model.view import Finding, HostView
    from vgpumgr.names import GpuUuid, HostName, PciAddress

LONGEST = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class CordonRequest:
    """`gpu_id` None: the whole host. `reason` None: lift it. `keep`: an existing cordon stands, whatever its reason."""

    gpu_id: str | None
    reason: str | None
    by: str
    at: str
    keep: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class CordonPlan(plans.AnyPlan):
    """`cordon`: the cordon afterwards; None: there is none. `stay`: the GPUs whose own cordons stay."""

    host: HostName
    gpu: PciAddress | None
    cordon: Cordon | None
    stay: tuple[PciAddress, ...] = ()

    @property
    def about(self) -> str:
        return "the host" if self.gpu is None else f"GPU {self.gpu}"

    @property
    def gpus(self) -> tuple[str, ...]:
        return ()  # nothing is written to a GPU

    def rests_on(self, view: HostView) -> tuple[object, ...]:
        return view.snapshot.cordons


def parse_reason(text: str) -> str:
    """Check a reason, and return it as it is kept: one line. Raises BadName."""
    reason = " ".join(text.split())
    if not reason:
        wrong = "the reason is empty"
    elif len(reason) > LONGEST:
        wrong = f"the reason has {len(reason)} characters"
    elif not reason.isprintable():
        wrong = f"the reason has characters that cannot be printed: {text[:40]!r}"
    else:
        return reason
    raise BadName(wrong, hint=f"give one line of 1 to {LONGEST} characters, for those who find the cordon")


def plan_cordon(view: HostView, request: CordonRequest) -> CordonPlan:
    """Plan the step that sets or lifts a cordon. Raises UnknownGpu; changes nothing."""
    facts = view.snapshot
    gpu_uuid, gpu = _place(facts, request.gpu_id)
    before = facts.cordon_at(gpu_uuid)
    cordon: Cordon | None = None
    if request.reason is not None:
        cordon = Cordon(gpu_uuid=gpu_uuid, gpu=gpu, reason=request.reason, by=request.by, at=request.at)
        if before is not None and (request.keep or before.reason == cordon.reason):
            cordon = before
    step = plan_steps.SetCordon(host=facts.host, gpu_uuid=gpu_uuid, gpu=gpu, cordon=cordon, expect=before)
    return CordonPlan(
        host=facts.host,
        gpu=gpu,
        cordon=cordon,
        steps=() if cordon == before else (step,),
        findings=_others(facts, gpu_uuid) if cordon is None else (),
        stay=tuple(one.gpu for one in facts.cordons if one.gpu is not None) if gpu_uuid is None else (),
    )


def _place(facts: HostSnapshot, gpu_id: str | None) -> tuple[GpuUuid | None, PciAddress | None]:
    """The UUID and address of a cordon's GPU; both None for the host. The cordon names a GPU that was taken out."""
    if gpu_id is None:
        return None, None
    parsed_id = names.parse_gpu_id(gpu_id)
    ids = {gpu.pci for gpu in facts.gpus} | {gpu.uuid for gpu in facts.gpus}
    for cordon in facts.cordons:
        if cordon.gpu_uuid is not None and parsed_id in (cordon.gpu_uuid, cordon.gpu) and parsed_id not in ids:
            return cordon.gpu_uuid, cordon.gpu
    gpu, gpu_uuid = gpu_choice.find(facts, gpu_id)
    return gpu_uuid, gpu.pci


def _others(facts: HostSnapshot, lifted: GpuUuid | None) -> tuple[Finding, ...]:
    """Findings about the cordons that still apply there after one is lifted."""
    return tuple(
        cordons.finding(facts, cordon)
        for cordon in facts.cordons
        if cordon.gpu_uuid != lifted and (cordon.gpu_uuid is None or lifted is None)
    )
