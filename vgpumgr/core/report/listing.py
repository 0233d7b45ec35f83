"""Observed facts as rows: every vGPU of a host, ours and foreign, with the state that all its parts together show."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from vgpumgr import names
from vgpumgr.core import step as plan_steps
from vgpumgr.core.driver.profiles import ByProfile
from vgpumgr.core.evidence import ownership, restart
from vgpumgr.core.model import claims
from vgpumgr.core.model import view as views
from vgpumgr.core.model.vgpu import FOREIGN, MADE, OURS, Whose
from vgpumgr.core.placing import resolve
from vgpumgr.core.report import findings
from vgpumgr.errors import VgpumgrError

if TYPE_CHECKING:
    from vgpumgr.core.model.claims import Binding, Claim
    from vgpumgr.core.model.domain_xml import Domain
    from vgpumgr.core.model.functions import Vgpu
    from vgpumgr.core.model.snapshot import FrameworkName, Gpu
    from vgpumgr.core.model.vgpu import LedgerEntry, VgpuSpec
    from vgpumgr.core.model.view import HostView
    from vgpumgr.names import HostName, Slot, VmUuid

State = Literal["bound", "foreign", "gone", "in_use", "lazy", "lost", "made", "pending", "pending_restart", "unknown"]


@dataclass(frozen=True, slots=True, kw_only=True)
class VgpuRow:
    """One line of `list`. `vf` is the VF's PCI address (None on mdev-pf); `state` is one of the contract's words.

    `gpu` is None if the host does not show the GPU, `origin` if the ledger cannot be read.

    `mig_profile` and `mig_start` name the GPU instance of the vGPU; both are None if it has none, or that is unknown.

    `vm_uuid` distinguishes two VMs that had the same name one after the other.

    `profile` is None if the slot was asked for in another way; `requested` is the whole wish as options, `requested_at`
    its time (RFC 3339, UTC), `asked_mib` and `waste_pct` as in Grant, `guest_mib` the least that the guest sees.

    pending (claimed, not yet served) · made (the vGPU exists, but the VM's definition lacks it or has it wrong) · bound
    · in_use · pending_restart (the VM's next start changes whether it has the vGPU) · gone (ours, no hardware) · lazy
    (ours, made when its VM starts) · lost (no claim names the ledger's entry: its slot has no claim, or a claim of a
    later generation) · foreign · unknown.
    """

    vm: str | None
    slot: Slot | None
    host: HostName
    gpu: str | None
    vf: str | None
    type_name: str | None
    state: State
    holder: str | None
    requested_at: str | None
    board: str | None
    profile: str | None
    type_id: int | None
    framework: FrameworkName | None
    uuid: str | None
    placement_id: int | None
    mig_profile: str | None
    mig_start: int | None
    framebuffer_mib: int | None
    requested: str | None
    asked_mib: int | None
    waste_pct: float | None
    guest_mib: int | None
    origin: Whose | None
    vm_uuid: VmUuid | None


def rows(view: HostView) -> tuple[VgpuRow, ...]:
    """All vGPUs of a host: the ledger's entries, claims without an entry, and what is foreign.

    If the ledger is unreadable or lacks the vGPU, a claim's row shows the hardware of its binding, in state unknown
    or in_use.
    """
    result = [_entry_row(view, entry) for entry in view.snapshot.ledger or ()]
    claim_vgpus: list[Vgpu] = []
    for domain in view.domains:
        for claim in domain.claims.claims if domain.claims else ():
            if any(entry.vgpu.generation >= claim.generation for entry in view.entries(domain.uuid, claim.slot)):
                continue
            vgpu = _named(view, domain, claim)
            if vgpu is not None:
                claim_vgpus.append(vgpu)
            result.append(_claim_row(view, domain, claim, vgpu))
    for gpu in view.snapshot.gpus:
        for vgpu in gpu.vgpus:
            if view.snapshot.entry_of(gpu, vgpu) is None and vgpu not in claim_vgpus:
                result.append(_foreign_row(view, gpu, vgpu))
    return tuple(sorted(result, key=_order))


def _named(view: HostView, domain: Domain, claim: Claim) -> Vgpu | None:
    """The hardware that a claim names and no ledger entry does. None for a copied claim, which is another VM's."""
    if view.snapshot.ledger is not None:
        standing = ownership.standing(view, domain, claim)
        return standing.vgpu if isinstance(standing, ownership.Unentered) else None
    vgpu = None if domain.copied else view.snapshot.vgpu_of(claim.binding)
    return vgpu if vgpu is not None and vgpu.is_of(claim.binding) else None


def _order(row: VgpuRow) -> tuple[str, bool, str, str, tuple[str, int, str], str, str]:
    slot = names.slot_order(row.slot) if row.slot else ("", -1, "")
    return row.host, row.vm is None, row.vm or "", row.vm_uuid or "", slot, row.gpu or "", row.vf or row.uuid or ""


def _profile(claim: Claim | None) -> str | None:
    return claim.wish.profile.text if claim and isinstance(claim.wish, ByProfile) else None


def _row(
    view: HostView,
    device: VgpuSpec | Binding | Vgpu,
    gpu: Gpu | None,
    vgpu: Vgpu | None,
    *,
    vm: tuple[str | None, VmUuid | None],
    slot: Slot | None,
    claim: Claim | None,
    state: State,
    origin: Whose | None,
    address: str | None = None,
) -> VgpuRow:
    """One vGPU's row. `device` names the vGPU, `vgpu` is its hardware. `address`: that of its GPU, if `gpu` is None."""
    vgpu_type = gpu.type_of(device.type_id) if gpu else None
    address, board, framework = (gpu.pci, gpu.board, gpu.framework) if gpu else (address, None, None)
    place = gpu.mig_place_of(vgpu) if gpu and vgpu else None
    mig_profile, mig_start = (place.profile, place.start) if place else (None, None)
    size, guest = (vgpu_type.size_mib, resolve.guest_mib(gpu, vgpu_type)) if gpu and vgpu_type else (None, None)
    requested, requested_at, grant = (str(claim.asked), claim.at, claim.grant) if claim else (None, None, None)
    asked_mib, waste = (grant.asked_mib, grant.waste_pct) if grant else (None, None)
    return VgpuRow(
        vm=vm[0],
        vm_uuid=vm[1],
        slot=slot,
        host=view.snapshot.host,
        gpu=address,
        board=board,
        profile=_profile(claim),
        type_id=device.type_id,
        type_name=device.type_name,
        framework=framework,
        uuid=device.uuid,
        vf=device.parent if device.vf_index is not None else None,
        placement_id=vgpu.placement_id if vgpu else None,
        mig_profile=mig_profile,
        mig_start=mig_start,
        framebuffer_mib=size,
        requested=requested,
        requested_at=requested_at,
        asked_mib=asked_mib,
        waste_pct=waste,
        guest_mib=guest,
        state=state,
        holder=views.holder_name(view, vgpu) if vgpu else None,
        origin=origin,
    )


def _entry_row(view: HostView, entry: LedgerEntry) -> VgpuRow:
    vgpu = view.snapshot.vgpu_of(entry.vgpu)
    domain = view.domain(entry.vgpu.vm)
    claim = domain.claim(entry.vgpu.slot) if domain else None
    left_over = claim is not None and findings.is_left_over(entry, claim)
    return _row(
        view,
        entry.vgpu,
        view.snapshot.gpu_by_uuid(entry.vgpu.gpu_uuid),
        vgpu,
        vm=(domain.name if domain else entry.vgpu.vm_name, entry.vgpu.vm),
        slot=entry.vgpu.slot,
        claim=None if left_over else claim,
        state=_state(view, entry, vgpu, domain),
        origin=OURS,
        address=entry.vgpu.gpu,
    )


def _state(view: HostView, entry: LedgerEntry, vgpu: Vgpu | None, domain: Domain | None) -> State:
    claim = domain.claim(entry.vgpu.slot) if domain else None
    if domain is not None and (domain.problem or domain.claim_problem):
        return "unknown"
    if domain is None or claim is None or findings.is_left_over(entry, claim):
        return "lost"
    if claim.state == claims.PENDING:
        return "made" if entry.state == MADE and vgpu is not None else "pending"
    if view.snapshot.may_be_hidden(entry.vgpu):
        return "unknown"
    if vgpu is None:
        return _state_without(view, entry, domain)
    return _state_of_hardware(view, entry, vgpu, domain, claim) if vgpu.is_of(entry.vgpu) else "gone"


def _state_without(view: HostView, entry: LedgerEntry, domain: Domain) -> State:
    """The state of an entry whose vGPU is not there."""
    if not entry.lazy or view.snapshot.gpu_by_uuid(entry.vgpu.gpu_uuid) is None:
        return "gone"
    return "pending_restart" if domain.active else "lazy"


def _state_of_hardware(view: HostView, entry: LedgerEntry, vgpu: Vgpu, domain: Domain, claim: Claim) -> State:
    """The state of an entry whose vGPU exists and whose VM has a bound claim of it."""
    if views.holder_name(view, vgpu) is not None:
        # A VM may run with a vGPU that its definition no longer has.
        return "pending_restart" if restart.changes_of(view, domain, vgpu.device) else "in_use"
    if ownership.is_of_earlier_boot(view.snapshot, entry):
        return "unknown"
    if view.snapshot.handles is None or view.snapshot.why_silent(entry.vgpu.gpu) is not None:
        return "unknown"  # no holder is known, but only half of the evidence could be read
    if restart.changes_of(view, domain, vgpu.device) or findings.lacks_in_image(view, domain, claim):
        return "pending_restart"
    return "made" if _is_defined_wrongly(view, domain, claim) else "bound"


def _is_defined_wrongly(view: HostView, domain: Domain, claim: Claim) -> bool:
    steps = findings.to_mend(view, domain, claim)
    return not isinstance(steps, VgpumgrError) and any(
        isinstance(step, plan_steps.AttachHostdev | plan_steps.DetachHostdev) for step in steps
    )


def _foreign_row(view: HostView, gpu: Gpu, vgpu: Vgpu) -> VgpuRow:
    users = view.vms.naming(vgpu.device)
    unknown = view.snapshot.ledger is None
    return _row(
        view,
        vgpu,
        gpu,
        vgpu,
        vm=(users[0].name, users[0].uuid) if len(users) == 1 else (None, None),
        slot=None,
        claim=None,
        state="unknown" if unknown else "foreign",
        origin=None if unknown else FOREIGN,
    )


def _claim_row(view: HostView, domain: Domain, claim: Claim, vgpu: Vgpu | None) -> VgpuRow:
    """A claim without a ledger entry. `vgpu` is its hardware, None if none can be identified."""
    unknown = (
        view.snapshot.ledger is None or domain.copied or view.snapshot.may_be_hidden(claim.binding) or vgpu is not None
    )
    state: State = "unknown" if unknown else "gone"
    if claim.state == claims.PENDING and state == "gone":
        state = "pending"
    if view.snapshot.ledger is not None and vgpu is not None and views.holder_name(view, vgpu) is not None:
        state = "in_use"
    return _row(
        view,
        claim.binding,
        view.snapshot.gpu_by_uuid(claim.binding.gpu_uuid),
        vgpu,
        vm=(domain.name, domain.uuid),
        slot=claim.slot,
        claim=claim,
        state=state,
        origin=OURS,
    )
