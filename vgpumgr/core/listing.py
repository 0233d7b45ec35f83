"""Observed → rows: every vGPU of a host, ours and foreign, in the state that its artefacts show together."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from vgpumgr.core import attaching, claims, names, observed, plan, profiles
from vgpumgr.core.observed import Finding

if TYPE_CHECKING:
    from vgpumgr.core.claims import Claim
    from vgpumgr.core.domain_xml import Domain
    from vgpumgr.core.names import HostName, Slot
    from vgpumgr.core.observed import HostView
    from vgpumgr.core.snapshot import Gpu, LedgerEntry, Vgpu

OURS = "ours"
FOREIGN = "foreign"


@dataclass(frozen=True, slots=True, kw_only=True)
class VgpuRow:
    """One line of `list`. `vf` is the VF's PCI address (None on mdev-pf); `state` is one of the contract's words.

    `gpu` is None where the host does not show it, `origin` where the ledger that would tell it cannot be read.

    pending (claimed, not yet served) · made · bound · in_use · pending_restart (runs without it until the next start) ·
    gone (ours, no hardware) · lost (ledger entry, no claim) · foreign · unknown.
    """

    vm: str | None
    slot: Slot | None
    host: HostName
    gpu: str | None
    board: str | None
    profile: str | None
    type_id: int | None
    type_name: str | None
    framework: str | None
    uuid: str | None
    vf: str | None
    placement_id: int | None
    framebuffer_mib: int | None
    state: str
    holder: str | None
    origin: str | None


def rows(view: HostView) -> tuple[VgpuRow, ...]:
    """All vGPUs of a host: the ledger's entries, claims without an entry, and what is foreign."""
    found: list[VgpuRow] = []
    for entry in view.snapshot.ledger or ():
        found.append(_entry_row(view, entry))
    for gpu in view.snapshot.gpus:
        for vgpu in gpu.vgpus:
            if view.snapshot.ledger is None or view.snapshot.entry_of(gpu, vgpu) is None:
                found.append(_foreign_row(view, gpu, vgpu))
    for domain in view.domains:
        for claim in domain.claims.claims if domain.claims else ():
            if not any(entry.slot == claim.slot for entry in view.entries(domain.uuid)):
                found.append(_claim_row(view, domain, claim))
    return tuple(sorted(found, key=_order))


def _order(row: VgpuRow) -> tuple[str, bool, str, tuple[str, int, str], str, str]:
    slot = names.slot_order(row.slot) if row.slot else ("", -1, "")
    return row.host, row.vm is None, row.vm or "", slot, row.gpu or "", row.vf or row.uuid or ""


def _entry_row(view: HostView, entry: LedgerEntry) -> VgpuRow:
    vgpu = view.snapshot.vgpu_of(entry)
    gpu = view.snapshot.gpu_by_uuid(entry.gpu_uuid)
    domain = view.domain(entry.vm_uuid)
    claim = domain.claim(entry.slot) if domain else None
    kind = (gpu.types or {}).get(entry.type_id) if gpu else None
    return VgpuRow(
        vm=domain.name if domain else entry.vm_name,
        slot=entry.slot,
        host=view.snapshot.host,
        gpu=gpu.pci if gpu else entry.gpu,
        board=gpu.board if gpu else None,
        profile=_asked(claim),
        type_id=entry.type_id,
        type_name=entry.type_name,
        framework=gpu.framework if gpu else None,
        uuid=entry.uuid,
        vf=entry.parent if entry.vf_index is not None else None,
        placement_id=vgpu.placement_id if vgpu else None,
        framebuffer_mib=kind.size_mib if kind else None,
        state=_state(view, entry, vgpu, domain),
        holder=observed.holder_name(view, vgpu) if vgpu else None,
        origin=OURS,
    )


def _state(view: HostView, entry: LedgerEntry, vgpu: Vgpu | None, domain: Domain | None) -> str:
    claim = domain.claim(entry.slot) if domain else None
    if domain is not None and (domain.problem or domain.claim_problem):
        return "unknown"
    if claim is None:
        return "lost"
    if claim.state == claims.PENDING:
        return "made" if entry.state == "made" and vgpu is not None else "pending"
    if view.snapshot.may_be_hidden(entry):
        return "unknown"
    if vgpu is None or vgpu.type_id != entry.type_id:
        return "gone"
    if observed.holder_name(view, vgpu) is not None:
        return "in_use"
    if view.snapshot.handles is None or view.snapshot.active is None:
        return "unknown"  # nobody is seen to hold it, by half of the evidence
    if domain is not None and domain.active:
        return "pending_restart"
    return "bound"


def _foreign_row(view: HostView, gpu: Gpu, vgpu: Vgpu) -> VgpuRow:
    kind = (gpu.types or {}).get(vgpu.type_id) if vgpu.type_id is not None else None
    users = [
        domain.name
        for domain in view.domains
        if any(observed.is_device(vgpu, item.uuid, item.pci) for item in domain.mentioned)
    ]
    return VgpuRow(
        vm=users[0] if len(users) == 1 else None,
        slot=None,
        host=view.snapshot.host,
        gpu=gpu.pci,
        board=gpu.board,
        profile=None,
        type_id=vgpu.type_id,
        type_name=vgpu.type_name,
        framework=gpu.framework,
        uuid=vgpu.uuid,
        vf=vgpu.parent if vgpu.vf_index is not None else None,
        placement_id=vgpu.placement_id,
        framebuffer_mib=kind.size_mib if kind else None,
        state="unknown" if view.snapshot.ledger is None else "foreign",
        holder=observed.holder_name(view, vgpu),
        origin=None if view.snapshot.ledger is None else FOREIGN,
    )


def _claim_row(view: HostView, domain: Domain, claim: Claim) -> VgpuRow:
    gpu = view.snapshot.gpu_by_uuid(claim.binding.gpu_uuid)
    kind = (gpu.types or {}).get(claim.binding.type_id) if gpu else None
    unknown = view.snapshot.ledger is None or domain.copied or view.snapshot.may_be_hidden(claim.binding)
    state = "unknown" if unknown else "gone"
    if claim.state == claims.PENDING and state == "gone":
        state = "pending"
    return VgpuRow(
        vm=domain.name,
        slot=claim.slot,
        host=view.snapshot.host,
        gpu=gpu.pci if gpu else None,
        board=gpu.board if gpu else None,
        profile=_asked(claim),
        type_id=claim.binding.type_id,
        type_name=claim.binding.type_name,
        framework=gpu.framework if gpu else None,
        uuid=claim.binding.uuid,
        vf=claim.binding.parent if claim.binding.vf_index is not None else None,
        placement_id=None,
        framebuffer_mib=kind.size_mib if kind else None,
        state=state,
        holder=None,
        origin=OURS,
    )


def _asked(claim: Claim | None) -> str | None:
    return claim.wish.profile.text if claim and claim.wish.profile else None


def findings(view: HostView) -> tuple[Finding, ...]:
    """What is odd on a host and needs a person: copied, moved, lost, reverted, gone and half-done claims; unreadable VMs."""
    found: list[Finding] = []
    for domain in view.domains:
        found += _domain_findings(view, domain)
    known = {domain.uuid for domain in view.domains}
    for entry in view.snapshot.ledger or ():
        if entry.vm_uuid not in known:
            found.append(
                _finding(
                    view,
                    entry.vm_name,
                    entry.slot,
                    "lost",
                    f"the ledger has {entry.type_name} on {entry.parent} for {entry.vm_name} ({entry.vm_uuid}), a VM that this host no longer has",
                )
            )
    return tuple(found)


def _domain_findings(view: HostView, domain: Domain) -> list[Finding]:
    if domain.problem or domain.claim_problem:
        why = domain.problem or f"its claim cannot be read: {domain.claim_problem}"
        return [_finding(view, domain.name, None, "unreadable", f"{domain.name}: {why}")]
    if domain.copied:
        assert domain.claims is not None
        text = f"{domain.name} carries a copy of the claim of VM {domain.claims.vm}: `vgpumgr detach {domain.name}` takes it out"
        return [_finding(view, domain.name, None, "copied", text)]
    found: list[Finding] = []
    for claim in domain.claims.claims if domain.claims else ():
        found += _claim_findings(view, domain, claim)
    for entry in view.entries(domain.uuid):
        if domain.claim(entry.slot) is None:
            text = (
                f"the ledger has {entry.type_name} on {entry.parent} for {domain.name} slot {entry.slot}, and the VM has no claim: "
                f"attach it again with that profile, or `vgpumgr detach {domain.name} --slot {entry.slot}`"
            )
            found.append(_finding(view, domain.name, entry.slot, "lost", text))
    return found


def _claim_findings(view: HostView, domain: Domain, claim: Claim) -> list[Finding]:
    name, slot = domain.name, claim.slot
    again = f"vgpumgr attach {name} {profiles.describe(claim.wish)} --slot {slot}"
    if view.snapshot.machine is not None and claim.binding.host != view.snapshot.machine:
        text = f"{name} slot {slot} is bound on another host (machine-id {claim.binding.host}): `{again} --replace`"
        return [_finding(view, name, slot, "moved", text)]
    entries = view.entries(domain.uuid, slot)
    if entries and claim.generation < entries[-1].generation:
        text = f"{name} slot {slot} went back to an older definition (a snapshot or a restore?): `{again}` mends it"
        return [_finding(view, name, slot, "reverted", text)]
    if claim.state == claims.PENDING:
        return [
            _finding(
                view, name, slot, "pending", f"an attach of {name} slot {slot} has not ended: `{again}` finishes it"
            )
        ]
    if claim.state == claims.LEAVING:
        text = f"a detach of {name} slot {slot} has not ended: `vgpumgr detach {name} --slot {slot}` finishes it"
        return [_finding(view, name, slot, "leaving", text)]
    found: list[Finding] = []
    hidden = view.snapshot.may_be_hidden(entries[-1] if entries else claim.binding)
    if not hidden and (not entries or view.snapshot.vgpu_of(entries[-1]) is None):
        found.append(
            _finding(view, name, slot, "gone", f"the vGPU of {name} slot {slot} is gone (a reboot?): `{again}`")
        )
    if entries:
        found += attaching.attach_findings(view, domain, slot, plan.spec_of_entry(entries[-1]))
    return found


def _finding(view: HostView, vm: str, slot: Slot | None, kind: str, text: str) -> Finding:
    return Finding(kind=kind, host=view.snapshot.host, vm=vm, slot=slot, text=text)
