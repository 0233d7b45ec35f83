"""(desired, observed) → the steps that give one slot of one VM what was requested, or a refusal.

Claim, ledger entry, hardware and hostdev are compared separately. So one function plans the first attach, a repeated
one (no steps), and one after a run that was killed at any instant (the missing steps).
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from vgpumgr import errors
from vgpumgr.core import simulate
from vgpumgr.core import step as plan_steps
from vgpumgr.core.commands import command
from vgpumgr.core.driver import plugin_params, profiles
from vgpumgr.core.evidence import (
    blocked_write,
    ending,
    fabric,
    lost,
    ownership,
    preflight,
    restart,
    saved_states,
    sharing,
)
from vgpumgr.core.model import claims, domain_xml
from vgpumgr.core.model.view import Finding
from vgpumgr.core.placing import health, instances, placement, resolve
from vgpumgr.core.slot import detach, in_place, lazily, live, quotas, reserving, targets, waits
from vgpumgr.core.slot import plan as plans
from vgpumgr.core.slot.request import AttachRequest, request_of
from vgpumgr.wording import Option, say

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from vgpumgr.core.driver.asking import Grant
    from vgpumgr.core.model.claims import Claim
    from vgpumgr.core.model.domain_xml import Domain, Hostdev
    from vgpumgr.core.model.vgpu import LedgerEntry, VgpuSpec
    from vgpumgr.core.model.view import HostView
    from vgpumgr.core.slot.plan import Plan
    from vgpumgr.names import Slot

EVEN_IF = Option("--even-if-it-will-not-start")
LIVE = Option("--live")


def plan_attach(view: HostView, request: AttachRequest) -> Plan:
    """Plan the steps that give the slot its wish. Raises RequestError or RefusedPlan; changes nothing.

    The slot's present vGPU is removed last, or first if there is no room for the new one otherwise.
    """
    try:
        plan = _plan_attach(view, request)
    except errors.NoCapacity:
        leaves_first = request.replace and not request.live and request.place is None
        freed_first = _plan_in_place(view, request) if leaves_first else None
        if freed_first is None:
            raise
        plan = freed_first
    quotas.guard(view, plan)
    return plan


def _plan_in_place(view: HostView, request: AttachRequest) -> Plan | None:
    """Plan to remove the slot's present vGPU first, which makes room for the new one.

    Returns None if the slot has no vGPU, if a blocked write stops its removal, or if there is no room even without it.
    Raises if anything holds it.
    """
    first = in_place.leaving_steps(view, plans.find_domain(view, request.vm), request.slot)
    if not first or any(view.snapshot.blocked_write_on(step.written_gpu) for step in first):
        return None
    try:
        plan = _plan_attach(simulate.apply(view, first), request)
    except errors.NoCapacity:
        return None
    findings = (*plan.findings, *ending.findings(view, first))
    return replace(plan, vm=plans.find_domain(view, request.vm), steps=(*first, *plan.steps), findings=findings)


def _plan_attach(view: HostView, request: AttachRequest) -> Plan:
    domain = plans.find_domain(view, request.vm)
    _guard_attach(view, domain)
    if request.live:
        live.guard_running(domain)
    taken = targets.reserved_for(view, domain, request)
    if taken is not None:
        view = reserving.without(view, taken)
    target, placed, expect = targets.find_target(view, domain, request, at=taken)
    if placed is not None and not request.live:
        _guard_start(view, domain, request, placed)
    steps = _attach_steps(view, domain, request, target, expect)
    enter_steps, doubts = detach.entering(view, domain, request.slot, keep=target.generation)
    old = [entry for entry in view.entries(domain.uuid, request.slot) if entry.vgpu.generation != target.generation]
    old = [entry for entry in old if not target.supersedes(entry.vgpu)]
    old += [ownership.entry_of(view, step.vgpu) for step in enter_steps]
    steps = [*enter_steps, *steps, *detach.destroy_steps(view, domain, old), *waits.ended(domain, request.slot)]
    if taken is not None:  # last: until then nobody else gets the place
        steps = [
            *reserving.marked(view.snapshot, taken, domain, request.slot),
            *steps,
            reserving.ended(view.snapshot, taken),
        ]
    doubts += _saved_findings(view, domain, request.slot, old)
    blocked_write.guard(view.snapshot, steps)
    return plans.Plan(
        vm=domain,
        slot=request.slot,
        steps=tuple(steps),
        findings=(
            *ownership.missing_ledger(view),
            *_silent_findings(view, target, steps),
            *health.of_target(view.snapshot, target),
            *(lost.findings(view.snapshot) if steps else ()),
            *attach_findings(view, domain, request.slot, target),
            *(fabric.awaited(view, domain, target) if steps else ()),
            *(() if request.live else restart.planned(view, domain, target)),
            *doubts,
            *_foreign_findings(view, domain),
            *sharing.findings_of(view, domain.uuid),
            *ending.findings(view, steps),
        ),
        placed=placed,
        target=target,
    )


def _saved_findings(view: HostView, domain: Domain, slot: Slot, old: Sequence[LedgerEntry]) -> list[Finding]:
    """The findings about snapshots that name a vGPU which this plan frees, and which could not be re-created anyway.

    Raises NamedInSnapshot if a snapshot names one that could be: freeing it would spoil that snapshot.
    """
    free = command("detach", domain.name, slot=slot, options=["--keep-snapshots"])
    found: list[Finding] = []
    for entry in old:
        keep = ownership.cannot_come_back(view.snapshot, entry.vgpu)
        found += saved_states.guard_entries(view, domain, slot, [entry], keep=keep, way_on=say("first `{}`", free))
    return found


def to_mend(view: HostView, domain: Domain, claim: Claim) -> tuple[plan_steps.Step, ...]:
    """The steps with which a repeated attach would complete the claim's slot: its vGPU, the definition, the claim.

    There are none if nothing is missing, or if this version does not serve the wish. Raises what that attach would
    raise. Older generations are not removed. With a managed-save image, the claim's record of a changed place is not
    updated either.
    """
    if not profiles.is_served(claim.wish):
        return ()
    return _mending(view, domain, request_of(domain, claim))[2]


def plan_mending(view: HostView, request: AttachRequest) -> Plan:
    """Plan the repair of a slot that already has its wish: its vGPU, its definition, its claim.

    No vGPU is destroyed. Ledger entries are dropped if their vGPUs cannot come back after a change of driver or kernel.

    A managed-save image forbids changing the definition, but not re-creating the vGPU: the image needs it.
    Raises as plan_attach does.
    """
    domain = plans.find_domain(view, request.vm)
    detach.guard_ledger(view)
    target, placed, steps = _mending(view, domain, request)
    if any(not isinstance(step, plan_steps.CreateVgpu | plan_steps.EnterVgpu) for step in steps):
        _guard_attach(view, domain)
    past = [
        entry
        for entry in view.entries(domain.uuid, request.slot)
        if entry.vgpu.generation != target.generation and not target.supersedes(entry.vgpu)
        if ownership.cannot_come_back(view.snapshot, entry.vgpu)
    ]
    return plans.Plan(
        vm=domain,
        slot=request.slot,
        steps=(*steps, *detach.destroy_steps(view, domain, past)),
        findings=(
            *attach_findings(view, domain, request.slot, target),
            *(fabric.awaited(view, domain, target) if steps else ()),
            *restart.planned(view, domain, target),
        ),
        placed=placed,
        target=target,
    )


def _mending(
    view: HostView, domain: Domain, request: AttachRequest
) -> tuple[VgpuSpec, placement.Placed | None, tuple[plan_steps.Step, ...]]:
    target, placed, expect = targets.find_target(view, domain, request)
    steps = tuple(_attach_steps(view, domain, request, target, expect))
    blocked_write.guard(view.snapshot, steps)
    return target, placed, steps


def _foreign_findings(view: HostView, domain: Domain) -> Iterator[Finding]:
    """Findings about foreign vGPUs in the VM's definition: the user may have meant one of them."""
    own_devices = [claim.binding.device for claim in domain.claims.claims] if domain.claims else []
    devices = dict.fromkeys(device.source for device in domain.inactive if device.source not in own_devices)
    rows = [place for device in devices if (place := view.snapshot.find(device)) is not None]
    for gpu, vgpu in sorted(rows, key=lambda row: (row[0].pci, row[1].vf_index or 0, row[1].uuid or "")):
        if view.snapshot.entry_of(gpu, vgpu):
            continue
        take = command("adopt", view.snapshot.host, options=(str(vgpu.device),))
        text = say(
            "the definition of {} names another vGPU, {} on {}, that is not vgpumgr's: `{}` takes it over",
            domain.name,
            vgpu.type_name or "?",
            vgpu.parent,
            take,
        )
        yield Finding(kind="foreign", host=view.snapshot.host, vm=domain.name, text=text)


def _silent_findings(view: HostView, target: VgpuSpec, steps: Sequence[plan_steps.Step]) -> tuple[Finding, ...]:
    """A vGPU that is created while NVML is silent cannot be removed until NVML answers: warn before creating it."""
    why = view.snapshot.why_silent(target.gpu)
    if why is None or not any(isinstance(step, plan_steps.CreateVgpu) for step in steps):
        return ()
    text = say(
        "NVML cannot say what runs on GPU {} of {} ({}). The vGPU can be created, but not "
        "removed until NVML answers again.",
        target.gpu,
        view.snapshot.host,
        why,
    )
    return (Finding(kind="nvml-silent", host=view.snapshot.host, text=text),)


def attach_findings(view: HostView, domain: Domain, slot: Slot, target: VgpuSpec) -> tuple[Finding, ...]:
    """Findings about an attached slot, reported by the attach and each time the slot is shown."""
    findings: list[Finding] = []
    gpu = view.snapshot.gpu_by_uuid(target.gpu_uuid)
    host = view.snapshot.host
    if gpu is not None:
        for obstacle in preflight.obstacles(view, domain, gpu, gpu.parent_at(target.vf_index)):
            text = say("{} will not start {}", domain.name, obstacle.why)
            findings.append(Finding(kind="will-not-start", host=host, vm=domain.name, slot=slot, text=text))
    if not findings:
        doubts = preflight.doubts(domain, slot, target.type_name)
        findings = [Finding(kind="may-not-start", host=host, vm=domain.name, slot=slot, text=text) for text in doubts]
    return tuple(findings)


def _guard_start(view: HostView, domain: Domain, request: AttachRequest, placed: placement.Placed) -> None:
    """Refuse to create a vGPU that the VM could not start with, unless the user asked for that explicitly."""
    if request.even_if_it_will_not_start or view.even_if_it_will_not_start:
        return
    obstacles = tuple(preflight.obstacles(view, domain, placed.gpu, placed.parent))
    if obstacles:
        first, *others = obstacles
        raise errors.WillNotStart(
            say("{} would not start {}; nothing was created", domain.name, first.why),
            details=[say("it would not start {}: {}", other.why, other.fix) for other in others],
            hint=say(
                "{}; {} attaches anyway (in an inventory: vgpumgr_even_if_it_will_not_start: true)", first.fix, EVEN_IF
            ),
        )


def _guard_attach(view: HostView, domain: Domain) -> None:
    detach.guard_ledger(view)
    detach.guard_readable(domain)
    if not domain.persistent:
        raise errors.RefusedPlan(
            say("{} is transient: it has no definition that a vGPU could be put into", domain.name),
            hint="define it first (`virsh define`)",
        )
    saved_states.guard_image(view, domain)


def entering_steps(view: HostView, domain: Domain, request: AttachRequest, target: VgpuSpec) -> list[plan_steps.Step]:
    """The steps that make an existing vGPU the slot's: claim, ledger entry, the hostdev's alias. Raises RefusedPlan."""
    _guard_attach(view, domain)
    return _attach_steps(view, domain, request, target, plan_steps.ENTER)


def _wrong(domain: Domain, slot: Slot, wanted: Hostdev) -> list[Hostdev]:
    """The devices that must leave the definition before it gets the wanted one.

    They are the slot's other devices, and the wanted one with another alias. Without a claim, only the alias says whose
    a device is. libvirt finds a device to remove by its source alone, whatever the alias (9.0, tried), so the one with
    the wrong alias is removed and added again.
    """
    return [one for one in domain.inactive if one != wanted and (one.slot == slot or one.source == wanted.source)]


def _attach_steps(
    view: HostView, domain: Domain, request: AttachRequest, target: VgpuSpec, expect: plan_steps.Missing | None
) -> list[plan_steps.Step]:
    claim = domain.claim(request.slot)
    bound = _bound(view, domain, request, target)
    wanted = domain_xml.expected_hostdev(request.slot, bound.binding)
    steps: list[plan_steps.Step] = []
    if claim is not None and _is_claimed(claim, bound):
        current = claim
    else:
        current = replace(bound, state=claims.PENDING)
        steps.append(plan_steps.PutClaim(vm=domain.uuid, vm_name=domain.name, claim=current, before=claim))
    steps += _vgpu_steps(view, domain, request, target, expect, param=bound.conditions.param)
    steps += lazily.left_behind(view, domain, target)
    steps += [
        plan_steps.DetachHostdev(vm=domain.uuid, vm_name=domain.name, slot=request.slot, device=device)
        for device in _wrong(domain, request.slot, wanted)
    ]
    plugged = live.plug(view, domain, target, wanted) if request.live else None
    if wanted not in domain.inactive:
        _guard_alias(domain, wanted)
        _guard_shared(view, domain, wanted)
        port = live.definition_port(domain, wanted, plugged)
        steps.append(
            plan_steps.AttachHostdev(vm=domain.uuid, vm_name=domain.name, slot=request.slot, device=wanted, port=port)
        )
    elsewhere = current.binding.lies_at != bound.binding.lies_at and not domain.managed_save
    same = current.binding == bound.binding and claims.said_by(current) == claims.said_by(bound)
    if current.state != claims.BOUND or elsewhere or not same:
        steps.append(plan_steps.PutClaim(vm=domain.uuid, vm_name=domain.name, claim=bound, before=current))
    if plugged is not None:  # last: if the run ends before it, the VM has the vGPU at its next start
        steps.append(plugged)
    return steps


def _vgpu_steps(
    view: HostView,
    domain: Domain,
    request: AttachRequest,
    target: VgpuSpec,
    expect: plan_steps.Missing | None,
    *,
    param: str | None,
) -> tuple[plan_steps.Step, ...]:
    """The steps that create the vGPU, or enter an existing one in the ledger; none if it is there and entered.

    The creation of a lazy one is left to the VM's start. Raises RefusedPlan if a lazy vGPU is requested with --live.
    """
    host, entry = view.snapshot.host, view.snapshot.entries.named(target.key)
    lazy = view.lazy and expect == plan_steps.EMPTY if entry is None else entry.lazy
    if lazy and request.live and view.snapshot.vgpu_of(target) is None:
        raise errors.RefusedPlan(
            say(
                "the vGPU of {} is lazy: it is made when {} starts, and {} wants it now", target.slot, domain.name, LIVE
            ),
            hint=say("attach without {}, then shut the VM down and start it", LIVE),
        )
    if expect is None:
        return ()
    if expect == plan_steps.ENTER:
        return (plan_steps.EnterVgpu(host=host, vgpu=target),)
    before = _before(view, domain, request.slot, target)
    if lazy and expect == plan_steps.EMPTY:
        return (plan_steps.DeferVgpu(host=host, vgpu=target, param=param, replaces=before),)
    first = _instance_steps(view, target) if expect == plan_steps.EMPTY else ()
    create = plan_steps.CreateVgpu(
        host=host, vgpu=target, expect=expect, param=param, replaces=before, runs=domain.active
    )
    return *first, create


def _before(view: HostView, domain: Domain, slot: Slot, target: VgpuSpec) -> int | None:
    """The generation whose plugin parameters the vGPU keeps. None: there is none.

    It is the vGPU's own if it is re-created, otherwise the newest before it. A pending claim counts as the generation
    before its own, since the claim's own vGPU does not exist yet.
    """
    claim = domain.claim(slot)
    generations = [entry.vgpu.generation for entry in view.entries(domain.uuid, slot)]
    generations += [] if claim is None else [claim.generation - (claim.state == claims.PENDING)]
    return max((each for each in generations if 0 < each <= target.generation), default=None)


def _instance_steps(view: HostView, target: VgpuSpec) -> tuple[plan_steps.InstanceStep, ...]:
    """The steps that make the GPU instance for a MIG-backed vGPU; none if the instance is there."""
    gpu = view.snapshot.gpu_by_uuid(target.gpu_uuid)
    vgpu_type = gpu.type_of(target.type_id) if gpu is not None else None
    if gpu is None or vgpu_type is None or not target.mig:
        return ()
    entry, facts = view.snapshot.entries.named(target.key), view.snapshot
    past = [one.vgpu.key for one in view.entries(target.vm, target.slot) if ownership.cannot_come_back(facts, one.vgpu)]
    home = instances.find_home(facts.without_entries(past), gpu, vgpu_type, before=target.mig, but=entry)
    return home.steps if isinstance(home, instances.Home) else ()


def _bound(view: HostView, domain: Domain, request: AttachRequest, target: VgpuSpec) -> claims.Claim:
    """The slot's claim once it has the vGPU; former plugin parameters are kept. Raises Unsure without a machine-id."""
    machine = view.snapshot.machine
    if machine is None:
        raise errors.Unsure(
            say("{} has no machine-id, by which a claim names its host", view.snapshot.host),
            hint="run `systemd-machine-id-setup` on that host",
        )
    before = domain.claim(request.slot)
    param = plugin_params.over(before.conditions.param if before else None, request.conditions.param)
    return claims.Claim(
        slot=request.slot,
        generation=target.generation,
        origin=request.origin,
        state=claims.BOUND,
        by=request.by,
        at=request.at,
        wish=request.wish,
        binding=_binding(view, machine, before, target),
        site=request.site,
        declared=request.declared,
        conditions=replace(request.conditions, param=param),
        grant=_grant(view, request, target),
    )


def _binding(view: HostView, machine: str, before: claims.Claim | None, target: VgpuSpec) -> claims.Binding:
    """The claim's binding to the vGPU.

    A lazy mdev may get another place at each start, so its claim keeps the place that it was first given.
    """
    entry, fresh = view.snapshot.entries.named(target.key), claims.binding_of(machine, target)
    if entry is None or not entry.lazy or target.uuid is None or before is None:
        return fresh
    had = before.binding
    same = (had.host, had.device, had.type_name) == (fresh.host, fresh.device, fresh.type_name)
    return had if same else fresh


def _grant(view: HostView, request: AttachRequest, target: VgpuSpec) -> Grant | None:
    """The grant for the wish. If the slot's claim has the same wish and type, its grant is kept."""
    domain = plans.find_domain(view, request.vm)
    claim = domain.claim(request.slot)
    if (
        claim is not None
        and profiles.same_wish(claim.wish, request.wish)
        and claim.binding.type_name == target.type_name
        and claim.grant is not None
    ):
        return claim.grant
    gpu = view.snapshot.gpu_by_uuid(target.gpu_uuid)
    vgpu_type = gpu.type_of(target.type_id) if gpu is not None else None
    if gpu is None or vgpu_type is None:
        return None
    return resolve.grant_of(gpu, vgpu_type, targets.ask_of(view, request, claim))


def _guard_alias(domain: Domain, wanted: Hostdev) -> None:
    """Raises ConflictingClaim if another device has the alias: libvirt answers a duplicate with an internal error."""
    if wanted.alias in domain.other_aliases:
        raise errors.ConflictingClaim(
            say("{} already has a device with the alias {}, which is not a host device", domain.name, wanted.alias),
            hint=say("use another {}, or give that device another alias", Option("--slot")),
        )


def _guard_shared(view: HostView, domain: Domain, wanted: Hostdev) -> None:
    """Raises ConflictingClaim if another VM's definition or running state names the device: no two may have it."""
    if any(device.source == wanted.source for device in domain.inactive):
        return  # it is already there, and only its alias changes
    others = [namer for namer in sharing.namers(view, wanted.source, but=domain.uuid) if namer.can_start]
    if others:
        raise errors.ConflictingClaim(
            say("{}, the vGPU of {}, is in {}", wanted.source, domain.name, sharing.in_words(others)),
            hint=say("{}; then attach again", sharing.ways_out(view.snapshot.host, others)),
        )


def _is_claimed(claim: Claim, bound: Claim) -> bool:
    """Whether the slot's claim already names this vGPU.

    A bound claim does so even if its card has another address now. It must stay bound while the vGPU is re-created at
    the new address: if the run is killed, the next reconcile then completes the vGPU. For the pending claim of an
    attach, reconcile would create none.
    """
    had, has = claim.binding, bound.binding
    if (
        claim.generation != bound.generation
        or claim.conditions != bound.conditions
        or not profiles.same_wish(claim.wish, bound.wish)
    ):
        return False
    if had == has:
        return claim.state in (claims.PENDING, claims.BOUND)
    card_moved = (had.host, had.gpu_uuid, had.vf_index, had.type_name) == (
        has.host,
        has.gpu_uuid,
        has.vf_index,
        has.type_name,
    )
    return claim.state == claims.BOUND and card_moved
