"""Remove our idle vGPUs from a GPU briefly and re-create them in place, if they make the driver refuse a change.

The ledger keeps their entries meanwhile, so a run that is killed in between leaves vGPUs that are gone, but not lost.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

from vgpumgr import errors
from vgpumgr.core import simulate
from vgpumgr.core import step as plan_steps
from vgpumgr.core.commands import command
from vgpumgr.core.evidence import blocked_write, ending, ownership
from vgpumgr.core.model import claims
from vgpumgr.core.model import view as views
from vgpumgr.core.model.vgpu import MADE, PLANNED
from vgpumgr.core.model.view import Finding
from vgpumgr.core.placing import division, takes
from vgpumgr.core.placing.no_place import Cause, Refusal
from vgpumgr.core.slot import detach
from vgpumgr.core.slot import plan as plans
from vgpumgr.wording import Command, joined, say

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from vgpumgr.core.model.functions import Vgpu
    from vgpumgr.core.model.snapshot import Gpu, HostSnapshot
    from vgpumgr.core.model.vgpu import LedgerEntry, VgpuSpec
    from vgpumgr.core.model.view import HostView


@dataclass(frozen=True, slots=True, kw_only=True)
class Ours:
    """A ledger entry on the GPU, with its VM's current name and its hardware.

    `whole`: it was fully made once, even if it is gone now.
    """

    entry: LedgerEntry
    vgpu: Vgpu | None
    whole: bool


def entries(view: HostView, gpu: Gpu) -> tuple[Ours, ...]:
    """The ledger's entries on a GPU, without lazy ones whose vGPUs are not there: only libvirt's hook makes those."""
    ours = (entry for entry in view.snapshot.ledger or () if entry.vgpu.gpu_uuid == gpu.uuid)
    return tuple(
        Ours(entry=replace(entry, vgpu=plans.spec_of_entry(view, entry)), vgpu=vgpu, whole=_is_whole(view, entry))
        for entry in ours
        if (vgpu := view.snapshot.vgpu_of(entry.vgpu)) is not None or not entry.lazy
    )


def _is_whole(view: HostView, entry: LedgerEntry) -> bool:
    """Whether an entry's vGPU was fully made once. After a killed re-creation its entry is planned, its claim bound."""
    domain = view.domain(entry.vgpu.vm)
    claim = domain.claim(entry.vgpu.slot) if domain and not domain.copied else None
    if claim is not None and claim.state == claims.LEAVING:
        return False
    if entry.state == PLANNED:
        return claim is not None and (claim.state, claim.generation) == (claims.BOUND, entry.vgpu.generation)
    return entry.state == MADE


def enter(view: HostView, ours: Iterable[Ours]) -> tuple[plan_steps.Step, ...]:
    """Steps that mark a killed run's entries as made if the hardware exists. Until then the vGPUs cannot be moved."""
    unentered = (one.entry for one in ours if one.vgpu is not None and one.entry.state == PLANNED)
    return tuple(_create(view, entry.vgpu, plan_steps.SAME) for entry in unentered)


def _create(view: HostView, vgpu: VgpuSpec, expect: Literal["empty", "same"]) -> plan_steps.CreateVgpu:
    """The step that re-creates a vGPU. If `expect` is "empty", it is marked `again`: its entry is in the ledger."""
    host, runs = view.snapshot.host, views.runs_without(view, vgpu.vm)
    return plan_steps.CreateVgpu(host=host, vgpu=vgpu, expect=expect, again=expect == plan_steps.EMPTY, runs=runs)


def idle(view: HostView, gpu: Gpu, ours: Iterable[Ours]) -> tuple[plan_steps.EvacuateVgpu, ...]:
    """The steps that empty a GPU: one for each idle vGPU of ours; none if the GPU has a vGPU that is not ours."""
    if any(view.snapshot.entry_of(gpu, vgpu) is None for vgpu in gpu.vgpus):
        return ()
    return tuple(
        plan_steps.EvacuateVgpu(
            host=view.snapshot.host,
            vgpu=one.entry.vgpu,
            runs=views.runs_without(view, one.entry.vgpu.vm),
            listed=views.users(view, one.entry.vgpu.device, one.vgpu).listed,
        )
        for one in ours
        if one.vgpu is not None
    )


def around(
    view: HostView,
    gpu: Gpu,
    ours: Sequence[Ours],
    what: str,
    change: Callable[[tuple[plan_steps.EvacuateVgpu, ...]], Iterable[plan_steps.Step]],
) -> tuple[tuple[plan_steps.Step, ...], tuple[Finding, ...]]:
    """The steps of a change that needs an empty GPU, and findings about vGPUs that are still in use for a moment.

    `change` gets the steps that empty the GPU, and returns all steps of the change. `what` names the setting in
    messages. Raises what guard_idle and `change` raise, and BlockedWrite.
    """
    guard_idle(view, gpu, ours, say("the {} of GPU {} of {} stays as it is", what, gpu.pci, view.snapshot.host))
    steps = (*enter(view, ours), *change(idle(view, gpu, ours)))
    blocked_write.guard(view.snapshot, steps)
    return steps, ending.findings(view, steps)


def make_again(
    view: HostView, gpu: Gpu, ours: Iterable[Ours]
) -> tuple[tuple[plan_steps.Step, ...], tuple[Finding, ...]]:
    """Steps that re-create our missing vGPUs, as after a killed run; a finding for each that cannot be re-created."""
    steps: list[plan_steps.Step] = []
    findings: list[Finding] = []
    after = view
    for one in ours:
        if one.vgpu is not None or not one.whole:
            continue
        vgpu, card = one.entry.vgpu, after.snapshot.gpu_by_uuid(one.entry.vgpu.gpu_uuid)
        assert card is not None
        reason = _other_framework(view.snapshot, gpu, vgpu) or takes.may_make_again(after.snapshot, card, vgpu)
        if reason is not None:
            what = say("{} of {} slot {} is gone and cannot be re-created", vgpu.type_name, vgpu.vm_name, vgpu.slot)
            text, host = say("{}: GPU {} {}", what, gpu.pci, reason.text), view.snapshot.host
            findings.append(Finding(kind="gone", host=host, vm=vgpu.vm_name, slot=vgpu.slot, text=text))
            continue
        spec = division.placed_again(after.snapshot, vgpu)
        step = _create(view, spec, plan_steps.EMPTY)
        after = simulate.apply_one(after, step)
        steps.append(step)
    return tuple(steps), tuple(findings)


def _other_framework(facts: HostSnapshot, gpu: Gpu, vgpu: VgpuSpec) -> Refusal | None:
    if not ownership.is_of_other_framework(gpu, vgpu):
        return None
    mend = Command("vgpumgr", "migrate-framework", facts.host)
    text = say("now offers {}, but the entry is of another framework: `{}`", gpu.framework or "?", mend)
    return Refusal(Cause.OTHER_FRAMEWORK, text)


def guard_idle(view: HostView, gpu: Gpu, ours: Sequence[Ours], what: str) -> None:
    """Raises RefusedPlan if something uses the GPU, or if a vGPU of ours there is not whole.

    `what` begins the message: it says what stays unchanged.
    """
    uses: list[str] = []
    names: list[str] = []
    for vgpu in gpu.vgpus:
        if view.snapshot.entry_of(gpu, vgpu) is None:
            users = views.users(view, vgpu.device, vgpu).lasting
            uses += [say("{} on {}, which is not ours: {}", vgpu.type_name or "?", vgpu.parent, line) for line in users]
            names += [views.holder_name(view, vgpu) or vgpu.parent] if users else []
    for one in ours:
        if one.vgpu is None:
            continue
        detach.guard_boot(view, one.entry)
        _guard_identified(what, one.entry, one.vgpu, whole=one.whole)
        users = views.users(view, one.entry.vgpu.device, one.vgpu).lasting
        if users:
            uses += [say("{} slot {}: {}", one.entry.vgpu.vm_name, one.entry.vgpu.slot, line) for line in users]
            names.append(one.entry.vgpu.vm_name)
    if uses:
        who = joined(", ", dict.fromkeys(names))
        raise errors.InUse(
            say("{}: the vGPU of {} is in use", what, who)
            if len(names) == 1
            else say("{}: vGPUs of {} are in use", what, who),
            details=uses,
            hint=say("shut {} down first; nothing in use is ever removed", who),
            until=say("its GPU is idle: {}", _using(view, tuple(dict.fromkeys(names)))) if views.ends(uses) else None,
        )


def _using(view: HostView, names: tuple[str, ...]) -> str:
    """The users of a GPU in words: `vm02, vm04 run` if all are running VMs, else that their vGPUs are in use."""
    who, alone = joined(", ", names), len(names) == 1
    active_vms = {domain.name for domain in view.domains if domain.active}
    if active_vms.issuperset(names):
        return say("{} runs", who) if alone else say("{} run", who)
    return say("the vGPU of {} is in use", who) if alone else say("the vGPUs of {} are in use", who)


def _guard_identified(what: str, entry: LedgerEntry, vgpu: Vgpu, *, whole: bool) -> None:
    if not vgpu.is_of(entry.vgpu):
        raise detach.drift(entry.vgpu, vgpu, hint="that vGPU may be somebody else's: free it by hand, then try again")
    if not whole:
        verb = "a detach" if entry.state != PLANNED else "an attach"
        out = command("detach", entry.vgpu.vm_name, slot=entry.vgpu.slot)
        raise errors.Unsure(
            say(
                "{}: {} of {} slot {} is unfinished, and its vGPU exists",
                what,
                verb,
                entry.vgpu.vm_name,
                entry.vgpu.slot,
            ),
            hint=say("`{}` removes it; repeating the attach finishes it", out)
            if entry.state == PLANNED
            else say("`{}` removes it", out),
        )
