"""vGPUs that are ours although the ledger has no entry for them: claim, hardware and definition agree.

A ledger can be lost (disk failure, restore, manual deletion). A claim that was bound on this machine still says which
vGPU is the VM's. If the hardware is that very vGPU and only this VM's definition names it, it is entered again
(EnterVgpu), and nothing is created twice. If they disagree, the user decides. The user also decides about a virtual
function without an mdev, because any tool may have set its type.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal, TypeGuard

from vgpumgr import names
from vgpumgr.core.commands import command
from vgpumgr.core.evidence import sharing
from vgpumgr.core.model import claims
from vgpumgr.core.model.snapshot import MDEV_PF, NO_TYPE, VENDOR_VFIO, Freed
from vgpumgr.core.model.vgpu import MADE, LedgerEntry, Mdev, Vf, VgpuSpec
from vgpumgr.core.model.view import Finding
from vgpumgr.wording import Option, joined, say

if TYPE_CHECKING:
    from collections.abc import Iterator

    from vgpumgr.core.model.claims import Claim
    from vgpumgr.core.model.domain_xml import Domain
    from vgpumgr.core.model.functions import Vgpu
    from vgpumgr.core.model.snapshot import Gpu, HostSnapshot
    from vgpumgr.core.model.view import HostView
    from vgpumgr.names import Slot, VmUuid

LEDGER = "/var/lib/vgpumgr/ledger.json"

GONE: Final = "gone"  # nothing is there, or what is there is not ours
HIDDEN: Final = "hidden"  # its GPU may be one whose UUID cannot be read


@dataclass(frozen=True, slots=True, kw_only=True)
class Unentered:
    """The hardware of a claim that has no ledger entry; `spec` names it by its current addresses.

    `doubts`: the disagreements of claim, hardware and definition, in words. Without any, it is proved to be ours.
    """

    vgpu: Vgpu
    spec: VgpuSpec
    doubts: tuple[str, ...]


Standing = Unentered | Literal["gone", "hidden"]
"""The evidence for a claim that has no ledger entry."""


def standing(view: HostView, domain: Domain, claim: Claim) -> Standing | None:
    """The evidence for a claim without a ledger entry.

    None if the claim has an entry or belongs to another VM or host, or if the ledger or the VM cannot be read.
    """
    if not _is_unentered(view, domain, claim):
        return None
    binding = claim.binding
    if view.snapshot.may_be_hidden(binding):
        return HIDDEN
    hardware = _hardware(view, claim)
    if hardware is None or view.snapshot.entry_of(*hardware) is not None:
        return GONE
    gpu, vgpu = hardware
    if gpu.uuid is None:
        return HIDDEN
    # Use its current address: after cards were moved, the one in its claim is another function's.
    others = sharing.namers(view, vgpu.device, but=domain.uuid)
    is_named = any(device.source == vgpu.device for device in domain.inactive)
    if isinstance(binding.device, Vf) and not is_named and (others or claim.state != claims.BOUND):
        # A VF's vGPU has only its address for an identity: it is the others', or nothing shows that it is the claim's.
        return GONE
    doubts = [*_doubts(domain, claim, gpu, vgpu)]
    if isinstance(binding.device, Vf):
        # Anyone who may edit the VM can set claim, definition and type; only we choose an mdev's UUID.
        doubts.append("a virtual function does not say whose it is")
    if not is_named:
        doubts.append(say("the definition of {} does not name it", domain.name))
    if others:
        doubts.append(say("it is also in {}", sharing.in_words(others)))
    spec = spec_of(
        domain,
        claim.slot,
        gpu,
        vgpu,
        generation=claim.generation,
        type_id=gpu.id_today(binding.type_id, binding.type_name),
        type_name=binding.type_name,
    )
    return Unentered(vgpu=vgpu, spec=spec, doubts=tuple(doubts))


def _doubts(domain: Domain, claim: Claim, gpu: Gpu, vgpu: Vgpu) -> Iterator[str]:
    """The disagreements of a claim and its hardware, in words."""
    binding = claim.binding
    has_moved = isinstance(binding.device, Vf) and vgpu.device != binding.device
    if claim.state != claims.BOUND:
        yield f"its claim is {claim.state}, not bound"
    if has_moved or (gpu.uuid, vgpu.vf_index) != (binding.gpu_uuid, binding.vf_index):
        yield f"it is on {vgpu.parent}, but its claim says {binding.parent}"
    if not vgpu.is_of(binding):
        yield f"it is {vgpu.type_name or 'of a type that cannot be read'}, but its claim says {binding.type_name}"
    if not _is_computed(domain, claim):
        yield "its UUID is not the one that vgpumgr computes for that slot"


def _is_computed(domain: Domain, claim: Claim) -> bool:
    """Whether an mdev's UUID is the one computed for that VM's slot. True for a VF, which has no UUID."""
    device = claim.binding.device
    mine = names.compute_mdev_uuid(domain.uuid, claim.slot, claim.generation)
    return not isinstance(device, Mdev) or device == Mdev(mine)


def spec_of(
    domain: Domain, slot: Slot, gpu: Gpu, vgpu: Vgpu, *, generation: int, type_id: int, type_name: str
) -> VgpuSpec:
    """Describes an existing vGPU as the one of that slot. The GPU's UUID has to be known."""
    assert gpu.uuid is not None
    return VgpuSpec(
        vm=domain.uuid,
        vm_name=domain.name,
        slot=slot,
        generation=generation,
        gpu_uuid=gpu.uuid,
        gpu=gpu.pci,
        vf_index=vgpu.vf_index,
        parent=vgpu.parent,
        uuid=vgpu.uuid,
        type_id=type_id,
        type_name=type_name,
        placement_id=gpu.placement_of(vgpu),
        mig=gpu.mig_place_of(vgpu),
    )


def _is_unentered(view: HostView, domain: Domain, claim: Claim) -> bool:
    if view.snapshot.ledger is None or domain.problem or domain.claim_problem or domain.copied:
        return False
    return claim.binding.host == view.snapshot.machine and not any(
        entry.vgpu.generation >= claim.generation for entry in view.entries(domain.uuid, claim.slot)
    )


def _hardware(view: HostView, claim: Claim) -> tuple[Gpu, Vgpu] | None:
    """A claim's vGPU: the mdev with the claim's UUID, wherever it is; or the vGPU of the claim's type on its VF."""
    binding = claim.binding
    if isinstance(binding.device, Mdev):
        return view.snapshot.find(binding.device)
    gpu, vgpu = view.snapshot.gpu_by_uuid(binding.gpu_uuid), view.snapshot.vgpu_of(binding)
    if gpu is None or vgpu is None or not vgpu.is_of(binding):
        return None
    return gpu, vgpu


def cannot_come_back(facts: HostSnapshot, ours: VgpuSpec) -> bool:
    """Whether the driver or kernel has changed so that a missing vGPU of ours cannot be made as it was.

    Its GPU has another framework now, or the driver takes it for another board.
    """
    gpu = facts.gpu_by_uuid(ours.gpu_uuid)
    if gpu is None or gpu.framework is None or facts.vgpu_of(ours) is not None:
        return False
    return is_of_other_framework(gpu, ours) or ours.type_id == NO_TYPE


def is_of_other_framework(gpu: Gpu, ours: VgpuSpec | claims.Binding) -> bool:
    """Whether the GPU makes vGPUs in another way now than ours was made. False while it makes none."""
    was = isinstance(ours.device, Vf), ours.vf_index is None
    return gpu.framework is not None and was != (gpu.framework == VENDOR_VFIO, gpu.framework == MDEV_PF)


def strays_to(snapshot: HostSnapshot, ours: VgpuSpec) -> str | None:
    """The PCI address of an entry's mdev, if the mdev is not at the entry's place; else None."""
    device = ours.device
    hardware = snapshot.find(device) if isinstance(device, Mdev) else None
    if hardware is None or (hardware[0].uuid, hardware[1].vf_index) == (ours.gpu_uuid, ours.vf_index):
        return None
    return hardware[1].parent


def is_reverted(view: HostView, domain: Domain, claim: Claim) -> bool:
    """Whether the definition is older than the ledger (a snapshot, a restore): that vGPU is no longer wanted.

    A claim without hardware and entry is reverted only if the ledger says that its vGPU was freed. Otherwise the ledger
    or the entry was lost, and the host has booted since: the vGPU is still wanted.
    """
    if is_behind(view, domain, claim):
        return True
    stands = standing(view, domain, claim) if claim.state == claims.BOUND else None
    if stands != GONE:
        return False
    freed = Freed(vm_uuid=domain.uuid, slot=claim.slot, generation=claim.generation)
    return freed in view.snapshot.freed


def is_behind(view: HostView, domain: Domain, claim: Claim) -> bool:
    """Whether the ledger has a later vGPU of the claim's slot: the claim is from an older definition."""
    return any(entry.vgpu.generation > claim.generation for entry in view.entries(domain.uuid, claim.slot))


def has_nothing(view: HostView, domain: Domain, claim: Claim) -> bool:
    """Whether a bound claim has neither hardware nor a ledger entry, and its vGPU was not freed."""
    bound = claim.state == claims.BOUND and standing(view, domain, claim) == GONE
    return bound and not is_reverted(view, domain, claim)


def lacks_entry(view: HostView, domain: Domain, claim: Claim) -> bool:
    """Whether there is a ledger, and a bound claim's vGPU is neither in it nor on the host.

    Such a claim was restored or written by hand, as anyone who may edit the VM can do. It is only a request: nothing
    is made for it until an operator requests that on this host. Without a ledger, the claims are the only record of
    what existed.
    """
    return view.snapshot.ledger_file and has_nothing(view, domain, claim)


def is_of_earlier_boot(snapshot: HostSnapshot, entry: LedgerEntry) -> bool:
    """Whether an entry is from an earlier boot, but there is hardware at its place: no vGPU survives a boot.

    So something else created it: mdevctl with our UUID, or somebody who set the same type on the VF by hand.
    """
    return bool(snapshot.boot) and entry.boot != snapshot.boot and snapshot.vgpu_of(entry.vgpu) is not None


def next_generation(view: HostView, domain: Domain, slot: Slot) -> int:
    """The next generation of a slot: later than its claim and entries, and with a UUID that is unused on the host."""
    claim = domain.claim(slot)
    used = [entry.vgpu.generation for entry in view.entries(domain.uuid, slot)] + ([claim.generation] if claim else [])
    generation = max(used, default=0) + 1
    while _is_taken(view, domain.uuid, Mdev(names.compute_mdev_uuid(domain.uuid, slot, generation))):
        generation += 1
    return generation


def _is_taken(view: HostView, vm: VmUuid, mdev: Mdev) -> bool:
    is_entered = any(row.vgpu.vm != vm for row in view.snapshot.entries.of_device(mdev))
    return is_entered or view.snapshot.find(mdev) is not None


def entry_of(view: HostView, spec: VgpuSpec) -> LedgerEntry:
    """The entry that the ledger will have once the vGPU is entered."""
    return LedgerEntry(vgpu=spec, boot=view.snapshot.boot, state=MADE)


def all_standings(view: HostView) -> list[tuple[Domain, Claim, Standing]]:
    """Every claim of the host that has no ledger entry, with its VM and its evidence; by the VMs' names."""
    rows = [
        (domain, claim, stands)
        for domain in view.domains
        for claim in (domain.claims.claims if domain.claims else ())
        if (stands := standing(view, domain, claim)) is not None
    ]
    return sorted(rows, key=lambda row: row[0].name)


def proved(view: HostView) -> tuple[VgpuSpec, ...]:
    """Every vGPU that can be entered again, because claim, hardware and definition agree."""
    return tuple(stands.spec for _, _, stands in all_standings(view) if is_proved(stands))


def is_proved(found: Standing) -> TypeGuard[Unentered]:
    """Whether claim, hardware and definition agree."""
    return isinstance(found, Unentered) and not found.doubts


def missing_ledger(view: HostView) -> tuple[Finding, ...]:
    """One finding if bound claims name a host whose ledger is missing; it lists what can be entered again."""
    if view.snapshot.ledger_file:
        return ()
    rows = [row for row in all_standings(view) if row[1].state == claims.BOUND]
    if not rows:
        return ()
    host = view.snapshot.host
    slots = [say("{} {}", domain.name, claim.slot) for domain, claim, one in rows if is_proved(one)]
    rest = [say("{} {}", domain.name, claim.slot) for domain, claim, one in rows if not is_proved(one)]
    count = "a bound claim names" if len(rows) == 1 else f"{len(rows)} bound claims name"
    text = say("{}: its ledger, {}, is missing, but {} this host", host, LEDGER, count)
    if slots:
        enter = command("adopt", host)
        text = say("{}; `{}` or the next reconcile will re-enter: {}", text, enter, joined(", ", slots))
    if rest:
        text = say("{}; not proved: {}", text, joined(", ", rest))
    return (Finding(kind="ledger-missing", host=host, text=text),)


def way_out(view: HostView, domain: Domain, claim: Claim, found: Unentered) -> str:
    """What the user can do about hardware that is not proved to be the claim's."""
    host = view.snapshot.host
    others = sharing.namers(view, found.vgpu.device, but=domain.uuid)
    if others and not _is_computed(domain, claim):  # this claim names another VM's vGPU: it must go
        detach = command("detach", domain.name, slot=claim.slot, on=host)
        return say("`{}` removes the claim and keeps the vGPU", detach)
    if others:
        return sharing.ways_out(host, others)
    if any(device.source == found.vgpu.device for device in domain.inactive):
        return say("`{}` adopts it as it is", command("adopt", host, options=(str(found.spec.device),)))
    detach = command("detach", domain.name, slot=claim.slot, on=host)
    return say(
        "{} creates another vGPU and keeps this one; `{}` removes the claim and keeps the vGPU",
        Option("--replace"),
        detach,
    )
