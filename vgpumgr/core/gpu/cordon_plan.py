"""The plan that sets or lifts a cordon."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from vgpumgr import errors, names
from vgpumgr.core import step as plan_steps
from vgpumgr.core.evidence import cordons
from vgpumgr.core.gpu import gpu_choice
from vgpumgr.core.model.snapshot import Cordon
from vgpumgr.core.slot import plan as plans
from vgpumgr.wording import Command, say

if TYPE_CHECKING:
    from vgpumgr.core.model.snapshot import HostSnapshot
    from vgpumgr.core.model.view import HostView
    from vgpumgr.names import GpuUuid, HostName, PciAddress

LONGEST = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class CordonRequest:
    """Cordon what is named, or lift the cordon if `reason` is None. `gpu_id` and `vf` None: the whole host.

    `vf`: a virtual function's address, which is enough without `gpu_id`; if both are given, it must be of that GPU.
    `keep`: an existing cordon stays as it is, even with another reason.
    """

    gpu_id: str | None
    vf: str | None = None
    reason: str | None
    by: str
    at: str
    keep: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class CordonPlan(plans.AnyPlan):
    """`cordon`: the cordon afterwards; None: there is none. `stay`: cordons within the place that are not lifted."""

    host: HostName
    gpu: PciAddress | None
    vf: PciAddress | None
    cordon: Cordon | None
    stay: tuple[Cordon, ...] = ()

    @property
    def about(self) -> str:
        if self.vf is not None:
            return f"virtual function {self.vf}"
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
    raise errors.BadName(wrong, hint=f"give one line of 1 to {LONGEST} characters, for those who find the cordon")


def plan_cordon(view: HostView, request: CordonRequest) -> CordonPlan:
    """Plan the step that sets or lifts a cordon. Raises UnknownGpu; changes nothing."""
    facts = view.snapshot
    place = _place(facts, request)
    before = facts.cordon_at(place.gpu_uuid, place.vf_index)
    cordon: Cordon | None = None
    if request.reason is not None:
        cordon = Cordon(**place._asdict(), reason=request.reason, by=request.by, at=request.at)
        if before is not None and (request.keep or before.reason == cordon.reason):
            cordon = before
    step = plan_steps.SetCordon(host=facts.host, **place._asdict(), cordon=cordon, expect=before)
    others = [] if cordon is not None else [one for one in facts.cordons if one != before and place.meets(one)]
    return CordonPlan(
        host=facts.host,
        gpu=place.gpu,
        vf=place.vf,
        cordon=cordon,
        steps=() if cordon == before else (step,),
        findings=tuple(cordons.finding(facts, one) for one in others),
        stay=tuple(filter(place.holds, others)),
    )


class _Place(NamedTuple):
    """Where a cordon applies: a virtual function, a GPU, or (all None) the host."""

    gpu_uuid: GpuUuid | None = None
    gpu: PciAddress | None = None
    vf_index: int | None = None
    vf: PciAddress | None = None

    @classmethod
    def of(cls, cordon: Cordon) -> _Place:
        return cls(cordon.gpu_uuid, cordon.gpu, cordon.vf_index, cordon.vf)

    def holds(self, other: _Place | Cordon) -> bool:
        """Whether this is the other place, or has it as a part."""
        return self.gpu_uuid is None or (self.gpu_uuid == other.gpu_uuid and self.vf_index in (None, other.vf_index))

    def meets(self, cordon: Cordon) -> bool:
        """Whether a cordon is of this place, of a part of it, or of the GPU or host that it belongs to."""
        return self.holds(cordon) or _Place.of(cordon).holds(self)


def _place(facts: HostSnapshot, request: CordonRequest) -> _Place:
    """The place that is meant. If the GPU was taken out of the host, its cordon still names it."""
    gpu_id = request.gpu_id
    if request.vf is not None:
        return _function(facts, request.vf, gpu_id)
    if gpu_id is None:
        return _Place()
    parsed_id = names.parse_gpu_id(gpu_id)
    ids = {gpu.pci for gpu in facts.gpus} | {gpu.uuid for gpu in facts.gpus}
    for cordon in facts.cordons:
        if cordon.gpu_uuid is not None and parsed_id in (cordon.gpu_uuid, cordon.gpu) and parsed_id not in ids:
            return _Place(cordon.gpu_uuid, cordon.gpu)
    gpu, gpu_uuid = gpu_choice.find(facts, gpu_id)
    return _Place(gpu_uuid, gpu.pci)


def _function(facts: HostSnapshot, vf: str, gpu_id: str | None) -> _Place:
    """The place of that virtual function, of that GPU if one is named. Raises UnknownGpu.

    If its GPU does not show it, its cordon still names it.
    """
    address = names.parse_pci_address(vf)
    parsed_id = None if gpu_id is None else names.parse_gpu_id(gpu_id)
    for cordon in facts.cordons:
        if cordon.vf == address and parsed_id in (None, cordon.gpu_uuid, cordon.gpu):
            return _Place.of(cordon)
    for gpu in facts.gpus:
        parent = gpu.functions.find(address)
        if parent is not None and parent.vf_index is not None and parsed_id in (None, gpu.uuid, gpu.pci):
            return _Place(gpu_choice.find(facts, gpu.pci)[1], gpu.pci, parent.vf_index, address)
    holder = facts.host if gpu_id is None else say("GPU {} of {}", gpu_id, facts.host)
    raise errors.UnknownGpu(
        say("{} has no virtual function {}", holder, address),
        hint=say("those with vGPUs are in the column VF of {}", Command("vgpumgr", "list", facts.host, "-o", "wide")),
    )
