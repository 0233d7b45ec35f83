"""(wish, observed) → the steps that give one GPU equal-size or mixed-size mode, or the guard that refuses.

The driver takes a mode on a GPU without vGPUs. It is asked first; if it refuses because of idle ones, ours are moved out and
back, the largest first, in the same generation. A mode ends with the host's boot: nothing keeps it but a declaration.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, TypeAlias

from vgpumgr import errors
from vgpumgr.core import simulate
from vgpumgr.core import step as plan_steps
from vgpumgr.core.driver import admission, geometry, scheduler
from vgpumgr.core.evidence import blocked_write, ending, ownership
from vgpumgr.core.gpu import evacuate
from vgpumgr.core.gpu import scheduler as scheduler_plan
from vgpumgr.core.gpu.mode_plan import ModePlan, ModeRequest, find_gpu, guard_foreign
from vgpumgr.core.model.claims import BOUND
from vgpumgr.core.model.snapshot import EQUAL_SIZE, MDEV_PF, MIG, MIXED_SIZE
from vgpumgr.core.placing import free_places

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from vgpumgr.core.gpu.evacuate import Ours
    from vgpumgr.core.model.domain_xml import Domain
    from vgpumgr.core.model.snapshot import Gpu, HostSnapshot, SizeMode
    from vgpumgr.core.model.view import Finding, HostView
    from vgpumgr.names import Slot, VmUuid

Key: TypeAlias = "tuple[VmUuid, Slot, int]"


_FIRST_BRANCH = 550  # nvidia-smi's and NVML's change logs: the mode and its calls; user guide 17.0, new features


def has_ended(view: HostView, gpu: Gpu) -> bool:
    """Whether a GPU is no longer in mixed-size mode although a vGPU of ours was made in it, and is missing now: a reboot."""
    return (
        gpu.mode == EQUAL_SIZE
        and any(entry.vgpu.placement_id is not None for entry in view.snapshot.ledger or ())  # on most hosts none
        and any(
            one.entry.vgpu.placement_id is not None and one.vgpu is None and one.whole
            for one in evacuate.entries(view, gpu)
        )
    )


def plan_mode(view: HostView, request: ModeRequest) -> ModePlan:
    """Plan the steps that set equal-size or mixed-size mode. Raises RefusedPlan, InUse, Unsure or LedgerBroken; changes nothing."""
    gpu = find_gpu(view, request)
    facts = view.snapshot
    assert request.mode != MIG
    assert gpu.mode != MIG
    assert gpu.mode is not None
    before, wanted = gpu.mode, request.mode
    ours = evacuate.entries(view, gpu) if before != wanted or request.again else ()
    steps: list[plan_steps.Step] = []
    findings: list[Finding] = []
    now = view
    if before != wanted:
        _guard_board(facts, gpu, wanted)
        guard_foreign(view, gpu, wanted)
        evacuate.guard_idle(view, gpu, ours, f"the mode of GPU {gpu.pci} of {facts.host} stays as it is")
        places = _room_again(facts, gpu, wanted, ours)
        around = _largest_first(gpu, evacuate.idle(view, gpu, ours))
        change = plan_steps.SetMode(
            host=facts.host,
            gpu_uuid=request.gpu_uuid,
            gpu=gpu.pci,
            mode=wanted,
            before=before,
            around=around,
            back=tuple(_back(evacuation, places) for evacuation in around),
        )
        steps += [*evacuate.enter(view, ours), change]
        blocked_write.guard(facts, steps)
        findings += ending.findings(view, around)
        try:
            now = simulate.apply(view, steps)
        except simulate.ImpossibleStepError as error:
            raise errors.RefusedPlan(
                f"GPU {gpu.pci} of {facts.host} cannot take back its vGPUs in {request.mode} mode: {error}",
                hint="detach some of them first",
            ) from error
    elif request.again:
        steps += evacuate.enter(view, [one for one in ours if _is_back(facts, one)])
        now = simulate.apply(view, steps)
    if request.again:
        card = now.snapshot.gpu_by_uuid(request.gpu_uuid)
        assert card is not None
        again, lost = evacuate.make_again(now, card, _by_size(gpu, ours))
        steps += again
        findings += lost
        steps += _claims(simulate.apply(now, again), ours)
    return ModePlan(
        host=facts.host,
        gpu=gpu,
        gpu_uuid=request.gpu_uuid,
        mode=request.mode,
        steps=tuple(steps),
        findings=tuple(findings),
        documents={domain.uuid: domain.claims for domain in _owners(view, ours)},
    )


def _guard_board(facts: HostSnapshot, gpu: Gpu, mode: SizeMode) -> None:
    if gpu.framework is None:
        raise errors.RefusedPlan(
            f"GPU {gpu.pci} of {facts.host} offers no vGPUs: {gpu.problem}",
            hint="enable them first: enabling virtual functions ends mixed-size mode",
        )
    if mode == EQUAL_SIZE:
        return
    if gpu.framework == MDEV_PF or (gpu.board is not None and not geometry.has_mixed_size(gpu.board)):
        raise errors.RefusedPlan(
            f"GPU {gpu.pci} of {facts.host} ({gpu.board or gpu.name or '?'}) has no {MIXED_SIZE} mode",
            hint="boards with SR-IOV have it, from driver R550 on",
        )
    branch = (facts.versions.get("driver") or "").partition(".")[0]
    if branch.isdecimal() and int(branch) < _FIRST_BRANCH:
        raise errors.RefusedPlan(
            f"the driver of {facts.host}, {facts.versions.get('driver')}, has no {MIXED_SIZE} mode on KVM",
            hint=f"R{_FIRST_BRANCH} (vGPU 17) and later have it",
        )
    now = gpu.scheduler.policies.get(scheduler_plan.GRAPHICS) if gpu.scheduler else None
    kept = scheduler_plan.persistent(facts, gpu).setting
    if scheduler.FIXED_SHARE in (now, kept.policy if kept else None):
        raise errors.RefusedPlan(
            f"GPU {gpu.pci} of {facts.host} has the scheduler {scheduler.FIXED_SHARE}, which does not combine with "
            f"{MIXED_SIZE} mode",
            hint=f"vgpumgr scheduler set --on {facts.host} --gpu-id {gpu.pci} --policy equal-share",
        )


def _room_again(facts: HostSnapshot, gpu: Gpu, mode: SizeMode, ours: Sequence[Ours]) -> Mapping[Key, int]:
    """The placement id of each vGPU of ours in mixed-size mode: if possible, the one that it has.

    Raises RefusedPlan unless each finds its room again in the mode, those that are missing now, too.
    """
    type_ids = [one.entry.vgpu.type_id for one in ours]
    sizes = [gpu.size_of(type_id) for type_id in type_ids]
    places: Mapping[Key, int] = {}
    if mode == MIXED_SIZE:
        wanted = [
            free_places.Returning(
                one.entry.vgpu.type_id, one.vgpu.placement_id if one.vgpu is not None else one.entry.vgpu.placement_id
            )
            for one in ours
        ]
        found = free_places.spread(simulate.in_mode(gpu, mode).places or {}, wanted)
        fits = found is not None
        places = {one.entry.vgpu.key: place for one, place in zip(ours, found or (), strict=fits)}
    else:
        fits = all(
            admission.refusal(sizes[at], (kind.max if (kind := gpu.type_of(type_id)) else None), sizes[:at], at) is None
            for at, type_id in enumerate(type_ids)
        )
    if not fits:
        raise errors.RefusedPlan(
            f"GPU {gpu.pci} of {facts.host} is not set to {mode} mode: its vGPUs would not all find room again",
            details=[
                f"{one.entry.vgpu.vm_name} slot {one.entry.vgpu.slot}: {one.entry.vgpu.type_name}" for one in ours
            ],
            hint="detach some of them first",
        )
    return places


def _is_back(facts: HostSnapshot, ours: Ours) -> bool:
    """Whether a vGPU was re-created, by a run that may have been killed before it said so in the ledger."""
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
    """The VMs whose claims are theirs."""
    found = (view.domain(uuid) for uuid in {one.entry.vgpu.vm for one in ours})
    return tuple(sorted((one for one in found if one is not None and not one.copied), key=lambda one: one.name))


def _claims(after: HostView, ours: Sequence[Ours]) -> Iterator[plan_steps.PutClaim]:
    """The claims say where their vGPUs lie now."""
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


def _largest_first(gpu: Gpu, around: Sequence[plan_steps.EvacuateVgpu]) -> tuple[plan_steps.EvacuateVgpu, ...]:
    """The order in which they come back: so each finds its place."""
    return tuple(sorted(around, key=lambda step: -(gpu.size_of(step.vgpu.type_id) or 0)))


def _by_size(gpu: Gpu, ours: Sequence[Ours]) -> tuple[Ours, ...]:
    return tuple(sorted(ours, key=lambda one: -(gpu.size_of(one.entry.vgpu.type_id) or 0)))
