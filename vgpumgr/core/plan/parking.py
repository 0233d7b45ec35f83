"""Idle vGPUs of ours out of a GPU for a moment, and back at the same place: where the driver refuses something because of them.

The ledger keeps their entries meanwhile, so whoever is killed in between leaves vGPUs that are gone, not lost.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from vgpumgr import errors
from vgpumgr.core.commands import command
from vgpumgr.core.model import claims, observed, snapshot
from vgpumgr.core.model.observed import Finding
from vgpumgr.core.model.vgpu import MADE, PLANNED, Vf
from vgpumgr.core.plan import changes, detaching, placement, simulate
from vgpumgr.core.plan import plan as plans
from vgpumgr.core.plan.no_place import Cause, Refusal

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from vgpumgr.core.model.observed import HostView
    from vgpumgr.core.model.snapshot import Gpu, Vgpu
    from vgpumgr.core.model.vgpu import LedgerEntry


@dataclass(frozen=True, slots=True, kw_only=True)
class Ours:
    """An entry of the ledger on the GPU, with its hardware. `whole`: it was made once, whatever became of it since."""

    entry: LedgerEntry
    vgpu: Vgpu | None
    whole: bool


def entries(view: HostView, gpu: Gpu) -> tuple[Ours, ...]:
    """What the ledger has on a GPU."""
    return tuple(
        Ours(entry=entry, vgpu=view.snapshot.vgpu_of(entry.vgpu), whole=_is_whole(view, entry))
        for entry in view.snapshot.ledger or ()
        if entry.vgpu.gpu_uuid == gpu.uuid
    )


def _is_whole(view: HostView, entry: LedgerEntry) -> bool:
    """Made; or planned once more by a run that was killed, which its claim, bound long since, tells from a first attach."""
    domain = view.domain(entry.vgpu.vm)
    claim = domain.claim(entry.vgpu.slot) if domain and not domain.copied else None
    if claim is not None and claim.state == claims.LEAVING:
        return False
    if entry.state == PLANNED:
        return claim is not None and (claim.state, claim.generation) == (claims.BOUND, entry.vgpu.generation)
    return entry.state == MADE


def enter(view: HostView, ours: Iterable[Ours]) -> tuple[changes.Step, ...]:
    """The ledger's word for what a killed run had made: only so can it be moved."""
    return tuple(
        changes.CreateVgpu(
            host=view.snapshot.host,
            vgpu=plans.spec_of_entry(view, one.entry),
            expect=changes.SAME,
            runs=observed.runs_without(view, one.entry.vgpu.vm),
        )
        for one in ours
        if one.vgpu is not None and one.entry.state == PLANNED
    )


def idle(view: HostView, gpu: Gpu, ours: Iterable[Ours]) -> tuple[changes.ParkVgpu, ...]:
    """The steps that empty a GPU: one for each idle vGPU of ours; none where one is there that is not ours."""
    if any(view.snapshot.entry_of(gpu, vgpu) is None for vgpu in gpu.vgpus):
        return ()
    return tuple(
        changes.ParkVgpu(
            host=view.snapshot.host,
            vgpu=plans.spec_of_entry(view, one.entry),
            runs=observed.runs_without(view, one.entry.vgpu.vm),
            listed=observed.users(view, one.entry.vgpu.device, one.vgpu).listed,
        )
        for one in ours
        if one.vgpu is not None
    )


def make_again(view: HostView, gpu: Gpu, ours: Iterable[Ours]) -> tuple[tuple[changes.Step, ...], tuple[Finding, ...]]:
    """The vGPUs of ours that are gone, as after a run that was killed; a finding for each that has no way back now."""
    steps: list[changes.Step] = []
    findings: list[Finding] = []
    now = view
    for one in ours:
        if one.vgpu is not None or not one.whole:
            continue
        card = now.snapshot.gpu_by_uuid(one.entry.vgpu.gpu_uuid)
        assert card is not None
        if isinstance(one.entry.vgpu.device, Vf) != (gpu.framework == snapshot.VENDOR_VFIO):
            text = f"offers {gpu.framework} now, which the entry is not of"
            reason: Refusal | None = Refusal(Cause.OTHER_FRAMEWORK, text)
        else:
            reason = placement.may_make_again(now.snapshot, card, one.entry.vgpu)
        if reason is not None:
            text = (
                f"{one.entry.vgpu.type_name} of {one.entry.vgpu.vm_name} slot {one.entry.vgpu.slot} is gone and cannot be made again: "
                f"GPU {gpu.pci} {reason}"
            )
            findings.append(
                Finding(
                    kind="gone", host=view.snapshot.host, vm=one.entry.vgpu.vm_name, slot=one.entry.vgpu.slot, text=text
                )
            )
            continue
        spec = plans.spec_of_entry(view, one.entry)
        step = changes.CreateVgpu(
            host=view.snapshot.host,
            vgpu=spec,
            expect=changes.EMPTY,
            again=True,
            runs=observed.runs_without(view, one.entry.vgpu.vm),
        )
        now = simulate.apply_one(now, step)
        steps.append(step)
    return tuple(steps), tuple(findings)


def guard_idle(view: HostView, gpu: Gpu, ours: Sequence[Ours], what: str) -> None:
    """Whether nothing uses the GPU, and what is ours there is whole. Raises RefusedPlan.

    `what` begins the message: what stays as it is.
    """
    held: list[str] = []
    names: list[str] = []
    for vgpu in gpu.vgpus:
        if view.snapshot.entry_of(gpu, vgpu) is None:
            used = observed.users(view, vgpu.device, vgpu).lasting
            held += [f"{vgpu.type_name or '?'} on {vgpu.parent}, which is not ours: {line}" for line in used]
            names += [observed.holder_name(view, vgpu) or vgpu.parent] if used else []
    for one in ours:
        if one.vgpu is None:
            continue
        detaching.guard_boot(view, one.entry)
        _guard_identified(what, one.entry, one.vgpu, whole=one.whole)
        used = observed.users(view, one.entry.vgpu.device, one.vgpu).lasting
        if used:
            held += [f"{one.entry.vgpu.vm_name} slot {one.entry.vgpu.slot}: {line}" for line in used]
            names.append(one.entry.vgpu.vm_name)
    if held:
        who = ", ".join(dict.fromkeys(names))
        raise errors.InUse(
            f"{what}: {'the vGPU' if len(names) == 1 else 'vGPUs'} of {who} {'is' if len(names) == 1 else 'are'} in use",
            details=held,
            hint=f"shut {who} down first; nothing in use is ever taken away",
        )


def _guard_identified(what: str, entry: LedgerEntry, vgpu: Vgpu, *, whole: bool) -> None:
    if vgpu.type_id != entry.vgpu.type_id:
        raise detaching.drift(
            entry.vgpu, vgpu, hint="that vGPU may be somebody else's: free it by hand, then try again"
        )
    if not whole:
        verb = "a detach" if entry.state != PLANNED else "an attach"
        out = command("detach", entry.vgpu.vm_name, slot=entry.vgpu.slot)
        raise errors.Unsure(
            f"{what}: {verb} of {entry.vgpu.vm_name} slot {entry.vgpu.slot} has not ended, and its vGPU is there",
            hint=f"`{out}` takes it back" + (", the same attach again finishes it" if entry.state == PLANNED else ""),
        )
