"""What a running VM gets or loses at its next start: the vGPUs in which its live and its inactive definition differ.

A reboot inside the guest is no start: it keeps QEMU, and with it the live definition.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

from vgpumgr import names
from vgpumgr.core.model.view import Finding
from vgpumgr.wording import say

if TYPE_CHECKING:
    from collections.abc import Iterator

    from vgpumgr.core.model.domain_xml import Domain
    from vgpumgr.core.model.vgpu import Device, VgpuSpec
    from vgpumgr.core.model.view import HostView
    from vgpumgr.names import HostName, PciAddress, Slot, VmName, VmUuid

GETS: Final = "gets"
LOSES: Final = "loses"
YIELDS: Final = "yields"


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """A slot's vGPU that the VM gets or loses at its next start, or (`yields`) for which a task waits.

    `waits`: the tasks that wait for it, each with its reason, in words; None if none does.
    """

    slot: Slot
    does: Literal["gets", "loses", "yields"]
    device: Device
    type_name: str
    parent: PciAddress
    waits: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Waiting:
    """A VM whose vGPUs change at its next start, or whose shutdown a task waits for."""

    vm: VmName
    vm_uuid: VmUuid
    host: HostName
    slots: tuple[Change, ...]


def waiting(view: HostView) -> tuple[Waiting, ...]:
    """The host's VMs that wait for a restart, by name."""
    per_vm = (
        (domain, tuple(sorted(changes(view, domain), key=lambda change: names.slot_order(change.slot))))
        for domain in view.domains
    )
    rows = (
        Waiting(vm=domain.name, vm_uuid=domain.uuid, host=view.snapshot.host, slots=slots)
        for domain, slots in per_vm
        if slots
    )
    return tuple(sorted(rows, key=lambda row: names.slot_order(row.vm)))


def changes(view: HostView, domain: Domain) -> Iterator[Change]:
    """What the VM's next start changes; nothing for a VM that is off, transient or unreadable.

    Only vGPUs count that the ledger or a claim names for the VM. A vGPU that the VM gets must exist.
    """
    if domain.live is None or not domain.persistent or domain.problem is not None:
        return
    live = {device.source for device in domain.live}
    inactive = {device.source for device in domain.inactive}
    for slot, device, type_name, parent in _ours(view, domain):
        if device in inactive and device not in live and view.snapshot.find(device) is not None:
            yield Change(slot=slot, does=GETS, device=device, type_name=type_name, parent=parent)
        elif device in live and device not in inactive:
            yield Change(slot=slot, does=LOSES, device=device, type_name=type_name, parent=parent)


def changes_of(view: HostView, domain: Domain, device: Device) -> Change | None:
    """What the VM's next start changes about one vGPU."""
    return next((change for change in changes(view, domain) if change.device == device), None)


def _ours(view: HostView, domain: Domain) -> Iterator[tuple[Slot, Device, str, PciAddress]]:
    """The VM's vGPUs by its ledger entries and, where those lack one, by its claims."""
    devices: set[Device] = set()
    for entry in view.entries(domain.uuid):
        if entry.vgpu.device not in devices:
            devices.add(entry.vgpu.device)
            yield entry.vgpu.slot, entry.vgpu.device, entry.vgpu.type_name, entry.vgpu.parent
    if domain.claims is None or domain.copied:
        return
    for claim in domain.claims.claims:
        if claim.binding.device not in devices and claim.binding.host == view.snapshot.machine:
            devices.add(claim.binding.device)
            yield claim.slot, claim.binding.device, claim.binding.type_name, claim.binding.parent


def findings(view: HostView, domain: Domain) -> Iterator[Finding]:
    """One finding for each change that the VM's next start makes."""
    for change in changes(view, domain):
        yield finding(view, domain, change)


def finding(view: HostView, domain: Domain, change: Change) -> Finding:
    """The finding for a change that waits for the VM's next start."""
    what = f"{change.type_name} on {change.parent} (slot {change.slot})"
    text = (
        say(
            "pending restart: {} runs without {}, and gets it when it is shut down and started again", domain.name, what
        )
        if change.does == GETS
        else say(
            "pending restart: {} runs with {}, which its definition no longer has, and loses it when it is shut down",
            domain.name,
            what,
        )
    )
    return Finding(kind="pending-restart", host=view.snapshot.host, vm=domain.name, slot=change.slot, text=text)


def planned(view: HostView, domain: Domain, vgpu: VgpuSpec) -> tuple[Finding, ...]:
    """A finding if a plan leaves the vGPU in the definition of a VM that runs without it."""
    if domain.live is None or any(one.source == vgpu.device for one in domain.live):
        return ()
    change = Change(slot=vgpu.slot, does=GETS, device=vgpu.device, type_name=vgpu.type_name, parent=vgpu.parent)
    return (finding(view, domain, change),)
