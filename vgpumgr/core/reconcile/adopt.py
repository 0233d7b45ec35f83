"""adopt: enter a VM's vGPU that is not in the ledger, so that it is ours from then on.

Without names, adopt everything that claim, hardware and definition prove together (ownership.py). Claims that have
neither hardware nor a ledger entry get the vGPUs that they ask for. By name, also adopt a foreign vGPU that only one
VM's definition names, and a vGPU that somebody created, since the host's boot, at the place of one of ours: the user
vouches for these. Nothing is destroyed; running VMs keep running.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NoReturn

from vgpumgr import errors, names
from vgpumgr.core import simulate
from vgpumgr.core import step as plan_steps
from vgpumgr.core.commands import command
from vgpumgr.core.driver import profiles
from vgpumgr.core.driver.asking import NO_CONDITIONS
from vgpumgr.core.evidence import ownership, saved_states, sharing
from vgpumgr.core.model import claims
from vgpumgr.core.placing import takes
from vgpumgr.core.reconcile import tasks
from vgpumgr.core.report import findings
from vgpumgr.core.slot import attach, detach
from vgpumgr.core.slot import plan as plans
from vgpumgr.core.slot.request import AttachRequest, request_of
from vgpumgr.wording import say

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from vgpumgr.core.model.claims import Claim, ClaimDocument
    from vgpumgr.core.model.domain_xml import Domain
    from vgpumgr.core.model.functions import Vgpu
    from vgpumgr.core.model.snapshot import Gpu, VgpuType
    from vgpumgr.core.model.vgpu import LedgerEntry, VgpuSpec
    from vgpumgr.core.model.view import FindingKind, HostView
    from vgpumgr.core.policies.policy import Policy
    from vgpumgr.names import HostName, MdevUuid, PciAddress, Slot, VmUuid

_TOLD: frozenset[FindingKind] = frozenset(
    {"ledger-missing", "claim-without-entry", "unsure", "shared", "copied", "unreadable"}
)


@dataclass(frozen=True, slots=True, kw_only=True)
class AdoptRequest:
    """Which vGPUs to adopt: mdev UUIDs and VF addresses; if empty, all that are proved. Claims record `by` and `at`."""

    vgpus: tuple[MdevUuid | PciAddress, ...]
    by: str
    at: str
    policy: Policy


@dataclass(frozen=True, slots=True, kw_only=True)
class AdoptPlan(plans.AnyPlan):
    """Steps for several VMs of one host. `adopted`: the vGPUs that the plan is about, even if nothing is left to do."""

    host: HostName
    adopted: tuple[VgpuSpec, ...]
    documents: Mapping[VmUuid, ClaimDocument | None]

    placed = None

    @property
    def about(self) -> str:
        return self.host

    @property
    def gpus(self) -> tuple[str, ...]:
        return tuple(sorted({spec.gpu_uuid for spec in self.adopted}))

    def rests_on(self, view: HostView) -> tuple[object, ...]:
        return *plans.of_host(view), view.domains

    def claims_of(self, vm: VmUuid) -> ClaimDocument | None:
        return self.documents.get(vm)


def parse_name(text: str) -> MdevUuid | PciAddress:
    """A vGPU as a user names it: the mdev's UUID, or the address of its virtual function. Raises BadName."""
    try:
        return names.MdevUuid(names.parse_uuid(text.strip()))
    except errors.BadName:
        pass
    try:
        return names.parse_pci_address(text)
    except errors.BadName:
        raise errors.BadName(
            f"neither an mdev's UUID nor a virtual function's PCI address: {text!r}",
            hint="`vgpumgr list -o wide` shows both",
        ) from None


def plan_adopt(view: HostView, request: AdoptRequest) -> AdoptPlan:
    """Plan the steps that enter the vGPUs. Raises RequestError or RefusedPlan for the first that cannot be entered."""
    detach.guard_ledger(view)
    saved_states.guard_read(view)
    steps: list[plan_steps.Step] = []
    specs: list[VgpuSpec] = []
    after = view
    if not request.vgpus:
        specs = list(ownership.proved(view))
        steps = [plan_steps.EnterVgpu(host=view.snapshot.host, vgpu=spec) for spec in specs]
        after = simulate.apply(view, steps)
        for plan in _claimed(view, after, request.policy):
            specs += [plan.target] if plan.target is not None else []
            steps += plan.steps
    for name in dict.fromkeys(request.vgpus):
        spec, more = _adopt(after, request, name)
        specs.append(spec)
        steps += more
        after = simulate.apply(after, more)
    return AdoptPlan(
        host=view.snapshot.host,
        adopted=tuple(specs),
        steps=tuple(steps),
        findings=() if request.vgpus else tuple(item for item in findings.of_host(view) if item.kind in _TOLD),
        documents={domain.uuid: domain.claims for domain in view.domains},
    )


def _claimed(view: HostView, after: HostView, policy: Policy) -> Iterator[plans.Plan]:
    """Plan the vGPUs of claims that have neither hardware nor a ledger entry: adopting a host confirms these claims.

    A vGPU that cannot be made is left out.
    """
    for domain in sorted(view.domains, key=lambda one: one.name):
        for claim in tasks.own_claims(view, domain):
            if ownership.has_nothing(view, domain, claim) and profiles.is_served(claim.wish):
                try:
                    plan = attach.plan_mending(after, request_of(domain, claim, policy=policy))
                except errors.VgpumgrError:
                    continue
                after = simulate.apply(after, plan.steps)
                yield plan


def _adopt(
    view: HostView, request: AdoptRequest, name: MdevUuid | PciAddress
) -> tuple[VgpuSpec, Sequence[plan_steps.Step]]:
    gpu, vgpu = _find(view, name)
    entry = view.snapshot.entry_of(gpu, vgpu)
    if entry is not None and not ownership.is_of_earlier_boot(view.snapshot, entry):
        _guard_leaving(view, entry, name)
        return plans.spec_of_entry(view, entry), _of_ours(view, request, entry)
    domain = _only_namer(view, vgpu, name)
    if entry is not None:
        if not vgpu.is_of(entry.vgpu):
            raise detach.drift(entry.vgpu, vgpu, hint="free that vGPU by hand, then attach again")
        spec = replace(plans.spec_of_entry(view, entry), placement_id=gpu.placement_of(vgpu))
        if domain.uuid != spec.vm:
            raise errors.ConflictingClaim(
                say("{} is in the definition of {}, but the ledger has it for {}", name, domain.name, spec.vm_name),
                hint=say("`{}` first", command("detach", spec.vm_name, slot=spec.slot, on=view.snapshot.host)),
            )
        return spec, [plan_steps.EnterVgpu(host=view.snapshot.host, vgpu=spec), *_of_ours(view, request, entry)]
    _guard_domain(view, domain)
    slot = _slot(view, domain, vgpu)
    claim = domain.claim(slot)
    kind = _type(gpu, vgpu, name)
    spec = ownership.spec_of(
        domain,
        slot,
        gpu,
        vgpu,
        generation=claim.generation if claim is not None else _generation(view, domain, slot, vgpu),
        type_id=kind.id,
        type_name=kind.type_name,
    )
    wish = claim.wish if claim is not None else profiles.ByProfile(profile=_profile(kind, name))
    return spec, attach.entering_steps(view, domain, _request(request, domain, slot, claim, wish), spec)


def _guard_leaving(view: HostView, entry: LedgerEntry, name: MdevUuid | PciAddress) -> None:
    if entry.state != claims.LEAVING:
        return
    vm = plans.spec_of_entry(view, entry).vm_name
    raise errors.ConflictingClaim(
        say("a detach of {} slot {}, which removes {}, is unfinished", vm, entry.vgpu.slot, name),
        hint=say("`{}` finishes it", command("detach", vm, slot=entry.vgpu.slot, on=view.snapshot.host)),
    )


def _of_ours(view: HostView, request: AdoptRequest, entry: LedgerEntry) -> Sequence[plan_steps.Step]:
    """The remaining steps for a vGPU that the ledger names: none, or those that a killed adopt did not reach."""
    domain = view.domain(entry.vgpu.vm)
    claim = domain.claim(entry.vgpu.slot) if domain is not None and not domain.copied else None
    if domain is None or claim is None or (claim.state, claim.generation) != (claims.PENDING, entry.vgpu.generation):
        return ()
    _guard_domain(view, domain)
    again = _request(request, domain, entry.vgpu.slot, claim, claim.wish)
    return attach.entering_steps(view, domain, again, plans.spec_of_entry(view, entry))[1:]


def _request(
    request: AdoptRequest, domain: Domain, slot: Slot, claim: Claim | None, wish: profiles.Wish
) -> AttachRequest:
    return AttachRequest(
        vm=domain.uuid,
        slot=slot,
        wish=wish,
        origin=claim.origin if claim is not None else claims.ATTACH,
        by=request.by,
        at=request.at,
        policy=request.policy,
        conditions=claim.conditions if claim is not None else NO_CONDITIONS,
    )


def _find(view: HostView, name: MdevUuid | PciAddress) -> tuple[Gpu, Vgpu]:
    for gpu in view.snapshot.gpus:
        for vgpu in gpu.vgpus:
            if name == vgpu.uuid or (vgpu.vf_index is not None and name == vgpu.parent):
                reason = takes.unfit(view.snapshot, gpu)
                if reason is not None:
                    raise errors.Unsure(say("{} is on GPU {}, which {}", name, gpu.pci, reason), hint="fix that first")
                if vgpu.type_id is None:
                    raise errors.Unsure(
                        say("the type of {} cannot be read", name),
                        hint=say("{} says why", command("discover", view.snapshot.host)),
                    )
                return gpu, vgpu
    raise errors.UnknownVgpu(
        say("{} has no vGPU {}", view.snapshot.host, name),
        hint=say("`{}` shows what it has", command("list", view.snapshot.host, options=("-o", "wide"))),
    )


def _only_namer(view: HostView, vgpu: Vgpu, name: MdevUuid | PciAddress) -> Domain:
    """The one VM whose definition names the vGPU. Raises ForeignDevice if none does, ConflictingClaim if several do."""
    namers = sharing.namers(view, vgpu.device, but=None)
    domain = next((namer.domain for namer in namers if namer.in_definition and namer.domain is not None), None)
    if domain is None:
        _nobody(namers, name)
    others = [namer for namer in namers if namer.vm != domain.uuid]
    if others:
        raise errors.ConflictingClaim(
            say("{} is in the definition of {}, and also in {}", name, domain.name, sharing.in_words(others)),
            hint=say("only one VM may name it: {}", sharing.ways_out(view.snapshot.host, others)),
        )
    return domain


def _nobody(namers: Sequence[sharing.Namer], name: MdevUuid | PciAddress) -> NoReturn:
    others = say(", only {}", sharing.in_words(namers)) if namers else ""
    raise errors.ForeignDevice(
        say("no VM's definition names {}{}, so its owner is unknown", name, others),
        hint="add it to its VM's definition (`virsh attach-device VM FILE --config`) and then adopt it, or free it by hand "
        "once nothing uses it",
    )


def _guard_domain(view: HostView, domain: Domain) -> None:
    detach.guard_readable(domain)
    detach.guard_claim_readable(domain)
    if domain.copied:
        raise errors.ConflictingClaim(
            say("{} carries a copy of another VM's claim", domain.name),
            hint=say("`{}` removes the copy", command("detach", domain.name, on=view.snapshot.host)),
        )
    saved_states.guard_image(view, domain)


def _slot(view: HostView, domain: Domain, vgpu: Vgpu) -> Slot:
    """The slot of the claim for the vGPU; else the slot in the hostdev's alias; else the first free one.

    Raises ConflictingClaim if the alias names a slot that has another vGPU.
    """
    device = next(item for item in domain.inactive if item.source == vgpu.device)
    for claim in domain.claims.claims if domain.claims else ():
        if claim.binding.device == vgpu.device and not view.entries(domain.uuid, claim.slot):
            return claim.slot
    if device.slot is not None:
        slot = names.parse_slot(device.slot)
        if domain.claim(slot) is None and not view.entries(domain.uuid, slot):
            return slot
        raise errors.ConflictingClaim(
            say("the hostdev of {} has the alias {}, but slot {} has another vGPU", domain.name, device.alias, slot),
            hint=say("`{}` frees that one", command("detach", domain.name, slot=slot, on=view.snapshot.host)),
        )
    slots = {*plans.slots_of(view, domain), *(item.slot for item in domain.inactive)}
    number = 0
    while names.Slot(f"vgpu{number}") in slots:
        number += 1
    return names.Slot(f"vgpu{number}")


def _type(gpu: Gpu, vgpu: Vgpu, name: MdevUuid | PciAddress) -> VgpuType:
    """The vGPU's type. Raises Unsure if it is unknown: without NVML, a VF only lists the types that it can take now."""
    kind = (gpu.types or {}).get(vgpu.type_id or 0)
    if kind is None:
        raise errors.Unsure(
            say("{} is of type {}, which the driver does not name now", name, vgpu.type_name or vgpu.type_id),
            hint="adopt it once NVML answers",
        )
    return kind


def _profile(kind: VgpuType, name: MdevUuid | PciAddress) -> profiles.Profile:
    """The profile with which a user would have requested this type. Raises Unsure if the type has no profile."""
    try:
        return profiles.parse_profile(kind.short)
    except errors.BadName as error:
        raise errors.Unsure(
            say("{} is of type {}, which no profile names", name, kind.type_name),
            hint="it stays as it is: no vgpumgr command could request it again",
        ) from error


def _generation(view: HostView, domain: Domain, slot: Slot, vgpu: Vgpu) -> int:
    """The generation with which the vGPU's UUID was computed for this slot; if there is none, the slot's next one."""
    after = ownership.next_generation(view, domain, slot)
    of_uuid = (number for number in range(1, after) if names.compute_mdev_uuid(domain.uuid, slot, number) == vgpu.uuid)
    return next(of_uuid, after)
