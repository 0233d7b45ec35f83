"""Differences between the declared and the observed state, named by field, with their likely cause.

The plan has the steps that repair them; drift explains in words why there are any.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, TypeAlias

from vgpumgr.core import step as steps
from vgpumgr.core.driver import profiles
from vgpumgr.core.evidence import ownership
from vgpumgr.core.gpu import scheduler as scheduler_plan
from vgpumgr.core.model import claims
from vgpumgr.wording import say

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from vgpumgr.core.driver.modes import Mode
    from vgpumgr.core.driver.profiles import Wish
    from vgpumgr.core.driver.scheduler import SchedulerWish
    from vgpumgr.core.gpu.instance_plan import InstancePlan
    from vgpumgr.core.model.claims import Claim
    from vgpumgr.core.model.domain_xml import Domain
    from vgpumgr.core.model.snapshot import Gpu
    from vgpumgr.core.model.vgpu import LedgerEntry
    from vgpumgr.core.model.view import HostView
    from vgpumgr.core.slot.plan import Plan
    from vgpumgr.names import HostName, PciAddress, Slot, VmName


class Cause(StrEnum):
    """Why a slot, or a GPU's mode or instances, is not as declared. A scheduler's causes are in core.gpu.scheduler."""

    REBOOTED = "the host has rebooted since it was made"
    REVERTED = "it was freed since, and then the definition or the ledger was restored to an earlier state"
    LOST = "the host's ledger was lost, or its entry there"
    UNENTERED = "the host's ledger lost it; claim, hardware and definition agree on its owner"
    OTHER_DRIVER = "the driver or the kernel was changed since it was made"
    MOVED = "its vGPU is now a different one"
    BY_HAND = "removed by hand: the host has not rebooted since it was made"
    NEVER = "declared, but never attached"
    WAITED = "it waited for room"
    INSTANCES_ENDED = "never created, or lost when the host rebooted"
    MODE_ENDED = "never set, or lost when the host rebooted"
    UNDECLARED = "no longer in the inventory"
    NOW_IN = "now in the inventory"
    ELSEWHERE = "now declared in another place of the inventory"
    UNFINISHED = "an attach or a reconcile did not finish"
    HALF_MADE = "the run that created it did not finish"
    HALF_FREED = "a detach did not finish"
    LEFT_BEHIND = "its VM has ended, and libvirt's hook did not free it"
    REPLACED = "it was replaced"
    EDITED = "the VM's definition was edited"
    OTHER_WISH = "the inventory now asks for something else"
    RELOCATED = "its GPU was in another mode, or that place was taken, when it was re-created"
    REDEFINED = "the VM was redefined without its claim; the host's ledger still has it"


_Row: TypeAlias = tuple[str, str, str, Cause]  # of a slot: field, wanted, found, cause


@dataclass(frozen=True, slots=True, kw_only=True)
class Drift:
    """One difference, in words. `field`: claim, vgpu, hostdev, profile, declaration, mode, instances.… or scheduler.…

    `vm` and `slot` are None if it is about a GPU; `gpu` is None if no GPU can be named.
    """

    host: HostName
    vm: VmName | None
    slot: Slot | None
    gpu: PciAddress | None
    field: str
    wanted: str
    found: str
    cause: Cause | scheduler_plan.Cause

    def text(self) -> str:
        """`vgpu: A40-4Q on 0000:41:00.4 is missing (removed by hand …)`."""
        if self.field.startswith("instances."):
            what = say("{} needed", self.wanted)
        elif self.found in ("none", "nothing"):
            what = say("{} is missing", self.wanted)
        elif self.wanted == "none":
            what = say("{} is to be removed", self.found)
        else:
            what = say("should be {}, is {}", self.wanted, self.found)
        return say("{}: {} ({})", self.field, what, self.cause)


def of_slot(view: HostView, domain: Domain, slot: Slot, wish: Wish, plan: Plan) -> tuple[Drift, ...]:
    """Why a plan that serves a slot has steps; empty if it has none."""
    if not plan.changed:
        return ()
    return tuple(
        Drift(
            host=view.snapshot.host,
            vm=domain.name,
            slot=slot,
            gpu=plan.target.gpu if plan.target else None,
            field=field,
            wanted=wanted,
            found=found,
            cause=cause,
        )
        for field, wanted, found, cause in _of_slot(view, domain, slot, wish, plan)
    )


def _of_step(view: HostView, plan: Plan, step: steps.Step) -> Iterator[_Row]:
    """The difference that a step corrects by entering or freeing a vGPU."""
    match step:
        case steps.EnterVgpu():
            where = f"{step.vgpu.type_name} on {step.vgpu.parent}"
            yield "vgpu", f"{where}, in the ledger as made", "not in the ledger", Cause.UNENTERED
        case steps.DestroyVgpu():
            old = f"generation {step.vgpu.generation} on {step.vgpu.parent}"
            past = ownership.cannot_come_back(view.snapshot, step.vgpu)
            cause = Cause.OTHER_DRIVER if past else Cause.REPLACED
            yield "vgpu", f"generation {plan.target.generation if plan.target else '?'} alone", old, cause
        case steps.EvacuateVgpu():
            where = f"{step.vgpu.type_name} on {step.vgpu.parent}"
            yield "vgpu", "none", where, Cause.LEFT_BEHIND
        case steps.DeferVgpu():
            yield "vgpu", f"{step.vgpu.type_name} on {step.vgpu.parent} at each start", "not in the ledger", Cause.LOST
        case _:
            return  # the step is not about a vGPU


def _why_other_hostdevs(view: HostView, entries: Sequence[LedgerEntry]) -> Cause:
    is_outdated = any(ownership.cannot_come_back(view.snapshot, entry.vgpu) for entry in entries)
    return Cause.OTHER_DRIVER if is_outdated else Cause.MOVED


def _new_claim(plan: Plan, slot: Slot) -> Claim | None:
    puts = (step.claim for step in plan.steps if isinstance(step, steps.PutClaim))
    return next((claim for claim in puts if claim.slot == slot), None)


def _of_slot(view: HostView, domain: Domain, slot: Slot, wish: Wish, plan: Plan) -> Iterator[_Row]:
    claim = domain.claim(slot)
    entries = view.entries(domain.uuid, slot)
    served = claim if claim is not None and profiles.same_wish(claim.wish, wish) else None
    new_claim = _new_claim(plan, slot)
    if served is not None and new_claim is not None and new_claim.conditions != served.conditions:
        yield "profile", new_claim.asked, served.asked, Cause.OTHER_WISH
        return
    if served is None:
        yield ("claim" if claim is None else "profile", _asked(wish), *_claimed(domain, slot, entries))
    else:
        yield from _of_claim(served, plan)
    for step in plan.steps:
        if not isinstance(step, steps.CreateVgpu):
            yield from _of_step(view, plan, step)
        elif served is not None:
            where = f"{step.vgpu.type_name} on {step.vgpu.parent}"
            if step.expect == steps.SAME:
                yield "vgpu", f"{where}, in the ledger as made", "planned", Cause.HALF_MADE
            else:
                yield "vgpu", where, "none", why_gone(view, domain, entries, served)
    if served is not None and served.state == claims.BOUND:
        yield from _of_hostdevs(served, plan, _why_other_hostdevs(view, entries))


def _of_claim(claim: Claim, plan: Plan) -> Iterator[_Row]:
    """What differs in a claim whose wish is the right one."""
    if claim.state == claims.PENDING:
        yield "claim", "bound", "pending", Cause.UNFINISHED
        return
    for step in plan.steps:
        if isinstance(step, steps.PutClaim) and claims.said_by(step.claim) != claims.said_by(claim):
            cause = Cause.NOW_IN if claim.origin != step.claim.origin else Cause.ELSEWHERE
            yield "claim", claims.said_by(step.claim), claims.said_by(claim), cause
            return
        if isinstance(step, steps.PutClaim) and step.claim.binding.lies_at != claim.binding.lies_at:
            wanted, found = (_lies(one.binding) for one in (step.claim, claim))
            yield "claim", wanted, found, Cause.RELOCATED
            return


def _lies(binding: claims.Binding) -> str:
    if binding.mig_profile is not None:
        return f"GPU instance {binding.mig_profile} at {binding.mig_start}"
    return "no placement id" if binding.placement_id is None else f"placement id {binding.placement_id}"


def _of_hostdevs(claim: Claim, plan: Plan, why_moved: Cause) -> Iterator[_Row]:
    """What differs in the VM's definition."""
    additions = [str(step.device.source) for step in plan.steps if isinstance(step, steps.AttachHostdev)]
    wrong = [str(step.device.source) for step in plan.steps if isinstance(step, steps.DetachHostdev)]
    if additions or wrong:
        target, had = plan.target, claim.binding
        has_moved = target is not None and (target.device, target.parent) != (had.device, had.parent)
        cause = why_moved if has_moved else Cause.EDITED
        yield "hostdev", ", ".join(additions) or "none", ", ".join(wrong) or "none", cause


def of_gpu(view: HostView, gpu: Gpu, wish: SchedulerWish) -> tuple[Drift, ...]:
    """How a GPU's scheduler differs from its declaration. What only waits for a reboot or a VM does not count."""
    rows = scheduler_plan.drift(view.snapshot, gpu, wish)
    return tuple(
        _at(view, gpu, f"scheduler.{row.field}", row.cause, wanted=row.wanted, found=row.found)
        for row in rows
        if row.kind == scheduler_plan.DRIFT
    )


def of_mode(view: HostView, gpu: Gpu, mode: Mode) -> tuple[Drift, ...]:
    """How a GPU's mode differs from the declared one. The cause always reads: never set, or ended by a boot."""
    return (_at(view, gpu, "mode", Cause.MODE_ENDED, wanted=mode, found=gpu.mode or "?"),)


def of_layout(view: HostView, plan: InstancePlan) -> tuple[Drift, ...]:
    """The declared GPU instances that a GPU lacks."""
    counts = Counter(step.instance.profile for step in plan.steps if isinstance(step, steps.CreateInstance))
    state = "none" if not plan.gpu.mig or not plan.gpu.mig.instances else "too few"
    return tuple(
        _at(view, plan.gpu, f"instances.{profile}", Cause.INSTANCES_ENDED, wanted=f"{count} more", found=state)
        for profile, count in counts.items()
    )


def _at(view: HostView, gpu: Gpu, field: str, cause: Cause | scheduler_plan.Cause, *, wanted: str, found: str) -> Drift:
    """A difference of a GPU as a whole."""
    host = view.snapshot.host
    return Drift(host=host, vm=None, slot=None, gpu=gpu.pci, field=field, wanted=wanted, found=found, cause=cause)


def why_gone(view: HostView, domain: Domain, entries: tuple[LedgerEntry, ...], claim: Claim) -> Cause:
    """Why a served claim has no hardware, as far as known."""
    entry = next((row for row in reversed(entries) if row.vgpu.generation == claim.generation), None)
    if entry is None:
        return Cause.REVERTED if ownership.is_reverted(view, domain, claim) else Cause.LOST
    if entry.renumbered or ownership.cannot_come_back(view.snapshot, entry.vgpu):
        return Cause.OTHER_DRIVER
    return Cause.BY_HAND if entry.boot == view.snapshot.boot else Cause.REBOOTED


def of_undeclared(view: HostView, domain: Domain, claim: Claim) -> Drift:
    """The drift of a claim whose declaration is gone."""
    return _to_be_freed(view, domain, claim, "declaration", Cause.UNDECLARED)


def of_half_freed(view: HostView, domain: Domain, claim: Claim) -> Drift:
    """The drift of a claim whose detach did not finish."""
    return _to_be_freed(view, domain, claim, "claim", Cause.HALF_FREED)


def _to_be_freed(view: HostView, domain: Domain, claim: Claim, field: str, cause: Cause) -> Drift:
    gpu = view.snapshot.gpu_by_uuid(claim.binding.gpu_uuid)
    return Drift(
        host=view.snapshot.host,
        vm=domain.name,
        slot=claim.slot,
        gpu=gpu.pci if gpu else None,
        field=field,
        wanted="none",
        found=f"{claim.binding.type_name} on {claim.binding.parent}",
        cause=cause,
    )


def _claimed(domain: Domain, slot: Slot, entries: tuple[LedgerEntry, ...]) -> tuple[str, Cause]:
    claim, wait = domain.claim(slot), domain.wait(slot)
    if claim is not None:
        return _asked(claim.wish), Cause.OTHER_WISH
    if entries:
        return "none", Cause.REDEFINED
    return "none", Cause.WAITED if wait is not None and wait.origin == claims.ATTACH else Cause.NEVER


def _asked(wish: Wish) -> str:
    return wish.profile.text if isinstance(wish, profiles.ByProfile) else profiles.describe(wish)
