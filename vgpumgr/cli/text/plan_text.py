"""A plan for people: one line per step, with a mark that carries the meaning."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from vgpumgr.cli.text.grants import granted
from vgpumgr.cli.text.vgpu_moves import place_of, place_text
from vgpumgr.core import step as steps
from vgpumgr.core.driver import scheduler
from vgpumgr.core.model.claims import said_by
from vgpumgr.core.model.domain_xml import Domain
from vgpumgr.core.slot.plan import Plan
from vgpumgr.errors import Outcome

if TYPE_CHECKING:
    from collections.abc import Iterator

    from vgpumgr.controller.results import ChangeResult, Planned
    from vgpumgr.core.gpu.instance_plan import InstancePlan
    from vgpumgr.core.model.claims import Claim
    from vgpumgr.core.model.vgpu import VgpuSpec
    from vgpumgr.core.placing.placement import Placed
    from vgpumgr.core.reconcile.adopt import AdoptPlan


_WOULD_CHANGE = "dry run: nothing was changed (--check)."


def lines(planned: Planned[Plan], *, diff: bool) -> Iterator[str]:
    """The head and one line per step; with `diff` also the XML that is added or removed."""
    plan = planned.plan
    what = "detach" if planned.requested is None else f"requested {planned.requested}"
    yield f"{plan.vm.name} on {planned.host} ({plan.vm.condition}), {what}"
    for text in step_lines(plan, diff=diff):
        yield f"  {text}"


def adopt_lines(planned: Planned[AdoptPlan], *, diff: bool) -> Iterator[str]:
    """The lines of a plan about several VMs: each VM's name and its steps; with `diff` also the XML."""
    plan, last = planned.plan, None
    for step in plan.steps:
        name = _whose(step)
        if name != last:
            yield f"{name} on {planned.host}, adopt"
            last = name
        text = _line(step, plan)
        if text is not None:
            yield f"  {text}"
        if diff:
            yield from _diff(step)


def adopt_closing(result: ChangeResult[AdoptPlan], elapsed_s: float) -> str:
    """The last line of adopt."""
    plan = result.planned.plan
    match result.outcome:
        case Outcome.WOULD_CHANGE:
            return _WOULD_CHANGE
        case Outcome.DONE:
            return f"done in {elapsed_s:.1f} s."
        case Outcome.UNCHANGED if not plan.adopted:
            return f"{plan.host}: nothing to adopt."
        case Outcome.UNCHANGED:
            ours = ", ".join(f"{spec.vm_name} {spec.slot}" for spec in plan.adopted)
            return f"{plan.host}: already in its ledger: {ours}. Nothing to do."


def _whose(step: steps.Step) -> str:
    match step:
        case steps.EnterVgpu():
            return step.vgpu.vm_name
        case steps.PutClaim() | steps.AttachHostdev() | steps.DetachHostdev():
            return step.vm_name
        case _:
            return ""  # adopting has no other steps


def step_lines(plan: Plan | AdoptPlan, *, diff: bool) -> Iterator[str]:
    """One line per step; with `diff` also the XML that is added or removed."""
    if isinstance(plan, Plan) and plan.parts:
        for part in plan.parts:
            yield from step_lines(part, diff=diff)
        return
    for step in plan.steps:
        text = _line(step, plan)
        if text is not None:
            yield text
        if diff:
            yield from _diff(step)


def closing(result: ChangeResult[Plan], elapsed_s: float, undo: str | None) -> str:
    """The last line: the state now, and the next command."""
    plan = result.planned.plan
    match result.outcome:
        case Outcome.UNCHANGED:
            return f"{_as_it_was(result)} Nothing to do."
        case Outcome.WOULD_CHANGE:
            return " ".join((_WOULD_CHANGE, *_bound_gpus(plan)))
        case Outcome.DONE:
            return f"done in {elapsed_s:.1f} s." + (f" Undo: {undo}" if undo else "")


def _as_it_was(result: ChangeResult[Plan]) -> str:
    """What the VM has, or waits for, already."""
    plan = result.planned.plan
    if plan.target is not None:
        return f"{plan.vm.name} already has it: {plan.target.type_name} on {plan.target.parent}."
    if plan.parts and all(part.target is not None for part in plan.parts):
        targets = [(part.slot, part.target) for part in plan.parts if part.target is not None]
        have = "; ".join(f"{slot} {target.type_name} on {target.parent}" for slot, target in targets)
        return f"{plan.vm.name} already has them: {have}."
    if isinstance(plan.vm, Domain) and plan.vm.waits:
        since = ", ".join(f"{wait.slot} since {wait.at}" for wait in plan.vm.waits)
        return f"{plan.vm.name} already waits for room: {since}."
    have = ", ".join(row.slot for row in result.rows if row.slot)
    slot = f" in slot {plan.slot}" + (f" (it has {have})" if have else "") if plan.slot else ""
    return f"{plan.vm.name} has no vGPU of ours{slot}."


def _bound_gpus(plan: Plan) -> Iterator[str]:
    """A sentence for each GPU that is empty now, and will take only types of one size after this plan."""
    for part in plan.parts or (plan,):
        placed = part.placed
        if placed is not None and placed.is_first_of_its_size:
            size = "that size" if placed.type.size_mib is None else f"{_gib(placed.type.size_mib)} GiB"
            yield f"GPU {placed.gpu.pci} would take only types of {size} from then on, until it is empty."


def _line(step: steps.Step, plan: Plan | AdoptPlan) -> str | None:
    match step:
        case steps.PutClaim():
            return _claim_line(step, plan)
        case steps.CreateVgpu():
            if step.expect == steps.SAME:
                return f"= vGPU     {_where(step.vgpu)}      created by an attach that did not finish"
            return f"+ vGPU     {_where(step.vgpu)}{place_of(step.vgpu)}{_placed(step, plan)}"
        case steps.EnterVgpu():
            return f"= vGPU     {step.vgpu.type_name} {_where(step.vgpu)}      exists; entered into the host's ledger"
        case steps.DeferVgpu():
            return f"+ vGPU     {_where(step.vgpu)}, made whenever {step.vgpu.vm_name} starts, if there is room then"
        case steps.EvacuateVgpu():
            return (
                f"- vGPU     {step.vgpu.type_name} {_where(step.vgpu)}      left behind when {step.vgpu.vm_name} ended"
            )
        case steps.AttachHostdev() | steps.DetachHostdev() | steps.PlugHostdev() | steps.UnplugHostdev():
            return _device_line(step)
        case steps.DestroyVgpu():
            remark = "" if step.expect == steps.PRESENT else "      already gone; only its ledger entry is removed"
            return f"- vGPU     {step.vgpu.type_name} {_where(step.vgpu)}{remark}"
        case steps.CreateInstance():
            if step.expect == steps.SAME:
                return f"= instance {slices(step)}      created by an attach that did not finish"
            return f"+ instance {slices(step)}"
        case steps.DestroyInstance():
            return _freed_line(step, "cached, and its slices are needed")
        case _:
            return _note_line(step)


def _note_line(step: steps.Step) -> str | None:
    match step:
        case steps.DropClaim():
            return f"- claim    {step.before.slot}"
        case steps.SetWait():
            return f"- waiting  {step.slot}" if step.wait is None else f"+ waiting  {step.slot}: {step.wait.asked}"
        case steps.StartVm():
            return f"+ start    {step.vm_name}, which could not start with its host"
        case steps.SetScheduler():
            before = step.expect.get("graphics") or "?"
            return (
                f"~ policy   of GPU {step.gpu}: {before} -> {scheduler.describe(step.setting)}, for all that it takes"
            )
        case steps.WriteModprobe():
            return f"{'+' if step.expect is None else '~'} boot     {step.path}      the same at the next load of the module"
        case steps.SetReservation():
            return None if step.terms is not None else f"- reserved {step.vgpu.vm_name}"
        case _:
            return None  # plans about a VM have no others


def _claim_line(step: steps.PutClaim, plan: Plan | AdoptPlan) -> str | None:
    before, claim = step.before, step.claim
    if before is None:
        return f"+ claim    {claim.slot}: {_share(claim, plan.placed)}"
    if step.verb == "put_claim":
        return f"~ claim    {claim.slot}: {_share(claim, plan.placed)}"
    if said_by(before) != said_by(claim):
        return f"~ claim    {claim.slot}: {said_by(claim)}, was {said_by(before)}"
    if before.state == claim.state:
        only_place = replace(before, by=claim.by, at=claim.at) == claim
        return f"~ claim    {claim.slot}: {place_text(claim.binding.placement_id) if only_place else _share(claim, plan.placed)}"
    return f"~ claim    {claim.slot}: bound" if plan.steps == (step,) else None


def _freed_line(step: steps.DestroyInstance, why: str) -> str:
    text = why if step.expect == steps.PRESENT else "already gone; only its ledger entry is removed"
    return f"- instance {slices(step)}      {text}"


def instance_lines(plan: InstancePlan) -> Iterator[str]:
    """One line per GPU instance that is created or destroyed."""
    for step in plan.steps:
        if isinstance(step, steps.CreateInstance):
            yield f"+ instance {slices(step)}"
        if isinstance(step, steps.DestroyInstance):
            yield _freed_line(step, "cached")


def slices(step: steps.InstanceStep) -> str:
    """A GPU instance: `2g.10gb on GPU 0000:41:00.0, memory slices 0-1`."""
    instance = step.instance
    last = instance.start + instance.size - 1
    where = f"slice {last}" if instance.size == 1 else f"slices {instance.start}-{last}"
    return f"{instance.profile} on GPU {instance.gpu}, memory {where}"


def _device_line(step: steps.AttachHostdev | steps.DetachHostdev | steps.PlugHostdev | steps.UnplugHostdev) -> str:
    match step:
        case steps.AttachHostdev(port=None):
            return f"+ hostdev  {step.device.source.text}, at the VM's next start"
        case steps.AttachHostdev():
            return f"+ hostdev  {step.device.source.text}, on the guest's PCI bus {step.port:02x}"
        case steps.PlugHostdev():
            return f"+ live     {step.device.source.text}, into {step.vm_name} while it runs, on the same bus"
        case steps.UnplugHostdev():
            return (
                f"- live     {step.device.source.text}, out of {step.vm_name} while it runs: its guest must release it"
            )
        case steps.DetachHostdev():
            alias = "" if step.device.slot == step.slot else f"      alias {step.device.alias or 'missing'}"
            return f"- hostdev  {step.device.source.text}{alias}"


def _share(claim: Claim, placed: Placed | None) -> str:
    came_to = "" if claim.grant is None else f", {granted(claim.grant)}"
    return f"{_size(claim.binding.type_name, placed)}{came_to}"


def _size(type_name: str, placed: Placed | None) -> str:
    if placed is None or placed.type.size_mib is None:
        return type_name
    sizes = [vgpu_type.size_mib for vgpu_type in (placed.gpu.types or {}).values() if vgpu_type.size_mib is not None]
    return f"{type_name}, {_gib(placed.type.size_mib)} of {_gib(max(sizes))} GiB"


def _gib(mib: int) -> str:
    return f"{mib / 1024:g}"


def _where(vgpu: VgpuSpec) -> str:
    return f"on {vgpu.parent}" + (f", GPU {vgpu.gpu}" if vgpu.parent != vgpu.gpu else "")


def _placed(step: steps.CreateVgpu, plan: Plan | AdoptPlan) -> str:
    placed = plan.placed
    if placed is None:
        is_moved = any(
            isinstance(other, steps.PutClaim)
            and other.before is not None
            and other.claim.slot == step.vgpu.slot
            and other.before.binding.placement_id not in (None, step.vgpu.placement_id)
            for other in plan.steps
        )
        return f"      {'where it was, but at another placement id' if is_moved else 'at its previous placement'}"
    count = f", {placed.ordinal} of {placed.maximum}" if placed.maximum else ""
    return f"{count}      {placed.why}"


def _diff(step: steps.Step) -> Iterator[str]:
    if not isinstance(step, steps.AttachHostdev | steps.DetachHostdev):
        return
    from vgpumgr import templates

    mark, port = ("+", step.port) if isinstance(step, steps.AttachHostdev) else ("-", None)
    for line in templates.render_hostdev(step.device, port=port).splitlines():
        yield f"    {mark} {line}"
