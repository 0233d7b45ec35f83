"""Remove our idle vGPUs from a GPU briefly and re-create them in place, if the driver refuses something because of them.

The ledger keeps their entries meanwhile, so a run that is killed in between leaves vGPUs that are gone, but not lost.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from vgpumgr import errors
from vgpumgr.core import simulate
from vgpumgr.core import step as plan_steps
from vgpumgr.core.commands import command
from vgpumgr.core.model import claims, snapshot
from vgpumgr.core.model import view as views
from vgpumgr.core.model.vgpu import MADE, PLANNED, Vf
from vgpumgr.core.model.view import Finding
from vgpumgr.core.placing import division, takes
from vgpumgr.core.placing.no_place import Cause, Refusal
from vgpumgr.core.slot import detach
from vgpumgr.core.slot import plan as plans

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from vgpumgr.core.model.functions import Vgpu
    from vgpumgr.core.model.snapshot import Gpu
    from vgpumgr.core.model.vgpu import LedgerEntry
    from vgpumgr.core.model.view import HostView


@dataclass(frozen=True, slots=True, kw_only=True)
class Ours:
    """A ledger entry on the GPU, with its hardware. `whole`: it was made once, whatever happened to it since."""

    entry: LedgerEntry
    vgpu: Vgpu | None
    whole: bool


def entries(view: HostView, gpu: Gpu) -> tuple[Ours, ...]:
    """The ledger's entries on a GPU."""
    return tuple(
        Ours(entry=entry, vgpu=view.snapshot.vgpu_of(entry.vgpu), whole=_is_whole(view, entry))
        for entry in view.snapshot.ledger or ()
        if entry.vgpu.gpu_uuid == gpu.uuid
    )


def _is_whole(view: HostView, entry: LedgerEntry) -> bool:
    """True for made entries, and for planned ones of a killed re-creation: their claim is bound, in the same generation."""
    domain = view.domain(entry.vgpu.vm)
    claim = domain.claim(entry.vgpu.slot) if domain and not domain.copied else None
    if claim is not None and claim.state == claims.LEAVING:
        return False
    if entry.state == PLANNED:
        return claim is not None and (claim.state, claim.generation) == (claims.BOUND, entry.vgpu.generation)
    return entry.state == MADE


def enter(view: HostView, ours: Iterable[Ours]) -> tuple[plan_steps.Step, ...]:
    """The steps that set entries of a killed run to made, if the hardware exists: only then can the vGPUs be moved."""
    return tuple(
        plan_steps.CreateVgpu(
            host=view.snapshot.host,
            vgpu=plans.spec_of_entry(view, one.entry),
            expect=plan_steps.SAME,
            runs=views.runs_without(view, one.entry.vgpu.vm),
        )
        for one in ours
        if one.vgpu is not None and one.entry.state == PLANNED
    )


def idle(view: HostView, gpu: Gpu, ours: Iterable[Ours]) -> tuple[plan_steps.EvacuateVgpu, ...]:
    """The steps that empty a GPU: one for each idle vGPU of ours; none if the GPU has a vGPU that is not ours."""
    if any(view.snapshot.entry_of(gpu, vgpu) is None for vgpu in gpu.vgpus):
        return ()
    return tuple(
        plan_steps.EvacuateVgpu(
            host=view.snapshot.host,
            vgpu=plans.spec_of_entry(view, one.entry),
            runs=views.runs_without(view, one.entry.vgpu.vm),
            listed=views.users(view, one.entry.vgpu.device, one.vgpu).listed,
        )
        for one in ours
        if one.vgpu is not None
    )


def make_again(
    view: HostView, gpu: Gpu, ours: Iterable[Ours]
) -> tuple[tuple[plan_steps.Step, ...], tuple[Finding, ...]]:
    """The steps that re-create our missing vGPUs, as after a killed run; a finding for each that cannot be re-created now."""
    steps: list[plan_steps.Step] = []
    findings: list[Finding] = []
    now = view
    for one in ours:
        if one.vgpu is not None or not one.whole:
            continue
        card = now.snapshot.gpu_by_uuid(one.entry.vgpu.gpu_uuid)
        assert card is not None
        if isinstance(one.entry.vgpu.device, Vf) != (gpu.framework == snapshot.VENDOR_VFIO):
            text = f"now offers {gpu.framework}, but the entry is of another framework"
            reason: Refusal | None = Refusal(Cause.OTHER_FRAMEWORK, text)
        else:
            reason = takes.may_make_again(now.snapshot, card, one.entry.vgpu)
        if reason is not None:
            text = (
                f"{one.entry.vgpu.type_name} of {one.entry.vgpu.vm_name} slot {one.entry.vgpu.slot} is gone and cannot be re-created: "
                f"GPU {gpu.pci} {reason}"
            )
            findings.append(
                Finding(
                    kind="gone", host=view.snapshot.host, vm=one.entry.vgpu.vm_name, slot=one.entry.vgpu.slot, text=text
                )
            )
            continue
        spec = division.placed_again(now.snapshot, plans.spec_of_entry(view, one.entry))
        step = plan_steps.CreateVgpu(
            host=view.snapshot.host,
            vgpu=spec,
            expect=plan_steps.EMPTY,
            again=True,
            runs=views.runs_without(view, one.entry.vgpu.vm),
        )
        now = simulate.apply_one(now, step)
        steps.append(step)
    return tuple(steps), tuple(findings)


def guard_idle(view: HostView, gpu: Gpu, ours: Sequence[Ours], what: str) -> None:
    """Raises RefusedPlan if something uses the GPU, or if a vGPU of ours there is not whole.

    `what` begins the message: it says what stays unchanged.
    """
    held: list[str] = []
    names: list[str] = []
    for vgpu in gpu.vgpus:
        if view.snapshot.entry_of(gpu, vgpu) is None:
            used = views.users(view, vgpu.device, vgpu).lasting
            held += [f"{vgpu.type_name or '?'} on {vgpu.parent}, which is not ours: {line}" for line in used]
            names += [views.holder_name(view, vgpu) or vgpu.parent] if used else []
    for one in ours:
        if one.vgpu is None:
            continue
        detach.guard_boot(view, one.entry)
        _guard_identified(what, one.entry, one.vgpu, whole=one.whole)
        used = views.users(view, one.entry.vgpu.device, one.vgpu).lasting
        if used:
            held += [f"{one.entry.vgpu.vm_name} slot {one.entry.vgpu.slot}: {line}" for line in used]
            names.append(one.entry.vgpu.vm_name)
    if held:
        who = ", ".join(dict.fromkeys(names))
        raise errors.InUse(
            f"{what}: {'the vGPU' if len(names) == 1 else 'vGPUs'} of {who} {'is' if len(names) == 1 else 'are'} in use",
            details=held,
            hint=f"shut {who} down first; nothing in use is ever removed",
            until=f"its GPU is idle: {_using(view, tuple(dict.fromkeys(names)))}" if views.ends(held) else None,
        )


def _using(view: HostView, names: tuple[str, ...]) -> str:
    """`vm02, vm04 run`, where that is what uses it."""
    who, alone = ", ".join(names), len(names) == 1
    running = {domain.name for domain in view.domains if domain.active}
    if running.issuperset(names):
        return f"{who} {'runs' if alone else 'run'}"
    return f"the vGPU of {who} is in use" if alone else f"the vGPUs of {who} are in use"


def _guard_identified(what: str, entry: LedgerEntry, vgpu: Vgpu, *, whole: bool) -> None:
    if not vgpu.is_of(entry.vgpu):
        raise detach.drift(entry.vgpu, vgpu, hint="that vGPU may be somebody else's: free it by hand, then try again")
    if not whole:
        verb = "a detach" if entry.state != PLANNED else "an attach"
        out = command("detach", entry.vgpu.vm_name, slot=entry.vgpu.slot)
        raise errors.Unsure(
            f"{what}: {verb} of {entry.vgpu.vm_name} slot {entry.vgpu.slot} is unfinished, and its vGPU exists",
            hint=f"`{out}` removes it" + ("; repeating the attach finishes it" if entry.state == PLANNED else ""),
        )
