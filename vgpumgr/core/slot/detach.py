"""Plans to free slots: mark the claim, remove the hostdev, destroy the vGPU, drop the claim. What is in use stays."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from vgpumgr import errors
from vgpumgr.core import step as plan_steps
from vgpumgr.core.commands import command, virsh
from vgpumgr.core.driver import profiles
from vgpumgr.core.evidence import blocked_write, ending, ownership, saved_states, sharing
from vgpumgr.core.model import claims
from vgpumgr.core.model import view as views
from vgpumgr.core.model.vgpu import PLANNED, Device, Mdev, VgpuSpec
from vgpumgr.core.model.view import Finding, GoneVm
from vgpumgr.core.slot import live, waits
from vgpumgr.core.slot import plan as plans
from vgpumgr.wording import Command, joined, say

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from vgpumgr.core.model.domain_xml import Domain, Hostdev
    from vgpumgr.core.model.functions import Vgpu
    from vgpumgr.core.model.snapshot import HostSnapshot
    from vgpumgr.core.model.vgpu import LedgerEntry
    from vgpumgr.core.model.view import HostView
    from vgpumgr.core.slot.plan import Plan
    from vgpumgr.names import Slot, VmName, VmUuid


@dataclass(frozen=True, slots=True, kw_only=True)
class DetachRequest:
    """`by` and `at` go into the leaving claim. `keep_snapshots` frees a device even if snapshots name it.

    `live`: take the device out of a running VM, too. `gone`: the VM's last known name, if the host no longer has the
    VM; then only its ledger entries are freed.
    """

    vm: VmUuid
    slots: tuple[Slot, ...]
    by: str
    at: str
    keep_snapshots: bool = False
    live: bool = False
    gone: VmName | None = None


def plan_detach(view: HostView, request: DetachRequest) -> Plan:
    """Plan the steps that free the slots; none if nothing there is ours. Raises RefusedPlan; changes nothing."""
    if request.gone is not None and view.domain(request.vm) is None:
        return _plan_gone(view, request, GoneVm(name=request.gone, uuid=request.vm))
    domain = plans.find_domain(view, request.vm)
    guard_ledger(view)
    guard_readable(domain)
    saved_states.guard_image(view, domain)
    guard_claim_readable(domain)
    steps: list[plan_steps.Step] = []
    findings: list[Finding] = []
    for slot in request.slots:
        steps += waits.ended(domain, slot)
        if domain.claim(slot) is None and not view.entries(domain.uuid, slot):
            continue  # nothing is ours; a hostdev that merely has such an alias belongs to its owner
        enter_steps, doubts = entering(view, domain, slot, keep=None)
        findings += [*_guard_snapshots(view, domain, slot, request), *doubts]
        steps += [*enter_steps, *_free_slot(view, domain, slot, request, enter_steps, before=steps)]
    blocked_write.guard(view.snapshot, steps)
    return plans.Plan(
        vm=domain,
        slot=request.slots[0] if len(request.slots) == 1 else None,
        steps=tuple(steps),
        findings=(*ownership.missing_ledger(view), *findings, *ending.findings(view, steps)),
    )


def entering(
    view: HostView, domain: Domain, slot: Slot, *, keep: int | None
) -> tuple[list[plan_steps.EnterVgpu], list[Finding]]:
    """The step that enters a proved vGPU of the slot's claim into the ledger, if it is not there, before it is freed.

    A vGPU that is not proved stays, with a finding. `keep`: the generation that the slot keeps. Raises Unsure.
    """
    claim = domain.claim(slot)
    if claim is None or claim.generation == keep:
        return [], []
    evidence = ownership.standing(view, domain, claim)
    if evidence == ownership.HIDDEN:  # keep the claim: only it says whose vGPU that is
        raise _hidden(view, claim.binding, domain.name, claim.slot)
    if not isinstance(evidence, ownership.Unentered):
        return [], []
    if ownership.is_proved(evidence):
        return [plan_steps.EnterVgpu(host=view.snapshot.host, vgpu=evidence.spec)], []
    device = f" ({evidence.spec.device.text})" if isinstance(evidence.spec.device, Mdev) else ""
    text = say(
        "{} on {}{} stays: the ledger does not name it, and it is not proved to be the vGPU of {} slot {}: {}",
        evidence.spec.type_name,
        evidence.spec.parent,
        device,
        domain.name,
        slot,
        joined("; ", evidence.doubts),
    )
    return [], [Finding(kind="left-behind", host=view.snapshot.host, vm=domain.name, slot=slot, text=text)]


def _hidden(view: HostView, place: VgpuSpec | claims.Binding, vm: VmName, slot: Slot) -> errors.Unsure:
    unnamed = [gpu.pci for gpu in view.snapshot.gpus if gpu.uuid is None]
    return errors.Unsure(
        say(
            "{} of {} slot {} is on {}, and the UUID of GPU {} cannot be read: it may be that one",
            place.type_name,
            vm,
            slot,
            place.gpu_uuid,
            ", ".join(unnamed),
        ),
        hint=say("{} says why", Command("vgpumgr", "discover", view.snapshot.host)),
    )


def _plan_gone(view: HostView, request: DetachRequest, vm: GoneVm) -> Plan:
    """Plan for a VM of which only ledger entries and their hardware are left. Raises InUse if a VM uses it."""
    guard_ledger(view)
    steps: list[plan_steps.Step] = []
    findings: list[Finding] = []
    for slot in request.slots:
        entries = view.entries(vm.uuid, slot)
        keep, way_on = request.keep_snapshots, _keeping(vm.uuid, slot)
        findings += saved_states.guard_entries(view, vm, slot, entries, keep=keep, way_on=way_on)
        steps += destroy_steps(view, vm, entries)
    blocked_write.guard(view.snapshot, steps)
    return plans.Plan(
        vm=vm,
        slot=request.slots[0] if len(request.slots) == 1 else None,
        steps=tuple(steps),
        findings=(*findings, *ending.findings(view, steps)),
    )


def _keeping(vm: str, slot: Slot) -> str:
    """The command that frees a slot whose vGPU snapshots name: a detach, since reconcile has no --keep-snapshots."""
    return say("`{}` to free it anyway", command("detach", vm, slot=slot, options=("--keep-snapshots",)))


def _detach_steps(
    view: HostView, domain: Domain, slot: Slot, before: Sequence[plan_steps.Step]
) -> list[plan_steps.DetachHostdev]:
    """A step for each device of the slot in the definition, except those that `before` removes."""
    removed = {step.device for step in before if isinstance(step, plan_steps.DetachHostdev)}
    devices = [one for one in domain.inactive if one not in removed and _goes_with(view, domain, slot, one)]
    return [plan_steps.DetachHostdev(vm=domain.uuid, vm_name=domain.name, slot=slot, device=one) for one in devices]


def _free_slot(
    view: HostView,
    domain: Domain,
    slot: Slot,
    request: DetachRequest,
    enter_steps: Sequence[plan_steps.EnterVgpu],
    *,
    before: Sequence[plan_steps.Step],
) -> list[plan_steps.Step]:
    """The steps that free one slot. `before`: the steps that free earlier slots; their devices count as removed."""
    claim = domain.claim(slot)
    entries = tuple(ownership.entry_of(view, step.vgpu) for step in enter_steps)
    devices = [device for device in domain.live or () if _goes_with(view, domain, slot, device)]
    unplug_steps = [live.unplug(domain, slot, one) for one in devices] if request.live and not domain.copied else []
    out_live = {step.device.source for step in unplug_steps}
    destroy = destroy_steps(view, domain, (*_freed(view, domain, slot), *entries), unplugged=out_live)
    if not unplug_steps:
        _guard_live(domain, slot)
    steps: list[plan_steps.Step] = []
    current = claim
    if claim is not None and claim.state != claims.LEAVING and not domain.copied:
        current = replace(claim, state=claims.LEAVING, by=request.by, at=request.at)
        steps.append(plan_steps.PutClaim(vm=domain.uuid, vm_name=domain.name, claim=current, before=claim))
    steps += unplug_steps
    steps += _detach_steps(view, domain, slot, before)
    steps += destroy
    if current is not None:
        steps.append(plan_steps.DropClaim(vm=domain.uuid, vm_name=domain.name, before=current))
    return steps


def _freed(view: HostView, domain: Domain, slot: Slot) -> tuple[LedgerEntry, ...]:
    """The entries to free. A VM with a copied claim has none: the claim is another VM's, so only the hostdev goes."""
    return () if domain.copied else view.entries(domain.uuid, slot)


def _devices(entries: Sequence[LedgerEntry]) -> set[Device]:
    return {entry.vgpu.device for entry in entries}


def _goes_with(view: HostView, domain: Domain, slot: Slot, device: Hostdev) -> bool:
    """Whether a device in the definition is the slot's: by its alias, or because the slot's entries or claim name it.

    A claim has the address from when it was written. If cards have moved since, only the alias counts.
    """
    if device.slot == slot or device.source in _devices(view.entries(domain.uuid, slot)):
        return True
    claim = domain.claim(slot)
    if claim is None or device.source != claim.binding.device:
        return False
    other = device.slot
    return other is None or (domain.claim(other) is None and not view.entries(domain.uuid, other))


def _guard_snapshots(view: HostView, domain: Domain, slot: Slot, request: DetachRequest) -> list[Finding]:
    entries = _freed(view, domain, slot)

    def names_it(vm: VmUuid, hostdev: Hostdev) -> bool:
        if vm == domain.uuid:
            return _goes_with(view, domain, slot, hostdev)
        return hostdev.source in _devices(entries)

    return saved_states.guard_snapshots(
        view,
        domain,
        slot,
        names_it,
        among={domain.uuid, *saved_states.concerned(view, _devices(entries))},
        keep=request.keep_snapshots,
        way_on=_keeping(domain.name, slot),
    )


def destroy_steps(
    view: HostView,
    vm: Domain | GoneVm,
    entries: Sequence[LedgerEntry],
    *,
    unplugged: Collection[Device] = (),
) -> list[plan_steps.Step]:
    """Steps that free ledger entries whose hostdev the same plan removes. Raises if something holds one of the vGPUs.

    `unplugged`: the devices that the plan takes out of the running VM before, so that the VM's use of them ends.
    """
    if entries:
        saved_states.guard_read(view)
    steps: list[plan_steps.Step] = []
    for entry in entries:
        vgpu = view.snapshot.vgpu_of(entry.vgpu)
        _guard_identified(view, entry)
        holders = views.Holders(lasting=())
        if (
            vgpu is not None
            or isinstance(entry.vgpu.device, Mdev)
            or view.snapshot.gpu_by_uuid(entry.vgpu.gpu_uuid) is not None
        ):
            holders = _guard_in_use(view, vm, entry, vgpu, unplugged=entry.vgpu.device in unplugged)
        # Otherwise its card is gone, and another card may have the address of its VF by now.
        steps.append(
            plan_steps.DestroyVgpu(
                host=view.snapshot.host,
                vgpu=plans.spec_of_entry(view, entry),
                expect=plan_steps.PRESENT if vgpu is not None else plan_steps.ABSENT,
                runs=views.runs_without(view, entry.vgpu.vm),
                listed=holders.listed,
            )
        )
    return steps


def _guard_identified(view: HostView, entry: LedgerEntry) -> None:
    """Raises if the entry's GPU may be one whose UUID cannot be read, or if its mdev is elsewhere."""
    if view.snapshot.may_be_hidden(entry.vgpu):
        raise _hidden(view, entry.vgpu, entry.vgpu.vm_name, entry.vgpu.slot)
    astray = ownership.strays_to(view.snapshot, entry.vgpu)
    if astray is not None:
        raise errors.Unsure(
            say(
                "drift: the ledger has mdev {} of {} on {}, but it is on {}",
                entry.vgpu.uuid,
                entry.vgpu.vm_name,
                entry.vgpu.parent,
                astray,
            ),
            hint="something else created it there with that UUID (mdevctl?): remove it once nothing uses it, then try again",
        )
    guard_boot(view, entry)


def guard_boot(view: HostView, entry: LedgerEntry) -> None:
    """Raises Unsure if the vGPU at an entry's place was created since the host's last boot, and not by us."""
    if not ownership.is_of_earlier_boot(view.snapshot, entry):
        return
    raise errors.Unsure(
        say(
            "unsure: {} of {} slot {} was created before {} booted, but "
            "the vGPU that is on {} now was created after that, and not by vgpumgr",
            entry.vgpu.type_name,
            entry.vgpu.vm_name,
            entry.vgpu.slot,
            view.snapshot.host,
            entry.vgpu.parent,
        ),
        hint=say(
            "`{}` adopts it as it is; or free it by hand",
            command("adopt", view.snapshot.host, options=(str(entry.vgpu.device),)),
        ),
    )


def _guard_in_use(
    view: HostView, vm: Domain | GoneVm, entry: LedgerEntry, vgpu: Vgpu | None, *, unplugged: bool
) -> views.Holders:
    if vgpu is not None and not vgpu.is_of(entry.vgpu):
        raise drift(entry.vgpu, vgpu, hint="that vGPU may be somebody else's: free it by hand, then detach again")
    if vgpu is not None and entry.state == PLANNED:
        evidence = views.holders(view, entry.vgpu.device, vgpu).lasting
        if evidence:
            raise errors.Unsure(
                f"unsure: the ledger entry of {entry.vgpu.type_name} on {entry.vgpu.parent} is only planned, but it is in use",
                details=evidence,
                hint=say("`{}` takes it over, then detach", _same_attach(vm, entry))
                if not isinstance(vm, GoneVm)
                else say("{} first; nothing in use is ever removed", _way_out(vm)),
            )
    holders = views.holders(view, entry.vgpu.device, vgpu, letting_go=vm.uuid, unplugs=unplugged)
    if holders.lasting and all(isinstance(line, views.Unread) for line in holders.lasting):
        raise errors.InUse(
            say(
                "cannot tell whether {} on {} ({} slot {}) is in use",
                entry.vgpu.type_name,
                entry.vgpu.parent,
                vm.name,
                entry.vgpu.slot,
            ),
            details=holders.lasting,
            hint=_hint_untold(view),
        )
    if holders.lasting:
        raise errors.InUse(
            say("{} on {} ({} slot {}) is in use", entry.vgpu.type_name, entry.vgpu.parent, vm.name, entry.vgpu.slot),
            details=holders.lasting,
            hint=_hint_in_use(view, vm, entry),
            until=_until(vm, holders.lasting),
        )
    return holders


def _until(vm: Domain | GoneVm, lasting: Sequence[str]) -> str | None:
    if not views.ends(lasting):
        return None
    if not isinstance(vm, GoneVm) and vm.active:
        return say("{} is shut down", vm.name)
    return say("its vGPU is idle: {}", lasting[0])


def _same_attach(vm: Domain, entry: LedgerEntry) -> str:
    """The attach command that an entry came from."""
    claim = vm.claim(entry.vgpu.slot)
    options = profiles.options(claim.wish) if claim is not None else ("--profile", entry.vgpu.type_name)
    return command("attach", vm.name, slot=entry.vgpu.slot, options=options)


def _hint_untold(view: HostView) -> str:
    """The hint if something could not be read, and there is no other evidence: shutting a VM down would not help."""
    unreadable = [domain.name for domain in view.domains if domain.problem is not None]
    if unreadable:
        look = joined(", ", (say("`{}`", virsh("dumpxml", name)) for name in unreadable))
        return say("make {} readable first ({}); what may be in use is never removed", joined(", ", unreadable), look)
    return say(
        "fix the problem above on {} (for NVML, nvidia-smi there shows more), then run the same "
        "command again; what may be in use is never removed",
        view.snapshot.host,
    )


def _hint_in_use(view: HostView, vm: Domain | GoneVm, entry: LedgerEntry) -> str:
    """The hint for a vGPU in use. If another VM could start with it, the hint is about that VM: this one may be off."""
    others = [namer for namer in sharing.namers(view, entry.vgpu.device, but=vm.uuid) if namer.can_start]
    neighbours = views.neighbours(view, entry.vgpu)
    if others:
        way_out = sharing.ways_out(view.snapshot.host, others)
    else:
        way_out = say("shut {} down", joined(", ", neighbours)) if neighbours else _way_out(vm)
    return say("{} first; nothing in use is ever removed", way_out)


def _way_out(vm: Domain | GoneVm) -> str:
    return "stop the process that holds it" if isinstance(vm, GoneVm) else say("shut {} down", vm.name)


def drift(ours: VgpuSpec, vgpu: Vgpu, *, hint: str) -> errors.Unsure:
    """The refusal of hardware whose type differs from its ledger entry's: it is not assumed to be ours."""
    type_text = "a type that cannot be read" if vgpu.type_id is None else vgpu.type_name or f"type {vgpu.type_id}"
    return errors.Unsure(
        say(
            "drift: the ledger has {} for {} on {}, but the hardware shows {}",
            ours.type_name,
            ours.vm_name,
            ours.parent,
            type_text,
        ),
        hint=hint,
    )


def _guard_live(domain: Domain, slot: Slot) -> None:
    if any(device.slot == slot for device in domain.live or ()):
        raise errors.InUse(
            say("{} is running with the vGPU of slot {}", domain.name, slot),
            hint=say("shut {} down first; nothing in use is ever removed", domain.name),
            until=say("{} is shut down", domain.name),
        )


def guard_ledger(view: HostView) -> None:
    """Raises LedgerBroken for a host whose ledger cannot be read: nothing is changed there."""
    broken = ledger_broken(view.snapshot)
    if broken is not None:
        raise broken


def ledger_broken(snapshot: HostSnapshot) -> errors.LedgerBroken | None:
    """The error of a host whose ledger cannot be read; None if it can."""
    if snapshot.ledger is not None:
        return None
    return errors.LedgerBroken(
        snapshot.host,
        f"the ledger cannot be read: {views.why_unknown(snapshot, 'ledger')}",
        hint="nothing is changed there until /var/lib/vgpumgr/ledger.json can be read: repair it, or restore it from a backup",
    )


def guard_readable(domain: Domain) -> None:
    """Raises Unsure if a document of the VM could not be read: it may contain anything."""
    if domain.problem is not None:
        raise errors.Unsure(
            say("{} cannot be read: {}", domain.name, domain.problem),
            hint=say("look at it: `{}`", virsh("dumpxml", domain.name)),
        )


def guard_claim_readable(domain: Domain) -> None:
    """Raises Unsure if the VM has our metadata element but it cannot be understood."""
    if domain.claim_problem is not None:
        raise errors.Unsure(
            say("the claim of {} cannot be read: {}", domain.name, domain.claim_problem), hint=claim_way_out(domain)
        )


def claim_way_out(domain: Domain) -> str:
    """How to remove a claim that cannot be read. After that, what the ledger has for the VM can be detached."""
    metadata = virsh("metadata", domain.name, domain.claim_namespace, "--config")
    return say("`{}` shows it, and removes it with --remove; then attach or detach again", metadata)
