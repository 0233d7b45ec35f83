"""One device, one definition: who else names a vGPU, and how to resolve it.

A definition, a running VM, a managed-save image and a snapshot can each name a device. If two VMs name the same one,
the first to start gets it. The other does not start, or starts with another VM's vGPU (on a VF whose vGPU was freed and
re-created).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, TypeAlias

from vgpumgr.core.commands import command, virsh
from vgpumgr.core.evidence import cordons
from vgpumgr.core.model.snapshot import VENDOR_VFIO
from vgpumgr.core.model.vgpu import Mdev, Vf
from vgpumgr.core.model.view import Finding
from vgpumgr.wording import joined, say

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from vgpumgr.core.model.domain_xml import Domain, Hostdev
    from vgpumgr.core.model.vgpu import Device, VgpuSpec
    from vgpumgr.core.model.view import HostView
    from vgpumgr.names import HostName, PciAddress, Slot, VmUuid

KIND: Final = "shared"

Barred: TypeAlias = "Callable[[PciAddress], str | None]"
"""Why a PCI function must not be used, whatever is on it now, in words; None if it may."""


def none_barred(_pci: PciAddress) -> None:
    """The check that lets every function be used."""


_DEFINITION = "definition"
_ARGUMENTS = "QEMU arguments"
_RUNNING = "running"
_IMAGE = "managed-save image"
_SNAPSHOT = "snapshot"


@dataclass(frozen=True, slots=True, kw_only=True)
class Namer:
    """A document that names a device. `snapshot`: the snapshot's name, if the document is one.

    `domain`: None if the VM was not listed.
    """

    vm: VmUuid
    name: str
    what: str
    device: Hostdev
    domain: Domain | None
    snapshot: str | None = None

    @property
    def in_definition(self) -> bool:
        return self.what == _DEFINITION

    @property
    def can_start(self) -> bool:
        """Whether the VM would start with the device now, without a revert."""
        return self.what != _SNAPSHOT

    @property
    def text(self) -> str:
        """`the definition of vm02`, `snapshot base of vm02`."""
        match self.what:
            case "snapshot":
                return say("snapshot {} of {}", self.snapshot, self.name)
            case "running":
                return say("{}, which is running with it", self.name)
            case what:
                return say("the {} of {}", what, self.name)


def all_namers(view: HostView) -> Iterator[Namer]:
    """Every host device that any document names. Images and snapshots are included only if they were read."""
    for domain in sorted(view.domains, key=lambda item: item.name):
        yield from _of_domain(domain)
    for uuid in sorted(view.states, key=view.vm_name):
        yield from _of_saved(view, uuid)


def _of_domain(domain: Domain) -> Iterator[Namer]:
    for device in domain.inactive:
        yield Namer(vm=domain.uuid, name=domain.name, what=_DEFINITION, device=device, domain=domain)
    for device in domain.live or ():
        if not any(device.source == other.source for other in domain.inactive):
            yield Namer(vm=domain.uuid, name=domain.name, what=_RUNNING, device=device, domain=domain)
    for device in domain.arguments:
        yield Namer(vm=domain.uuid, name=domain.name, what=_ARGUMENTS, device=device, domain=domain)


def _of_saved(view: HostView, uuid: VmUuid) -> Iterator[Namer]:
    name, domain, saved = view.vm_name(uuid), view.domain(uuid), view.states[uuid]
    for device in saved.image or ():
        yield Namer(vm=uuid, name=name, what=_IMAGE, device=device, domain=domain)
    for snapshot, devices in saved.snapshots:
        for device in devices:
            yield Namer(vm=uuid, name=name, what=_SNAPSHOT, device=device, domain=domain, snapshot=snapshot)


def namers(view: HostView, device: Device, *, but: VmUuid | None) -> tuple[Namer, ...]:
    """The documents that name a vGPU, except those of the VM `but`; in the order of all_namers."""
    return tuple(
        namer
        for group in (
            *map(_of_domain, sorted(view.vms.naming(device), key=lambda item: item.name)),
            *(_of_saved(view, uuid) for uuid in sorted(view.states.naming(device), key=view.vm_name)),
        )
        for namer in group
        if namer.vm != but and namer.device.source == device
    )


def in_words(found: Iterable[Namer]) -> str:
    return joined(", ", dict.fromkeys(namer.text for namer in found))


def way_out(host: HostName, namer: Namer) -> str:
    """The command that removes the device from this document."""
    match namer.what:
        case "snapshot":
            return say("`{}`", virsh("snapshot-delete", namer.name, namer.snapshot or ""))
        case "managed-save image":
            return say("start {}, or `{}`", namer.name, virsh("managedsave-remove", namer.name))
        case "running":
            return say("shut {} down", namer.name)
        case "QEMU arguments":
            return say("take it out of its <qemu:commandline> (`{}`)", virsh("edit", namer.name))
        case _:
            return _out_of_definition(host, namer)


def _out_of_definition(host: HostName, namer: Namer) -> str:
    vm_claims = namer.domain.claims if namer.domain is not None and namer.domain.claim_problem is None else None
    slot = namer.device.slot
    if vm_claims is not None and slot is not None and vm_claims.claim(slot) is not None:
        return say("`{}`", command("detach", namer.name, slot=slot if len(vm_claims.claims) > 1 else None, on=host))
    if namer.device.alias is not None and namer.device.alias.startswith("ua-"):  # libvirt keeps only user aliases
        return say("`{}`", virsh("detach-device-alias", namer.name, namer.device.alias, "--config"))
    return say("take its hostdev out (`{}`)", virsh("edit", namer.name))


def ways_out(host: HostName, found: Iterable[Namer]) -> str:
    return joined("; ", dict.fromkeys(way_out(host, namer) for namer in found))


def findings(view: HostView) -> tuple[Finding, ...]:
    """For each vGPU that several VMs name: a finding for the VM that owns it, and one for each of the others."""
    devices = {device for device in (*view.vms.named, *view.states.named) if _is_shared(view, device)}
    if not devices:
        return ()
    devices &= _known(view)
    by_device: dict[Device, list[Namer]] = {}
    for namer in all_namers(view):
        if namer.device.source in devices:
            by_device.setdefault(namer.device.source, []).append(namer)
    return tuple(finding for device, group in by_device.items() for finding in _of_device(view, device, group))


def _is_copy(namer: Namer) -> bool:
    return namer.domain is not None and namer.domain.copied


def _of_device(view: HostView, device: Device, group: Sequence[Namer]) -> Iterator[Finding]:
    owner = _owner(view, device)
    if owner is None and len({namer.vm for namer in group}) > 1:
        # A snapshot alone makes no VM the owner; the first VM that has the device now is.
        owner = next((namer.vm for namer in group if namer.what != _SNAPSHOT), group[0].vm)
    others = [namer for namer in group if namer.vm != owner]
    if owner is None or not others:
        return
    host, name = view.snapshot.host, view.vm_name(owner)
    reverts = all(namer.what == _SNAPSHOT for namer in others)
    fate = "a revert would put it into two definitions" if reverts else "the first to start gets it"
    docs, ways = in_words(others), ways_out(host, others)
    yield _finding(view, name, say("{}: its vGPU ({}) is also in {}; {}: {}", name, device.text, docs, fate, ways))
    by_vm: dict[VmUuid, list[Namer]] = {}
    for namer in others:
        if not _is_copy(namer):  # a copy has a finding of its own, with the command that removes the device
            by_vm.setdefault(namer.vm, []).append(namer)
    for vm, mine in by_vm.items():
        other, ways = view.vm_name(vm), ways_out(host, mine)
        text = say("{} names the vGPU of {} ({}) in {}: {}", other, name, device.text, in_words(mine), ways)
        yield _finding(view, other, text)


def passed_through(view: HostView) -> tuple[Finding, ...]:
    """A finding for each GPU that is passed through to a VM and also has vGPUs, or will have them again."""
    findings: list[Finding] = []
    for gpu in view.snapshot.gpus:
        rows = [(pci, namer) for pci in gpu.own_functions for namer in namers(view, Vf(pci), but=None)]
        groups = view.snapshot.entries.on(gpu.uuid).values()
        ours = sorted({entry.vgpu.vm_name for entries in groups for entry in entries})
        if not rows or not (ours or gpu.vgpus):
            continue
        whose = say("the vGPUs of {}", joined(", ", ours)) if ours else "vGPUs that are not ours"
        which = ", ".join(dict.fromkeys(pci for pci, _ in rows))
        text = say(
            "{} is in {}, and {} are on GPU {}: libvirt takes the GPU from the nvidia driver when that VM starts, and they "
            "are lost: {}",
            which,
            in_words(namer for _, namer in rows),
            whose,
            gpu.pci,
            ways_out(view.snapshot.host, [namer for _, namer in rows]),
        )
        findings.append(_finding(view, rows[0][1].name, text))
    return tuple(findings)


def in_one_group(view: HostView) -> tuple[Finding, ...]:
    """One finding for each IOMMU group with vGPUs of several VMs: VFIO gives the whole group to one VM at a time."""
    groups: dict[str, dict[VgpuSpec | None, PciAddress]] = {}
    for gpu in view.snapshot.gpus:
        for group, parents in gpu.functions.by_group.items():
            for vgpu in (vgpu for parent in parents for vgpu in parent.vgpus):
                entry = view.snapshot.entry_of(gpu, vgpu)
                groups.setdefault(group, {})[None if entry is None else entry.vgpu] = vgpu.parent
    findings: list[Finding] = []
    for group, members in groups.items():
        ours = sorted((one for one in members if one is not None), key=lambda one: (one.vm_name, one.slot))
        names = [*dict.fromkeys(one.vm_name for one in ours), *(["somebody else"] if None in members else [])]
        if not ours or len(names) < 2:
            continue
        last = ours[-1]
        free = command("detach", last.vm_name, slot=last.slot, on=view.snapshot.host)
        text = say(
            "{} and {} have vGPUs in one IOMMU group ({}: {}), which VFIO gives to one VM at a time: while one runs, the "
            "others do not start. `{}`, and attach it again: it gets another place",
            joined(", ", names[:-1]),
            names[-1],
            group,
            ", ".join(sorted(members.values())),
            free,
        )
        findings.append(_finding(view, last.vm_name, text))
    return tuple(findings)


def of_hardware(view: HostView) -> tuple[Finding, ...]:
    """Findings about VMs that name different devices, but still cannot have them at the same time."""
    return (*passed_through(view), *in_one_group(view))


def findings_of(view: HostView, vm: VmUuid) -> tuple[Finding, ...]:
    """The findings about shared vGPUs for one VM. All findings are computed only if this VM shares a device."""
    domain, saved = view.domain(vm), view.states.get(vm)
    devices = {entry.vgpu.device for entry in view.entries(vm)}
    if domain is not None:
        devices |= {device.source for device in domain.mentioned}
        devices |= {claim.binding.device for claim in domain.claims.claims} if domain.claims else set()
    if saved is not None:
        devices |= {device.source for device in saved.image or ()}
        devices |= {device.source for _, named in saved.snapshots for device in named}
    if not any(_is_shared(view, device) for device in devices):
        return ()
    return tuple(finding for finding in findings(view) if finding.vm == view.vm_name(vm))


def _is_shared(view: HostView, device: Device) -> bool:
    """Whether several VMs name the device, or one VM does while another owns it."""
    in_definitions, in_saved = view.vms.uuids_naming(device), view.states.naming(device)
    if not in_definitions and not in_saved:
        return False
    vms = {*in_definitions, *in_saved}
    return len(vms) > 1 or _owner(view, device) not in (None, *vms)


def _known(view: HostView) -> set[Device]:
    """The devices that can be vGPUs here: mdevs that exist, are in the ledger or are claimed; vendor-vfio's VFs."""
    devices: set[Device] = {vgpu.device for gpu in view.snapshot.gpus for vgpu in gpu.vgpus}
    devices |= {entry.vgpu.device for entry in view.snapshot.entries}
    devices |= view.vms.claimed
    vfs: set[Device] = {
        Vf(parent.pci)
        for gpu in view.snapshot.gpus
        if gpu.framework == VENDOR_VFIO
        for parent in gpu.parents
        if parent.vf_index is not None
    }
    return {device for device in devices if isinstance(device, Mdev)} | vfs


def _owner(view: HostView, device: Device) -> VmUuid | None:
    """The VM that owns a device by the ledger, else by a claim on this host that is not a copy; None if none does."""
    entries = view.snapshot.entries.of_device(device)
    if entries:
        return entries[-1].vgpu.vm
    return next(
        (
            domain.uuid
            for domain in view.vms.claiming(device)
            if domain.claims is not None and not domain.copied
            for claim in domain.claims.claims
            if claim.binding.host == view.snapshot.machine and claim.binding.device == device
        ),
        None,
    )


def _finding(view: HostView, vm: str, text: str) -> Finding:
    return Finding(kind=KIND, host=view.snapshot.host, vm=vm, text=text)


def barred_functions(view: HostView, *, but: tuple[VmUuid, Slot] | None = None) -> Barred:
    """A check that says why nothing new is created on a PCI function, or None if something may be.

    Barred are functions that are kept free (cordons.py) or that a document names: a definition, running VM, saved
    image or snapshot. `but`: a VM's slot whose device does not count. That VM's snapshots do not count either, because
    a revert restores what the VM had.
    """
    defined, saved, kept_free = view.vms.named, view.states.named, cordons.kept_free(view)

    def why_not(pci: PciAddress) -> str | None:
        if pci in kept_free:
            return kept_free[pci]
        device = Vf(pci)
        if device not in defined and device not in saved:
            return None
        return next(
            (
                say("in {}", namer.text)
                for namer in namers(view, device, but=None)
                if but is None or namer.vm != but[0] or (namer.snapshot is None and namer.device.slot != but[1])
            ),
            None,
        )

    return why_not
