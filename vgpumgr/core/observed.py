"""Everything that was read about one host, joined: the host program's facts and libvirt's domains."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from vgpumgr.core.domain_xml import Domain, Saved
    from vgpumgr.core.names import HostName, MdevUuid, PciAddress, Slot, VmUuid
    from vgpumgr.core.snapshot import Active, HostSnapshot, LedgerEntry, Vgpu


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """Something a person should know; it never changes the exit code. `kind` is one word for scripts."""

    kind: str
    host: HostName | None
    vm: str | None
    slot: Slot | None
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class HostView:
    """`libvirt_version` as libvirt counts: 9000000 is 9.0.0.

    `saved` is what could come back, of the VMs that have a managed-save image or snapshots. None: it was not read, since
    only what frees a vGPU needs it. Two things the inventory says of the host: `excluded_vfs`, on which nothing new is made,
    and `even_if_it_will_not_start`, whether a vGPU is made that no VM can start with.
    """

    snapshot: HostSnapshot
    domains: tuple[Domain, ...]
    libvirt_version: int
    saved: Mapping[VmUuid, Saved] | None = None
    excluded_vfs: frozenset[PciAddress] = frozenset()
    even_if_it_will_not_start: bool = False

    def domain(self, uuid: VmUuid) -> Domain | None:
        return next((domain for domain in self.domains if domain.uuid == uuid), None)

    def vm_name(self, uuid: VmUuid) -> str:
        """The VM's name, or its UUID where it was defined since the domains were read."""
        domain = self.domain(uuid)
        return domain.name if domain else uuid

    def entries(self, vm: VmUuid, slot: Slot | None = None) -> tuple[LedgerEntry, ...]:
        """The ledger's entries of a VM, oldest generation first."""
        found = [entry for entry in self.snapshot.ledger or () if entry.vm_uuid == vm and slot in (None, entry.slot)]
        return tuple(sorted(found, key=lambda entry: (entry.slot, entry.generation)))


class Unread(str):
    """A line of evidence that could not be read: it counts as use, and says nothing of anybody."""

    __slots__ = ()


class Device(Protocol):
    """What names a vGPU to libvirt: a ledger entry, a binding, or the vGPU itself."""

    @property
    def uuid(self) -> MdevUuid | None: ...
    @property
    def parent(self) -> PciAddress: ...


def is_device(device: Device, uuid: MdevUuid | None, pci: PciAddress | None) -> bool:
    """Whether an mdev UUID or a PCI address, as XML or NVML gives it, is this vGPU."""
    return uuid == device.uuid if device.uuid is not None else pci == device.parent


def holders(view: HostView, device: Device, vgpu: Vgpu | None, *, letting_go: VmUuid | None = None) -> tuple[str, ...]:
    """Who has a vGPU, in words; empty means that all evidence was read and nobody has.

    `vgpu` is the hardware, None where it is gone. `letting_go` is the domain whose *inactive* XML is about to lose the
    device: only what runs there counts. Cannot tell is a holder like any other: a line that says what could not be read.
    """
    found: list[str] = []
    for domain in view.domains:
        runs = _runs_with(domain, device)
        if runs is not None:
            found.append(runs)
        elif domain.uuid != letting_go and any(is_device(device, item.uuid, item.pci) for item in domain.inactive):
            found.append(f"VM {domain.name} has it in its definition")
    for uuid, saved in (view.saved or {}).items():
        if saved.image_problem is not None:
            found.append(
                Unread(f"cannot tell: the managed-save image of VM {view.vm_name(uuid)}: {saved.image_problem}")
            )
        elif any(is_device(device, item.uuid, item.pci) for item in saved.image or ()):
            found.append(f"VM {view.vm_name(uuid)} has it in its managed-save image")
    return (*found, *(_using(view, device, vgpu) if vgpu is not None else ()))


def users(view: HostView, device: Device, vgpu: Vgpu) -> tuple[str, ...]:
    """Who uses a vGPU now, in words: what counts where the same device comes back, so that definitions stay true."""
    running = [line for domain in view.domains if (line := _runs_with(domain, device)) is not None]
    return (*running, *_using(view, device, vgpu))


def _runs_with(domain: Domain, device: Device) -> str | None:
    if domain.problem is not None:
        return Unread(f"cannot tell: VM {domain.name}: {domain.problem}")
    if any(is_device(device, item.uuid, item.pci) for item in domain.live or ()):
        return f"VM {domain.name} is running with it"
    return None


def _using(view: HostView, device: Device, vgpu: Vgpu) -> Iterator[str]:
    """The evidence beside libvirt's: open handles, and what NVML lists as active."""
    snapshot = view.snapshot
    if snapshot.handles is None:
        yield Unread(f"cannot tell: open /dev/vfio handles: {why_unknown(snapshot, 'handles')}")
    if not vgpu.vfio:
        yield Unread("cannot tell: its /dev/vfio paths could not be read")
    for handle in snapshot.handles or ():
        if handle.path in vgpu.vfio:
            who = f"VM {handle.vm_name}" if handle.vm_name else handle.command
            yield f"{who} holds {handle.path} open (pid {handle.pid})"
    gpu = next((item for item in snapshot.gpus if vgpu in item.vgpus), None)
    why_silent = snapshot.why_silent(gpu.pci) if gpu else None
    if why_silent is not None:
        yield Unread(f"cannot tell: NVML's active vGPUs: {why_silent}")
    for active in snapshot.active or ():
        if is_device(device, active.uuid, active.vf):
            yield f"NVML lists it as active for VM {active.vm_name or active.vm_uuid or '?'}"
    for active in snapshot.active or ():
        if _may_be(view, active, vgpu):
            who = active.vm_name or active.vm_uuid or "?"
            yield f"cannot tell: NVML lists a vGPU of {active.gpu} as active for VM {who}, and not which"


def _may_be(view: HostView, active: Active, vgpu: Vgpu) -> bool:
    """Whether an active row that names no device may mean this vGPU.

    It does not where its VM has something of that GPU open: which, the handles say (two VFs of one VM, for example).
    """
    if active.uuid is not None or active.vf is not None:
        return False
    gpu = next((item for item in view.snapshot.gpus if vgpu in item.vgpus), None)
    if gpu is None or gpu.pci != active.gpu:
        return False
    open_there = {path for item in gpu.vgpus for path in item.vfio}
    return not any(
        handle.vm_uuid is not None and handle.vm_uuid == active.vm_uuid and handle.path in open_there
        for handle in view.snapshot.handles or ()
    )


def holder_name(view: HostView, vgpu: Vgpu) -> str | None:
    """The one name that a table shows: the VM that runs with the vGPU, else whoever holds it open."""
    for domain in view.domains:
        if any(is_device(vgpu, item.uuid, item.pci) for item in domain.live or ()):
            return domain.name
    for handle in view.snapshot.handles or ():
        if handle.path in vgpu.vfio:
            return handle.vm_name or f"{handle.command} ({handle.pid})"
    for active in view.snapshot.active or ():
        if is_device(vgpu, active.uuid, active.vf):
            return active.vm_name or active.vm_uuid
    return None


def why_unknown(snapshot: HostSnapshot, what: str) -> str:
    """The host program's own reason for an unknown."""
    return next((row.why for row in snapshot.unknown if row.what == what), "not read")
