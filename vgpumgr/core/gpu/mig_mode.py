"""(wish, observed) → the steps that turn a GPU's MIG mode on or off, in a safe order, or the guard that refuses.

vGPUs and instances are removed, the mode changes in the driver's order (core/driver/mig_order.py), and slots get vGPUs
of the new mode's kind if they asked for memory or a share. A slot that asked for a type of the old kind gets none. The
ledger keeps the entry of a removed vGPU until its slot has the new one.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from vgpumgr import errors
from vgpumgr.core import simulate
from vgpumgr.core import step as plan_steps
from vgpumgr.core.commands import command
from vgpumgr.core.driver import mig, mig_order, modes, profiles
from vgpumgr.core.driver.mig_order import Move
from vgpumgr.core.driver.modes import EQUAL_SIZE
from vgpumgr.core.evidence import blocked_write
from vgpumgr.core.gpu import evacuate, gpu_plan
from vgpumgr.core.gpu.mode_plan import ModePlan, ModeRequest, find_gpu, guard_foreign
from vgpumgr.core.model import view as views
from vgpumgr.core.model.claims import BOUND, PENDING
from vgpumgr.core.model.view import Finding
from vgpumgr.core.placing import instances
from vgpumgr.core.slot import attach
from vgpumgr.core.slot.request import request_of
from vgpumgr.wording import Command, joined, say

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from vgpumgr.core.model.claims import Claim
    from vgpumgr.core.model.domain_xml import Domain
    from vgpumgr.core.model.mig import Mig, MigPlace
    from vgpumgr.core.model.snapshot import Gpu, HostSnapshot
    from vgpumgr.core.model.view import HostView
    from vgpumgr.names import Slot, VmUuid


@dataclass(frozen=True, slots=True, kw_only=True)
class _Back:
    """What is re-created: the steps, the served slots, and a line for each slot that the new mode cannot serve."""

    steps: tuple[plan_steps.Step, ...]
    findings: tuple[Finding, ...]
    served: tuple[tuple[Domain, Claim], ...]
    left_out: tuple[str, ...]


def is_about(view: HostView, gpu: Gpu, request: ModeRequest) -> bool:
    """Whether a request is about MIG: it asks for MIG, or the GPU is in MIG mode, or a change of it was interrupted."""
    if modes.of(request.mode).mig_backed:
        return True
    if not gpu.mig:
        return False
    if gpu.mig.enabled or gpu.mig.pending or gpu.framework is None:
        return True
    left_half_way = (
        modes.of(claim.binding.made_in).mig_backed or claim.state == PENDING for _, claim in _slots(view, gpu)
    )
    return gpu.rules.is_default and any(left_half_way)


def plan_mig(view: HostView, request: ModeRequest) -> ModePlan:
    """Plan the steps. Raises RefusedPlan, InUse, Unsure or LedgerBroken; changes nothing."""
    facts = view.snapshot
    gpu = find_gpu(view, request)
    on = modes.of(request.mode).mig_backed
    mig_state = _guard_board(facts, gpu, request)
    slots = _slots(view, gpu)
    functions = gpu.framework is not None
    if mig_order.is_done(enabled=mig_state.enabled, pending=mig_state.pending, on=on, functions=functions):
        if not request.again:
            return _plan(view, gpu, request, (), ())
        # A slot that cannot be served keeps its entry, which takes room. So the others are planned once more beside it.
        left_out = (first_try := _back(view, gpu, slots)).left_out
        back = _back(view, gpu, first_try.served) if left_out else first_try
        blocked_write.guard(facts, back.steps)
        losses = [Finding(kind="gone", host=facts.host, text=say("{}: {}", facts.host, line)) for line in left_out]
        return _plan(view, gpu, request, back.steps, (*back.findings, *losses))
    guard_foreign(view, gpu, request.mode)
    _guard_instances(facts, gpu, request)
    ours = evacuate.entries(view, gpu)

    def change(idle: Sequence[plan_steps.EvacuateVgpu]) -> Iterator[plan_steps.Step]:
        _guard_gone(facts, gpu, ours, view)
        yield from _out(facts, gpu, mig_state, idle)
        yield from _change(facts, gpu, mig_state, request, on=on)

    first, findings = evacuate.around(view, gpu, ours, "mode", change)
    if not functions:  # what vGPUs can be made on is known only once the GPU has its functions
        return _plan(view, gpu, request, first, findings, goes_on=bool(slots))
    back = _back(simulate.apply(view, first), gpu, slots)
    _guard_back(facts, gpu, request, back)
    return _plan(view, gpu, request, (*first, *back.steps), (*back.findings, *findings))


def _plan(
    view: HostView,
    gpu: Gpu,
    request: ModeRequest,
    steps: tuple[plan_steps.Step, ...],
    findings: tuple[Finding, ...],
    *,
    goes_on: bool = False,
) -> ModePlan:
    return ModePlan(
        gpu=gpu,
        mode=request.mode,
        steps=steps,
        findings=findings,
        documents={domain.uuid: domain.claims for domain, _ in _slots(view, gpu)},
        goes_on=goes_on,
    )


def _slots(view: HostView, gpu: Gpu) -> tuple[tuple[Domain, Claim], ...]:
    """The slots with a claim for this GPU of this host, bound or (after an interrupted run) pending."""
    return tuple(
        (domain, claim)
        for domain in sorted(view.domains, key=lambda one: one.name)
        if not domain.copied and domain.claims is not None
        for claim in domain.claims.claims
        if claim.state in (BOUND, PENDING)
        and (claim.binding.gpu_uuid, claim.binding.host) == (gpu.uuid, view.snapshot.machine)
    )


def _guard_board(facts: HostSnapshot, gpu: Gpu, request: ModeRequest) -> Mig:
    if not gpu.mig:
        hint = say("{} shows the modes of its GPUs", Command("vgpumgr", "mode", "show", facts.host))
        raise gpu_plan.refused(facts, gpu, f"({gpu.board or gpu.name or '?'}) has no MIG", hint)
    # Mixed-size mode ends with the functions: if a later step failed, undoing would not bring it back.
    rules = modes.of(request.mode)
    if rules.has_places or gpu.rules.has_places:
        if gpu.rules.has_places or gpu.mig.enabled or gpu.mig.pending:
            why = f"is in {gpu.mode if gpu.rules.has_places else 'MIG'} mode, and has to leave it"
        elif gpu.framework is None:
            why = "has its virtual functions off, and needs them"
        else:
            why = "has an unfinished change, which has to be finished"
        why += f" before it can be set to {modes.of(request.mode).words} mode"
        raise gpu_plan.refused(facts, gpu, why, say("first `{}`", _command(facts, gpu, EQUAL_SIZE)))
    if gpu.mig.instances is None:
        raise errors.Unsure(
            say(
                "the GPU instances of GPU {} of {} cannot be read, and changing its mode would remove them",
                gpu.pci,
                facts.host,
            ),
            hint=say("{} says why", Command("vgpumgr", "discover", facts.host)),
        )
    return gpu.mig


def _guard_instances(facts: HostSnapshot, gpu: Gpu, request: ModeRequest) -> None:
    foreign = [one for one in instances.held(facts, gpu) if not one.ours]
    if foreign:
        raise gpu_plan.refused(
            facts,
            gpu,
            f"is not set to {request.mode} mode: it has GPU instances that are not ours",
            "changing the mode would remove them, and vgpumgr never removes what is not its own",
            [f"{one.profile.name} at memory slice {one.instance.start} (id {one.instance.id})" for one in foreign],
        )


def _guard_gone(facts: HostSnapshot, gpu: Gpu, ours: Sequence[evacuate.Ours], view: HostView) -> None:
    """Raises RefusedPlan for entries without a claim on this GPU: nothing says what to re-create for them."""
    slots = {(domain.uuid, claim.slot) for domain, claim in _slots(view, gpu)}
    loose = [one.entry.vgpu for one in ours if (one.entry.vgpu.vm, one.entry.vgpu.slot) not in slots]
    if loose:
        ways = dict.fromkeys(say("`{}`", command("detach", vgpu.vm_name, slot=vgpu.slot)) for vgpu in loose)
        lines = [say("{} slot {}: {} on {}", vgpu.vm_name, vgpu.slot, vgpu.type_name, vgpu.parent) for vgpu in loose]
        why = "has vGPUs whose VM or claim is gone, or is leaving"
        raise gpu_plan.refused(facts, gpu, why, say("free them first: {}", joined(", ", ways)), lines)


def _out(
    facts: HostSnapshot, gpu: Gpu, mig_state: Mig, vgpus: Sequence[plan_steps.EvacuateVgpu]
) -> Iterator[plan_steps.VgpuStep | plan_steps.InstanceStep]:
    """Remove all our vGPUs and GPU instances. Otherwise removing the VFs would end the instances unnoticed.

    Instances without vGPUs are removed first, each other one right after its vGPUs. So in an undo, each instance is the
    only one with room when its vGPUs are re-created: the driver chooses among those that have room.
    """
    inside: dict[MigPlace | None, list[plan_steps.EvacuateVgpu]] = {}
    for step in vgpus:
        inside.setdefault(step.vgpu.mig, []).append(step)
    mine = [entry.instance for entry in facts.instances if entry.instance.gpu_uuid == gpu.uuid]
    for ours in sorted(mine, key=lambda one: one.place in inside):
        yield from inside.pop(ours.place, ())
        exists = mig_state.instance_at(ours.profile_id, ours.start) is not None
        yield plan_steps.DestroyInstance(
            host=facts.host, instance=ours, expect=plan_steps.PRESENT if exists else plan_steps.ABSENT
        )
    for rest in inside.values():
        yield from rest


def _change(
    facts: HostSnapshot, gpu: Gpu, mig_state: Mig, request: ModeRequest, *, on: bool
) -> Iterator[plan_steps.MigStep]:
    host, uuid, pci, framework = facts.host, request.gpu_uuid, gpu.pci, gpu.framework
    types = (gpu.types or {}).values()
    names = [kind.parsed for kind in types]
    mig_profiles = mig.profiles_of_types(gpu.board, names) if on and gpu.board is not None else ()
    for move in mig_order.moves(
        enabled=mig_state.enabled,
        pending=mig_state.pending,
        on=on,
        functions=framework is not None,
        needs_reset=mig.needs_reset(gpu.board_names),
    ):
        match move:
            case Move.TAKE_FUNCTIONS | Move.MAKE_FUNCTIONS:
                turn_on = move is Move.MAKE_FUNCTIONS
                yield plan_steps.SetVfs(host=host, gpu_uuid=uuid, gpu=pci, on=turn_on, framework=framework)
            case Move.SET:
                now = mig_state.enabled
                yield plan_steps.SetMig(host=host, gpu_uuid=uuid, gpu=pci, on=on, expect=now, profiles=mig_profiles)
            case Move.RESET if request.reset:
                yield plan_steps.ResetGpu(host=host, gpu_uuid=uuid, gpu=pci, profiles=mig_profiles)
            case Move.RESET:
                again = _command(facts, gpu, request.mode, "--allow-reset")
                why = f"({gpu.board or gpu.name or '?'}) changes its MIG mode only with a reset"
                hint = say("`{}` resets this GPU only; first stop whatever has it open, including monitoring", again)
                raise gpu_plan.refused(facts, gpu, why, hint)


def _back(view: HostView, gpu: Gpu, slots: Sequence[tuple[Domain, Claim]]) -> _Back:
    """Plan to attach each slot again on this GPU, on the host as the slots before it leave it.

    These slots' entries of the other kind are removed first: they hold room that the slots cannot use.
    """
    assert gpu.uuid is not None
    keys = {(domain.uuid, claim.slot) for domain, claim in slots}
    steps: list[plan_steps.Step] = [*_entries_out(view, gpu, keys)]
    served: list[tuple[Domain, Claim]] = []
    findings: list[Finding] = []
    left_out: list[str] = []
    after = simulate.apply(view, steps)
    for domain, claim in slots:
        if not profiles.is_served(claim.wish):
            left_out.append(say("{} slot {}: its claim is from a later version", domain.name, claim.slot))
            continue
        request = replace(request_of(domain, claim), replace=True, gpus=(gpu.uuid,))
        try:
            plan = attach.plan_attach(after, request)
        except (errors.RequestError, errors.RefusedPlan) as error:
            left_out.append(say("{} slot {} ({}): {}", domain.name, claim.slot, claim.asked, _reason(error)))
            continue
        steps += plan.steps
        findings += plan.findings
        served.append((domain, claim))
        after = simulate.apply(after, plan.steps)
    return _Back(steps=tuple(steps), findings=tuple(findings), served=tuple(served), left_out=tuple(left_out))


def _entries_out(view: HostView, gpu: Gpu, slots: Collection[tuple[VmUuid, Slot]]) -> Iterator[plan_steps.DestroyVgpu]:
    """Remove these slots' entries of vGPUs that are gone and that the GPU's mode does not take."""
    card = view.snapshot.gpu_by_uuid(gpu.uuid or "")
    on = card is not None and card.rules.mig_backed
    for one in evacuate.entries(view, gpu):
        if (one.entry.vgpu.vm, one.entry.vgpu.slot) not in slots:
            continue
        if one.vgpu is None and one.whole and bool(one.entry.vgpu.mig) != on:
            yield plan_steps.DestroyVgpu(
                host=view.snapshot.host,
                vgpu=one.entry.vgpu,
                expect=plan_steps.ABSENT,
                runs=views.runs_without(view, one.entry.vgpu.vm),
            )


def _reason(error: errors.VgpumgrError) -> str:
    return " ".join(error.details[0].split()) if error.details else error.what


def _guard_back(facts: HostSnapshot, gpu: Gpu, request: ModeRequest, back: _Back) -> None:
    if back.left_out:
        why = f"is not set to {request.mode} mode: not all of its vGPUs could come back"
        drain = command("drain", facts.host, options=("--gpu-id", gpu.pci))
        raise gpu_plan.refused(
            facts, gpu, why, say("`{}` moves them to other GPUs; or detach them", drain), back.left_out
        )


def _command(facts: HostSnapshot, gpu: Gpu, mode: str, *more: str) -> Command:
    return Command("vgpumgr", "mode", "set", mode, "--on", facts.host, "--gpu-id", gpu.pci, *more)
