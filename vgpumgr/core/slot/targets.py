"""Which vGPU a slot should have: its present one, one at a place reserved for it, or a new one; or why it gets none."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Literal

from vgpumgr import errors
from vgpumgr.core import step as steps
from vgpumgr.core.commands import command, virsh
from vgpumgr.core.driver import plugin_params, profiles
from vgpumgr.core.driver.asking import MIG, TIME_SLICED
from vgpumgr.core.evidence import ownership, sharing
from vgpumgr.core.model import claims
from vgpumgr.core.model import guest as guests
from vgpumgr.core.model.mig import MigPlace
from vgpumgr.core.model.vgpu import LEAVING, PLANNED, Mdev, VgpuSpec
from vgpumgr.core.placing import division, new_vgpu, placement, resolve, room, takes
from vgpumgr.core.placing.no_place import Refusal
from vgpumgr.core.placing.resolve import Ask
from vgpumgr.core.slot import detach, lazily, no_room, reserving
from vgpumgr.core.slot import plan as plans
from vgpumgr.wording import Command, GpuAddress, Option, say

if TYPE_CHECKING:
    from collections.abc import Sequence

    from vgpumgr.core.driver.asking import Conditions, Grant
    from vgpumgr.core.model.claims import Claim
    from vgpumgr.core.model.domain_xml import Domain
    from vgpumgr.core.model.guest import Guest
    from vgpumgr.core.model.reservation import Reservation
    from vgpumgr.core.model.snapshot import Gpu
    from vgpumgr.core.model.vgpu import LedgerEntry
    from vgpumgr.core.model.view import HostView
    from vgpumgr.core.slot.request import AttachRequest
    from vgpumgr.names import Slot


def serves(view: HostView, claim: Claim, request: AttachRequest) -> bool:
    """Whether a claim satisfies the request: the same wish, on a GPU and under conditions that the request allows."""
    return profiles.same_wish(claim.wish, request.wish) and _why_refused(view, claim, request) is None


def _why_refused(view: HostView, claim: Claim, request: AttachRequest) -> str | None:
    """Why a claim with the same wish does not satisfy the request, in words; None if it does."""
    if not request.allows(claim.binding.exact_place):
        return say("another GPU than {} names", Option("--gpu-id"))
    return _unmet(view, claim, request.conditions)


def _unmet(view: HostView, claim: Claim, conditions: Conditions) -> str | None:
    """The condition that a claim does not meet; None if it meets all.

    If the claim was made under the same conditions, they are not checked again: its GPU may have changed since.
    """
    if conditions == claim.conditions:
        return None
    gpu = view.snapshot.gpu_by_uuid(claim.binding.gpu_uuid)
    policy = gpu.scheduler.policy if gpu is not None and gpu.scheduler is not None else None
    if conditions.compute is not None and policy not in (None, conditions.compute):
        return f"on a GPU whose scheduler is {policy}, not {conditions.compute}"
    waste, limit = claim.grant.waste_pct if claim.grant is not None else 0, conditions.max_waste_pct
    if limit is not None and waste > limit:
        return say("{} % of it wasted, more than {}", f"{waste:g}", Option("--max-waste", limit))
    without = plugin_params.missing(conditions.param, claim.conditions.param)
    if without is not None:
        return f"without {without}"
    mig_backed = profiles.name_of(claim.binding.type_name).slices is not None
    if conditions.only in (None, MIG if mig_backed else TIME_SLICED):
        return None
    return "a MIG-backed vGPU" if mig_backed else "a time-sliced vGPU"


def ask_of(view: HostView, request: AttachRequest, claim: Claim | None) -> Ask:
    """The request's wish with all that placing needs to interpret it.

    If the claim has the same wish, the claim's grant decides how much its fGPUs are.
    """
    same = claim is not None and profiles.same_wish(claim.wish, request.wish)
    before = claim.grant if claim is not None and same else None
    domain = view.vms.find(request.vm)
    guest = (domain.guest or domain.live_guest) if domain is not None else None
    ask = Ask.at_host(view, request.wish, request.conditions, policy=request.policy)
    return replace(ask, before=before, numa_nodes=_nodes_of(view, guest) if guest is not None else frozenset())


def _nodes_of(view: HostView, guest: Guest) -> frozenset[int]:
    """The NUMA nodes that a VM's memory is pinned to; if none, the nodes of GPUs near the CPUs that it is pinned to."""
    near = ((gpu.numa_node, guests.numbers(gpu.local_cpus or "")) for gpu in view.snapshot.gpus)
    return guest.numa_nodes or frozenset(node for node, cpus in near if node is not None and cpus & guest.cpus)


def find_target(
    view: HostView, domain: Domain, request: AttachRequest, *, at: Reservation | None = None
) -> tuple[VgpuSpec, placement.Placed | None, steps.Missing | None]:
    """The slot's desired vGPU; its placement, if it is new; and what a step must expect there, None without a step.

    `at`: the reservation whose place a new vGPU gets; the view must be without that reservation.
    A step expects `steps.ENTER` if the vGPU exists and is proved to be the claim's, but the ledger does not name it.
    """
    claim = domain.claim(request.slot)
    _guard_claim(view, domain, request, claim)
    entries = view.entries(domain.uuid, request.slot)
    keeping = _kept_entry(view, request, claim, entries)
    if keeping is not None:
        spec, expect = plans.spec_of_entry(view, keeping), _expect(view, keeping)
        return division.placed_again(view.snapshot, spec) if expect == steps.EMPTY else spec, None, expect
    vgpu = _proved(view, request, domain, claim)
    if vgpu is not None:
        return vgpu, None, steps.ENTER
    reuse = _pending_place(view, request, domain, claim) if not entries else None
    if reuse is not None:
        return *reuse, steps.EMPTY
    past = [entry.vgpu for entry in entries if ownership.cannot_come_back(view.snapshot, entry.vgpu)]
    rest = replace(view, snapshot=view.snapshot.without_entries(ours.key for ours in past)) if past else view
    if at is not None:
        placed = _at(rest, domain, request, at)
    else:
        placed = (_successor(rest, request, domain, past[-1]) if past else None) or _place(rest, request, domain)
    if placed is None:
        raise reserving.unplaced(str(request.reservation))
    generation = ownership.next_generation(view, domain, request.slot)
    return _new_spec(domain, request.slot, generation, placed), placed, steps.EMPTY


def _proved(view: HostView, request: AttachRequest, domain: Domain, claim: Claim | None) -> VgpuSpec | None:
    """The vGPU of a claim that the ledger does not name, if it exists and the claim satisfies the request.

    Raises Unsure if the hardware exists but is not proved to be the claim's, unless the request has --replace.
    """
    evidence = ownership.standing(view, domain, claim) if claim is not None else None
    if claim is None or evidence is None or claim.state != claims.BOUND or not serves(view, claim, request):
        return None
    if ownership.is_proved(evidence):
        return evidence.spec
    if request.replace:
        return None
    if isinstance(evidence, ownership.Unentered):
        raise errors.Unsure(
            say(
                "{} on {} may be the vGPU of {} slot {}, but the host's ledger does not name it",
                evidence.spec.type_name,
                evidence.spec.parent,
                domain.name,
                claim.slot,
            ),
            details=evidence.doubts,
            hint=ownership.way_out(view, domain, claim, evidence),
        )
    if evidence == ownership.HIDDEN:
        raise errors.Unsure(
            say(
                "the vGPU of {} slot {} is on {}, and the UUID of a GPU of {} cannot be read: it may be that one",
                domain.name,
                claim.slot,
                claim.binding.gpu_uuid,
                view.snapshot.host,
            ),
            hint=say("{} says why", Command("vgpumgr", "discover", view.snapshot.host)),
        )
    return None


def _guard_claim(view: HostView, domain: Domain, request: AttachRequest, claim: Claim | None) -> None:
    """Raises ConflictingClaim if the VM's claims and devices do not allow this wish, Unsure if they cannot be read."""
    detach.guard_claim_readable(domain)
    if domain.copied:  # for any slot: all claims are written as one document, including the copies
        raise errors.ConflictingClaim(
            say("{} carries a copy of another VM's claim and hostdev (it is a clone or a restore)", domain.name),
            hint=say(
                "`{}` removes the copy (the other VM keeps its vGPU); then attach again",
                command("detach", domain.name, on=view.snapshot.host),
            ),
        )
    if claim is not None and claim.state == claims.LEAVING:
        raise errors.ConflictingClaim(
            say("a detach of {} slot {} has begun but not finished", domain.name, request.slot),
            hint=say("`{}` finishes it", command("detach", domain.name, slot=request.slot)),
        )
    if claim is not None and view.snapshot.machine is not None and claim.binding.host != view.snapshot.machine:
        if not request.replace:
            raise errors.ConflictingClaim(
                say(
                    "{} slot {} is bound on another host (machine-id {})", domain.name, request.slot, claim.binding.host
                ),
                hint=say(
                    "{} makes a new vGPU here; the other host's stays until it is detached there",
                    _exchange(domain.name, request),
                ),
            )
    elif claim is not None and not serves(view, claim, request) and not request.replace:
        guard_offered(view, domain, request)
        had = f"{claim.binding.type_name} on {claim.binding.parent} of GPU {_pci(view, claim.binding)}"
        same = profiles.same_wish(claim.wish, request.wish)
        why = _why_refused(view, claim, request) if same else say("requested as {}", claim.asked)
        raise errors.ConflictingClaim(
            say("{} slot {} has {}, {}", domain.name, request.slot, had, why),
            hint=say(
                "use another slot ({}); {} replaces it, `{}` frees it",
                Option("--slot"),
                _exchange(domain.name, request),
                command("detach", domain.name, slot=request.slot),
            ),
        )
    elif claim is None and not view.entries(domain.uuid, request.slot):
        _guard_alias(domain, request.slot)


def _guard_alias(domain: Domain, slot: Slot) -> None:
    device = next((one for one in domain.inactive if one.slot == slot), None)
    if device is not None:
        raise errors.ConflictingClaim(
            say("{} already has a device with the alias {}, but no claim of ours for it", domain.name, device.alias),
            hint=say("use another {}, or remove that device ({})", Option("--slot"), virsh("edit", domain.name)),
        )


def guard_offered(view: HostView, domain: Domain, request: AttachRequest) -> None:
    """Raises ProfileNotHere if no GPU of the host has the profile, since a hint to use --replace would be wrong."""
    ask = ask_of(view, request, None)
    verdict = placement.place(view.snapshot, ask)
    if isinstance(verdict, placement.NoPlace) and verdict.unknown_profile and verdict.reasons:
        raise no_room.error(view, domain, request, ask, verdict)


def _pci(view: HostView, binding: claims.Binding) -> str:
    gpu = view.snapshot.gpu_by_uuid(binding.gpu_uuid)
    return gpu.pci if gpu else binding.gpu_uuid


def _kept_entry(
    view: HostView, request: AttachRequest, claim: Claim | None, entries: Sequence[LedgerEntry]
) -> LedgerEntry | None:
    """The newest ledger entry, if it satisfies the wish: its vGPU is then the target, with the same generation.

    Raises if the entry does not satisfy the wish, or its vGPU cannot be re-created, unless the request has --replace.
    """
    usable = [entry for entry in entries if entry.state != LEAVING]
    if not usable or (claim is not None and claim.generation > usable[-1].vgpu.generation):
        return None
    entry = usable[-1]
    if _fits(view, request, claim, entry) and request.allows(entry.vgpu.exact_place):
        if ownership.cannot_come_back(view.snapshot, entry.vgpu):
            return None
        obstacle = _obstacle(view, entry, request)
        if obstacle is None:
            return entry
        if not request.replace:
            raise obstacle
        return None
    if not request.replace:
        domain = plans.find_domain(view, request.vm)
        guard_offered(view, domain, request)
        raise errors.ConflictingClaim(
            say(
                "the host's ledger holds {} on {} for {} slot {}",
                entry.vgpu.type_name,
                entry.vgpu.parent,
                domain.name,
                entry.vgpu.slot,
            ),
            hint=say(
                "{} replaces it, `{}` frees it",
                _exchange(domain.name, request),
                command("detach", domain.name, slot=entry.vgpu.slot),
            ),
        )
    return None


def _fits(view: HostView, request: AttachRequest, claim: Claim | None, entry: LedgerEntry) -> bool:
    """Whether an entry's vGPU serves the request. A claim with the same amount says to which type that amount came."""
    if claim is not None and plugin_params.missing(request.conditions.param, claim.conditions.param) is not None:
        return False  # a vGPU gets its parameters when it is made, and a claim in another spelling says which
    same = claim if claim is not None and profiles.same_wish(claim.wish, request.wish) else None
    if same is not None and _unmet(view, same, request.conditions) is not None:
        return False
    if isinstance(request.wish, profiles.ByMigProfile):
        place = entry.vgpu.mig
        return place is not None and place.profile == request.wish.mig_profile
    if isinstance(request.wish, profiles.ByProfile):
        return resolve.serves_profile(view.snapshot, entry.vgpu, request.wish.profile)
    if same is not None:
        return entry.vgpu.type_name == same.binding.type_name
    gpu = view.snapshot.gpu_by_uuid(entry.vgpu.gpu_uuid)
    choices = resolve.choices(gpu, ask_of(view, request, None)) if gpu is not None else ()
    return not isinstance(choices, Refusal) and any(
        choice.type.id == entry.vgpu.type_id and resolve.too_much_waste(choice, request.conditions) is None
        for choice in choices
    )


def _exchange(vm: str, request: AttachRequest) -> str:
    """The attach command that gives the slot a new vGPU. Hints of reconcile, which has no --replace, name it, too."""
    gpu = ("--gpu-id", request.gpus[0]) if request.gpus else ()
    return say("`{}`", command("attach", vm, slot=request.slot, options=(*request.options, *gpu, "--replace")))


def _obstacle(view: HostView, entry: LedgerEntry, request: AttachRequest) -> errors.VgpumgrError | None:
    """Why an entry's missing vGPU cannot be re-created where it was; None if it exists or can be re-created.

    Whether there is room for a lazy one is decided when its VM starts.
    """
    ours = entry.vgpu
    astray = ownership.strays_to(view.snapshot, ours)
    if astray is not None:
        return errors.Unsure(
            say(
                "drift: the ledger has mdev {} of {} on {}, but it is on {}",
                ours.uuid,
                ours.vm_name,
                ours.parent,
                astray,
            ),
            hint=say(
                "something else created it there with that UUID (mdevctl?): remove it once nothing uses it, "
                "or {} creates another one",
                _exchange(ours.vm_name, request),
            ),
        )
    if view.snapshot.vgpu_of(ours) is not None:
        return None
    gpu = view.snapshot.gpu_by_uuid(ours.gpu_uuid)
    if gpu is None:
        return errors.Unsure(
            say(
                "the vGPU of {} slot {} was on GPU {} ({}), which {} does not show",
                ours.vm_name,
                ours.slot,
                ours.gpu,
                ours.gpu_uuid,
                view.snapshot.host,
            ),
            hint=say("bring the GPU back, or {} places the vGPU on another one", _exchange(ours.vm_name, request)),
        )
    if entry.lazy:
        return None
    parent = gpu.functions.find(ours.parent)
    blocker = next(iter(parent.vgpus), None) if parent else None
    if blocker is not None and blocker.vf_index is not None:
        return errors.Unsure(
            say(
                "drift: the ledger has {} for {} on {}, but {} ({}) is there",
                ours.type_name,
                ours.vm_name,
                ours.parent,
                blocker.type_name,
                blocker.device,
            ),
            hint=say("free that virtual function, or {} places the vGPU elsewhere", _exchange(ours.vm_name, request)),
        )
    reason = takes.may_make_again(view.snapshot, gpu, ours)
    return None if reason is None else _not_again(view, ours, request, gpu, reason)


def _not_again(
    view: HostView, ours: VgpuSpec, request: AttachRequest, gpu: Gpu, reason: Refusal
) -> errors.VgpumgrError:
    type_name = profiles.read_type_name(ours.type_name)
    ask = ask_of(view, request, None)
    nowhere = all(isinstance(resolve.choices(one, ask), Refusal) for one in view.snapshot.gpus)
    if nowhere and type_name is not None and gpu.types and gpu.type_of(ours.type_id) is None:
        return no_room.dropped(view, ours.vm_name, request, gpu, type_name)
    if reason.is_not_ready:
        return errors.NotReady(
            say(
                "the vGPU of {} slot {} cannot be re-created: GPU {}: {}", ours.vm_name, ours.slot, gpu.pci, reason.text
            ),
            hint=say(
                "once it is ready, run the same command again; or {} places the vGPU on another GPU",
                _exchange(ours.vm_name, request),
            ),
        )
    return errors.NoCapacity(
        say("the vGPU of {} slot {} cannot be re-created at its place, {}", ours.vm_name, ours.slot, ours.parent),
        details=[say("{}  {}  {}", GpuAddress(gpu.pci), gpu.board or gpu.name or "?", reason.text)],
        hint=say("free what is in its way, or {} places the vGPU elsewhere", _exchange(ours.vm_name, request)),
    )


def _expect(view: HostView, entry: LedgerEntry) -> Literal["empty", "same"] | None:
    """What a step must expect at a kept entry's place: `empty`, `same`, or None for no step. Raises on drift."""
    vgpu = view.snapshot.vgpu_of(entry.vgpu)
    if vgpu is None:
        return None if entry.lazy else steps.EMPTY
    if not vgpu.is_of(entry.vgpu):
        raise detach.drift(entry.vgpu, vgpu, hint="free that vGPU by hand, then attach again")
    detach.guard_boot(view, entry)
    return steps.SAME if entry.state == PLANNED else None


def _pending_place(
    view: HostView, request: AttachRequest, domain: Domain, claim: Claim | None
) -> tuple[VgpuSpec, placement.Placed] | None:
    """The vGPU and placement of a claim without a ledger entry; None if the place is taken: the claim reserves none."""
    if claim is None or not serves(view, claim, request) or claim.binding.host != view.snapshot.machine:
        return None
    device = claim.binding.device
    if isinstance(device, Mdev) and view.snapshot.find(device) is not None:
        return None
    placed = _same_again(
        view, domain, claim.slot, claim.binding, grant=claim.grant, why="the place that its claim already names"
    )
    return None if placed is None else (_new_spec(domain, claim.slot, claim.generation, placed), placed)


def _successor(view: HostView, request: AttachRequest, domain: Domain, past: VgpuSpec) -> placement.Placed | None:
    """Where a vGPU of the same type takes the place of `past`, which cannot come back as it was; None if it cannot.

    The view must be without the ledger entry of `past`. The slot had that place before, so no cordon keeps it away.
    """
    claim = domain.claim(request.slot)
    if claim is None or claim.generation < past.generation or not serves(view, claim, request):
        return None
    view = replace(view, snapshot=replace(view.snapshot, cordons=()), excluded_vfs=frozenset())
    why = "its place, before the driver or the kernel was changed"
    return _same_again(view, domain, claim.slot, claim.binding, grant=claim.grant, why=why)


def reserved_for(view: HostView, domain: Domain, request: AttachRequest) -> Reservation | None:
    """The reserved place that the request takes: where its slot's vGPU is already, else the first that can be had.

    None if the request names no reservation, or if its slot has taken a place. Raises RequestError or NoCapacity.
    """
    if request.reservation is None:
        return None
    claim, taker = domain.claim(request.slot), reserving.taker(domain, request.slot)
    if claim is not None and serves(view, claim, request):
        place = claim.binding.gpu_uuid, claim.binding.vf_index
        there = reserving.named(view.snapshot, request.reservation)
        mine = (one for one in there if one.terms.taker == taker or (place[1] is not None and one.at == place))
        return next(mine, None)
    serving = reserving.serving(view, request.reservation, ask_of(view, request, claim))
    for one in sorted(serving, key=lambda one: one.terms.taker != taker):  # first what a killed run began to take
        if _at(reserving.without(view, one), domain, request, one) is not None:
            return one
    raise reserving.unplaced(request.reservation)


def _at(view: HostView, domain: Domain, request: AttachRequest, one: Reservation) -> placement.Placed | None:
    """The placement of the request's vGPU at a reserved place that the view no longer has; None if it does not fit."""
    gpu = view.snapshot.gpu_by_uuid(one.vgpu.gpu_uuid)
    choices = resolve.choices(gpu, ask_of(view, request, None)) if gpu is not None else ()
    grants = (
        (each.grant for each in choices if each.type.type_name == one.vgpu.type_name)
        if isinstance(choices, tuple)
        else ()
    )
    where = claims.binding_of("", one.vgpu)
    why = say("reserved: {}", one.name)
    return _same_again(view, domain, request.slot, where, grant=next(iter(grants), None), why=why)


def _same_again(
    view: HostView, domain: Domain, slot: Slot, before: claims.Binding, *, grant: Grant | None, why: str
) -> placement.Placed | None:
    """The placement of a vGPU of the same type at the same place, by their present ids; None if it does not fit."""
    gpu = view.snapshot.gpu_by_uuid(before.gpu_uuid)
    parent = gpu.parent_at(before.vf_index) if gpu else None  # its current address, if the card was moved
    vgpu_type = gpu.type_named(before.type_name) if gpu else None
    if gpu is None or parent is None or vgpu_type is None:
        return None
    barred = sharing.barred_functions(view, but=(domain.uuid, slot))
    if takes.may_create(view.snapshot, gpu, parent, vgpu_type, barred):
        return None
    mode = division.of(gpu)
    return placement.Placed(
        gpu=gpu,
        parent=parent,
        type=vgpu_type,
        ordinal=room.count_allocated(view.snapshot, gpu) + 1,
        maximum=mode.most(vgpu_type),
        why=why,
        grant=grant,
        placement_id=mode.placement_id(view.snapshot, gpu, vgpu_type, before=before.placement_id),
        home=mode.home(view.snapshot, gpu, vgpu_type, before=_mig_place(gpu, before)),
    )


def _mig_place(gpu: Gpu, binding: claims.Binding) -> MigPlace | None:
    """The place of a MIG-backed vGPU according to its claim; None if the GPU has no such profile now."""
    profile = next((one for one in gpu.instance_profiles if one.name == binding.mig_profile), None)
    if profile is None or binding.mig_start is None:
        return None
    return MigPlace(profile=profile.name, profile_id=profile.id, start=binding.mig_start)


def _place(view: HostView, request: AttachRequest, domain: Domain) -> placement.Placed:
    ask = ask_of(view, request, domain.claim(request.slot))
    among = None if request.gpus is None else [gpu for gpu in view.snapshot.gpus if gpu.uuid in request.gpus]
    barred = sharing.barred_functions(view, but=(domain.uuid, request.slot))
    place = lazily.place if view.lazy else placement.place
    verdict = place(view.snapshot, ask, among=among, barred=barred, exact=request.place)
    if isinstance(verdict, placement.NoPlace):
        raise no_room.error(view, domain, request, ask, verdict)
    return verdict


def _new_spec(domain: Domain, slot: Slot, generation: int, placed: placement.Placed) -> VgpuSpec:
    owner = new_vgpu.Owner(vm=domain.uuid, vm_name=domain.name, slot=slot, generation=generation)
    return new_vgpu.spec(
        owner, placed.gpu, placed.parent, placed.type, placement_id=placed.placement_id, home=placed.home
    )
