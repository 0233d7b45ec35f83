"""Plans the steps that give one GPU equal-size or mixed-size mode, or refuses.

The driver sets a mode on a GPU without vGPUs. The plain step is tried first. If the driver refuses it because of idle
vGPUs, ours are removed and re-created, the largest first, in the same generation. A boot ends the mode: only a
declaration restores it.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, TypeAlias, TypeVar

from vgpumgr import errors
from vgpumgr.core import simulate
from vgpumgr.core import step as plan_steps
from vgpumgr.core.driver import admission, geometry, modes
from vgpumgr.core.evidence import ownership
from vgpumgr.core.gpu import evacuate, gpu_plan
from vgpumgr.core.gpu import scheduler as scheduler_plan
from vgpumgr.core.gpu.mode_plan import ModePlan, find_gpu, guard_foreign
from vgpumgr.core.model.claims import BOUND
from vgpumgr.core.model.snapshot import MDEV_PF
from vgpumgr.core.placing import free_places
from vgpumgr.wording import Command, say

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from vgpumgr.core.driver.modes import Mode
    from vgpumgr.core.gpu.evacuate import Ours
    from vgpumgr.core.gpu.mode_plan import ModeRequest
    from vgpumgr.core.model.domain_xml import Domain
    from vgpumgr.core.model.snapshot import Gpu, HostSnapshot
    from vgpumgr.core.model.vgpu import VgpuSpec
    from vgpumgr.core.model.view import Finding, HostView
    from vgpumgr.names import Slot, VmUuid

_T = TypeVar("_T")
Key: TypeAlias = "tuple[VmUuid, Slot, int]"

_FIRST_BRANCH = 550  # nvidia-smi's and NVML's change logs: the mode and its calls; user guide 17.0, new features


def plan_mode(view: HostView, request: ModeRequest) -> ModePlan:
    """Plan the steps that set the mode. Raises RefusedPlan, InUse, Unsure or LedgerBroken; changes nothing."""
    gpu = find_gpu(view, request)
    steps: tuple[plan_steps.Step, ...] = ()
    findings: tuple[Finding, ...] = ()
    changes = gpu.mode != request.mode
    ours = evacuate.entries(view, gpu) if changes or request.again else ()
    if changes:
        _guard_board(view.snapshot, gpu, request.mode)
        guard_foreign(view, gpu, request.mode)
        steps, findings = evacuate.around(view, gpu, ours, "mode", partial(_change, view.snapshot, gpu, request, ours))
    elif request.again:
        steps = evacuate.enter(view, [one for one in ours if _is_back(view.snapshot, one)])
    after = _after(view, gpu, request, steps)
    if request.again:
        card = after.snapshot.gpu_by_uuid(request.gpu_uuid)
        assert card is not None
        recreations, losses = evacuate.make_again(after, card, _largest_first(gpu, ours, lambda one: one.entry.vgpu))
        steps = (*steps, *recreations, *_claims(simulate.apply(after, recreations), ours))
        findings = (*findings, *losses)
    documents = {domain.uuid: domain.claims for domain in _owners(view, ours)}
    return ModePlan(gpu=gpu, mode=request.mode, steps=steps, findings=findings, documents=documents)


def _change(
    facts: HostSnapshot, gpu: Gpu, request: ModeRequest, ours: Sequence[Ours], idle: Sequence[plan_steps.EvacuateVgpu]
) -> Iterator[plan_steps.SetMode]:
    places = _room_again(facts, gpu, request.mode, ours)
    around = _largest_first(gpu, idle, lambda step: step.vgpu)
    yield plan_steps.SetMode(
        host=facts.host,
        gpu_uuid=request.gpu_uuid,
        gpu=gpu.pci,
        mode=request.mode,
        expect=gpu.rules.name,
        around=around,
        back=tuple(_back(evacuation, places) for evacuation in around),
    )


def _after(view: HostView, gpu: Gpu, request: ModeRequest, steps: Sequence[plan_steps.Step]) -> HostView:
    try:
        return simulate.apply(view, steps)
    except simulate.ImpossibleStepError as error:
        why = f"cannot take back its vGPUs in {request.mode} mode: {error}"
        raise gpu_plan.refused(view.snapshot, gpu, why, "detach some of them first") from error


def _guard_board(facts: HostSnapshot, gpu: Gpu, mode: Mode) -> None:
    if gpu.framework is None:
        hint = "enable them first: enabling virtual functions ends mixed-size mode"
        raise gpu_plan.refused(facts, gpu, f"offers no vGPUs: {gpu.problem}", hint)
    if modes.of(mode).is_default:
        return
    if gpu.framework == MDEV_PF or (gpu.board is not None and not geometry.has_mixed_size(gpu.board)):
        why = f"({gpu.board or gpu.name or '?'}) has no {mode} mode"
        raise gpu_plan.refused(facts, gpu, why, "boards with SR-IOV have it, from driver R550 on")
    branch = (facts.versions.get("driver") or "").partition(".")[0]
    if branch.isdecimal() and int(branch) < _FIRST_BRANCH:
        raise errors.RefusedPlan(
            say("the driver of {}, {}, has no {} mode on KVM", facts.host, facts.versions.get("driver"), mode),
            hint=f"R{_FIRST_BRANCH} (vGPU 17) and later have it",
        )
    current = gpu.scheduler.policies.get(scheduler_plan.GRAPHICS) if gpu.scheduler else None
    persistent = scheduler_plan.persistent(facts, gpu).setting
    for policy in filter(None, (current, persistent.policy if persistent else None)):
        if policy not in modes.of(mode).policies:
            why = f"has the scheduler {policy}, which does not combine with {mode} mode"
            hint = Command(
                "vgpumgr", "scheduler", "set", "--on", facts.host, "--gpu-id", gpu.pci, "--policy", "equal-share"
            )
            raise gpu_plan.refused(facts, gpu, why, hint)


def _room_again(facts: HostSnapshot, gpu: Gpu, mode: Mode, ours: Sequence[Ours]) -> Mapping[Key, int]:
    """The placement id of each of our vGPUs in mixed-size mode: its present one if possible.

    Raises RefusedPlan unless the mode has room for all of them, including missing ones.
    """
    type_ids = [one.entry.vgpu.type_id for one in ours]
    sizes = [gpu.size_of(type_id) for type_id in type_ids]
    places: Mapping[Key, int] = {}
    if modes.of(mode).has_places:
        vgpus = [
            free_places.Returning(
                one.entry.vgpu.type_id, one.vgpu.placement_id if one.vgpu is not None else one.entry.vgpu.placement_id
            )
            for one in ours
        ]
        placement_ids = free_places.spread(simulate.in_mode(gpu, mode).places or {}, vgpus)
        fits = placement_ids is not None
        places = {one.entry.vgpu.key: place for one, place in zip(ours, placement_ids or (), strict=fits)}
    else:
        fits = all(
            admission.refusal(sizes[at], (kind.max if (kind := gpu.type_of(type_id)) else None), sizes[:at], at) is None
            for at, type_id in enumerate(type_ids)
        )
    if not fits:
        why = f"is not set to {mode} mode: its vGPUs would not all find room again"
        lines = [
            say("{} slot {}: {}", one.entry.vgpu.vm_name, one.entry.vgpu.slot, one.entry.vgpu.type_name) for one in ours
        ]
        raise gpu_plan.refused(facts, gpu, why, "detach some of them first", lines)
    return places


def _is_back(facts: HostSnapshot, ours: Ours) -> bool:
    """Whether a vGPU was re-created, perhaps by a run that was killed before it entered that in the ledger."""
    vgpu, entry = ours.vgpu, ours.entry
    if vgpu is None or not ours.whole or ownership.is_of_earlier_boot(facts, entry):
        return False
    return vgpu.is_of(entry.vgpu)


def _back(evacuation: plan_steps.EvacuateVgpu, places: Mapping[Key, int]) -> plan_steps.CreateVgpu:
    vgpu = replace(evacuation.vgpu, placement_id=places.get(evacuation.vgpu.key))
    return plan_steps.CreateVgpu(
        host=evacuation.host, vgpu=vgpu, expect=plan_steps.EMPTY, again=True, runs=evacuation.runs
    )


def _owners(view: HostView, ours: Sequence[Ours]) -> tuple[Domain, ...]:
    """The VMs of these vGPUs, except copies: a copy's claims are another VM's."""
    domains = (view.domain(uuid) for uuid in {one.entry.vgpu.vm for one in ours})
    return tuple(sorted((one for one in domains if one is not None and not one.copied), key=lambda one: one.name))


def _claims(after: HostView, ours: Sequence[Ours]) -> Iterator[plan_steps.PutClaim]:
    """The steps that write the vGPUs' new placement ids into their claims."""
    for domain in _owners(after, ours):
        for one in ours:
            claim = domain.claim(one.entry.vgpu.slot) if one.entry.vgpu.vm == domain.uuid else None
            entry = after.snapshot.entries.named(one.entry.vgpu.key)
            if claim is None or entry is None or (claim.state, claim.generation) != (BOUND, entry.vgpu.generation):
                continue
            if claim.binding.placement_id != entry.vgpu.placement_id:
                binding = replace(claim.binding, placement_id=entry.vgpu.placement_id)
                yield plan_steps.PutClaim(
                    vm=domain.uuid, vm_name=domain.name, claim=replace(claim, binding=binding), before=claim
                )


def _largest_first(gpu: Gpu, of: Iterable[_T], spec: Callable[[_T], VgpuSpec]) -> tuple[_T, ...]:
    """`of` in the order in which their vGPUs are re-created: the largest first, so that each finds room."""
    return tuple(sorted(of, key=lambda one: -(gpu.size_of(spec(one).type_id) or 0)))
