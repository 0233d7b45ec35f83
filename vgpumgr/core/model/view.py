"""Everything that was read about one host, joined: the host program's facts and libvirt's domains."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from vgpumgr.core.driver.asking import SAME_SIZE
from vgpumgr.core.model.indexes import Domains, SavedStatesByVm
from vgpumgr.wording import Own, say

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from vgpumgr.core.driver.asking import FgpuUnits, Placement
    from vgpumgr.core.model.domain_xml import Domain, SavedStates
    from vgpumgr.core.model.functions import Vgpu
    from vgpumgr.core.model.snapshot import Active, Gpu, Handle, HostSnapshot
    from vgpumgr.core.model.vgpu import Device, LedgerEntry, VgpuSpec
    from vgpumgr.names import HostName, PciAddress, Slot, VmName, VmUuid


CANNOT_TELL = "cannot tell"  # begins each line about evidence that could not be read

FindingKind = Literal[
    "blocked-write",
    "claim-without-entry",
    "clock",
    "copied",
    "cordoned",
    "declared",
    "drift",
    "ending",
    "fabric",
    "foreign",
    "gone",
    "granted",
    "ill",
    "initramfs",
    "journal",
    "leaving",
    "ledger",
    "ledger-missing",
    "left-behind",
    "leftover",
    "lost",
    "lost-by-driver",
    "managed",
    "may-not-start",
    "modprobe",
    "moved",
    "no-such-mdev",
    "not-served",
    "nvml-silent",
    "other-board",
    "other-site",
    "pending",
    "pending-restart",
    "placements",
    "reverted",
    "saved-image",
    "scheduler",
    "shared",
    "silent",
    "stale",
    "undeclared",
    "unentered",
    "unexpected",
    "unknown-vm",
    "unreached",
    "unread",
    "unreadable",
    "unsure",
    "unusable-snapshot",
    "waiting",
    "will-not-start",
]
"""One word for scripts; later versions may add more."""

SERVED: frozenset[FindingKind] = frozenset({"gone", "drift", "pending", "lost", "leftover", "reverted", "unentered"})
"""Findings that the task of their slot resolves."""

STANDING: frozenset[FindingKind] = frozenset(
    {
        "cordoned",
        "fabric",
        "granted",
        "may-not-start",
        "no-such-mdev",
        "other-board",
        "pending-restart",
        "placements",
        "undeclared",
        "will-not-start",
    }
)
"""Findings that hold for as long as the host is unchanged: they are no news every night."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """Something the user should know; it never changes the exit code."""

    kind: FindingKind
    host: HostName | None
    vm: str | None = None
    slot: Slot | None = None
    text: str


_NO_SAVED_STATES = SavedStatesByVm()


@dataclass(frozen=True, slots=True, kw_only=True)
class GoneVm:
    """A VM that the host no longer has but its ledger still names: it has no definition, so no claim, and does not run."""

    name: VmName
    uuid: VmUuid

    active = False
    claims = None
    condition = "no longer defined"


@dataclass(frozen=True, slots=True, kw_only=True)
class HostView:
    """`libvirt_version` as libvirt encodes it: 9000000 is 9.0.0.

    `saved` is what could come back, for VMs that have a managed-save image or snapshots. None: it was not read, since only
    steps that free a vGPU need it. Four settings are the inventory's: `excluded_vfs`, on which nothing new is created,
    `even_if_it_will_not_start`, whether to create a vGPU that no VM can start with, `fgpu_per_gpu`, what one fGPU is on a board, and
    `policy`, which GPU a vGPU gets where a slot asks for no other.
    `planned`: the slots whose vGPUs were made by plans that this view comes from (core/simulate.py), and not read.
    """

    snapshot: HostSnapshot
    domains: tuple[Domain, ...]
    libvirt_version: int
    saved: Mapping[VmUuid, SavedStates] | None = None
    excluded_vfs: frozenset[PciAddress] = frozenset()
    even_if_it_will_not_start: bool = False
    fgpu_per_gpu: FgpuUnits = field(default_factory=dict)
    policy: Placement = SAME_SIZE
    planned: frozenset[tuple[VmUuid, Slot]] = field(default=frozenset(), compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "domains", Domains.of(self.domains))
        if self.saved is not None and not isinstance(self.saved, SavedStatesByVm):
            object.__setattr__(self, "saved", SavedStatesByVm(self.saved))

    @property
    def vms(self) -> Domains:
        """The domains, to be found by name or by what they name."""
        return self.domains if isinstance(self.domains, Domains) else Domains(self.domains)

    @property
    def states(self) -> SavedStatesByVm:
        """The saved states, to be found by what they name; none if they were not read."""
        return self.saved if isinstance(self.saved, SavedStatesByVm) else _NO_SAVED_STATES

    def domain(self, uuid: VmUuid) -> Domain | None:
        return self.vms.find(uuid)

    def vm_name(self, uuid: VmUuid) -> str:
        """The VM's name, or its UUID if it was defined after the domains were read."""
        domain = self.domain(uuid)
        return domain.name if domain else uuid

    def entries(self, vm: VmUuid, slot: Slot | None = None) -> tuple[LedgerEntry, ...]:
        """The ledger's entries of a VM, slot by slot, oldest generation first."""
        found = self.snapshot.entries.of_vm(vm)
        if slot is None:
            return found
        if len(found) == 1:  # nearly always, and planning asks often
            return found if found[0].vgpu.slot == slot else ()
        return tuple(entry for entry in found if entry.vgpu.slot == slot)


class Unread(str):
    """A line about evidence that could not be read: it counts as use, but names no user."""

    __slots__ = ()


class Named(str):
    """A line about a document that names the vGPU: it counts as use, and lasts until somebody changes the document."""

    __slots__ = ()


def ends(lines: Iterable[str]) -> bool:
    """Whether all these holders are running VMs and processes, so that the use ends with them."""
    return not any(isinstance(line, Unread | Named) for line in lines)


@dataclass(frozen=True, slots=True, kw_only=True)
class Holders:
    """Who has a vGPU, in words. Both empty: all evidence was read, and nothing has it.

    `lasting` holders lead to a refusal. `passing` ones end by themselves: a QEMU that is exiting, or a VM that is off but that
    NVML still lists (`listed`); the host program waits for them. Unreadable evidence counts as a holder, too: its line says
    what could not be read.
    """

    lasting: tuple[str, ...]
    passing: tuple[str, ...] = ()
    listed: bool = False


def holders(
    view: HostView, device: Device, vgpu: Vgpu | None, *, letting_go: VmUuid | None = None, unplugs: bool = False
) -> Holders:
    """Who has a vGPU.

    `vgpu` is the hardware, None if it is gone. `letting_go` is the domain whose *inactive* XML is about to lose the device:
    for that domain only its running state counts. `unplugs`: so is its running state, and what it has of it is passing.
    """
    unplugging = letting_go if unplugs else None
    found: list[str] = []
    for domain in _concerned(view, device):
        runs = _runs_with(domain, device)
        if runs is not None and (domain.uuid != unplugging or isinstance(runs, Unread)):
            found.append(runs)
        elif domain.uuid != letting_go and any(item.source == device for item in domain.inactive):
            found.append(Named(f"VM {domain.name} has it in its definition"))
        elif any(item.source == device for item in domain.arguments):
            found.append(Named(f"VM {domain.name} has it in its QEMU arguments"))
    return _with_users([*found, *_in_images(view, device)], view, device, vgpu, unplugging)


def _in_images(view: HostView, device: Device) -> Iterator[str]:
    """The managed-save images that have it, and those that cannot be read."""
    concerned = {*view.states.naming(device), *view.states.unreadable}
    for uuid, saved in view.states.items() if concerned else ():
        image = f"managed-save image of VM {view.vm_name(uuid)}"
        if uuid in concerned and saved.image_problem is not None:
            yield Unread(f"cannot tell: the {image}: {saved.image_problem}")
        elif uuid in concerned and any(item.source == device for item in saved.image or ()):
            yield Named(f"VM {view.vm_name(uuid)} has it in its managed-save image")


def users(view: HostView, device: Device, vgpu: Vgpu) -> Holders:
    """Who uses a vGPU now. Definitions do not count, because the same device will be re-created."""
    running = [line for domain in _concerned(view, device) if (line := _runs_with(domain, device)) is not None]
    return _with_users(running, view, device, vgpu, None)


def _with_users(
    lasting: list[str], view: HostView, device: Device, vgpu: Vgpu | None, unplugging: VmUuid | None
) -> Holders:
    if vgpu is None:
        return Holders(lasting=tuple(lasting))
    open_now, open_yet = _opened(view, vgpu, unplugging)
    running, off = _listed(view, device, vgpu, unplugging)
    if open_now:
        running, off = [*running, *off], []
    return Holders(lasting=(*lasting, *open_now, *running), passing=(*open_yet, *off), listed=bool(off))


def runs_without(view: HostView, vm: VmUuid) -> bool:
    """Whether a VM runs; if nothing `lasting` holds its vGPU, it runs without it."""
    domain = view.domain(vm)
    return domain is not None and domain.active


def _concerned(view: HostView, device: Device) -> tuple[Domain, ...]:
    """The VMs that name a vGPU, and those of which a document could not be read, in their order."""
    unreadable = view.vms.unreadable
    if not unreadable:
        return view.vms.naming(device)
    return tuple(
        domain
        for domain in view.domains
        if domain.problem is not None or any(item.source == device for item in domain.mentioned)
    )


def _runs_with(domain: Domain, device: Device) -> str | None:
    if domain.problem is not None:
        return Unread(f"cannot tell: VM {domain.name}: {domain.problem}")
    if any(item.source == device for item in domain.live or ()):
        return f"VM {domain.name} is running with it"
    return None


def _opened(view: HostView, vgpu: Vgpu, unplugging: VmUuid | None) -> tuple[list[str], list[str]]:
    """The open handles: those of processes that stay, and those of processes that are exiting, or about to release it."""
    snapshot = view.snapshot
    if snapshot.handles is None:
        return [Unread(f"cannot tell: open /dev/vfio handles: {why_unknown(snapshot, 'handles')}")], []
    if not vgpu.vfio:
        return [Unread("cannot tell: its /dev/vfio paths could not be read")], []
    ending = {qemu.pid for qemu in snapshot.qemus or () if qemu.ending}
    stay: list[str] = []
    end: list[str] = []
    for handle in snapshot.handles:
        if handle.path in vgpu.vfio:
            who = say("VM {}", handle.vm_name) if handle.vm_name else handle.command
            other = _held_for(view, handle, vgpu)
            what = handle.path if other is None else f"{handle.path}, its IOMMU group, for {other.parent}"
            line = say("{} holds {} open ({})", who, what, Own(f"pid {handle.pid}"))
            ends = handle.pid in ending or (unplugging is not None and handle.vm_uuid == unplugging)
            (end if ends else stay).append(line)
    return stay, end


def _listed(view: HostView, device: Device, vgpu: Vgpu, unplugging: VmUuid | None) -> tuple[list[str], list[str]]:
    """NVML's active list: rows of VMs that run (or may run), and rows of VMs that are off, or about to release it."""
    snapshot = view.snapshot
    gpu = next((item for item in snapshot.gpus if vgpu in item.vgpus), None)
    why_silent = snapshot.why_silent(gpu.pci) if gpu else None
    if why_silent is not None:
        return [Unread(f"cannot tell: NVML's active vGPUs: {why_silent}")], []
    running: list[str] = []
    off: list[str] = []
    for active in snapshot.active or ():
        who = active.vm_name or active.vm_uuid or "?"
        if active.device == device:
            line = say("NVML lists it as active for VM {}", who)
        elif _may_be(view, active, vgpu):
            line = say(
                "cannot tell: NVML lists a vGPU of {} as active for VM {}, but does not say which one", active.gpu, who
            )
        else:
            continue
        domain = view.domain(active.vm_uuid) if active.vm_uuid is not None else None
        ends = domain is not None and (not domain.active or domain.uuid == unplugging)
        (off if ends else running).append(line)
    return running, off


def _may_be(view: HostView, active: Active, vgpu: Vgpu) -> bool:
    """Whether an active row that names no device may mean this vGPU.

    It does not if its VM has something of that GPU open: then the handles say which one (two VFs of one VM, for example). Nor if its VM
    is off and has a vGPU of its own there: the list has not forgotten that one yet.
    """
    if active.device is not None:
        return False
    gpu = next((item for item in view.snapshot.gpus if vgpu in item.vgpus), None)
    if gpu is None or gpu.pci != active.gpu:
        return False
    if _has_another(view, active.vm_uuid, gpu, vgpu):
        return False
    open_there = {path for item in gpu.vgpus for path in item.vfio}
    return not any(
        handle.vm_uuid is not None and handle.vm_uuid == active.vm_uuid and handle.path in open_there
        for handle in view.snapshot.handles or ()
    )


def _held_for(view: HostView, handle: Handle, vgpu: Vgpu) -> Vgpu | None:
    """The vGPU for which a VM has a node open that several share (an IOMMU group's), if it is that VM's and not this one."""
    domain = None if handle.vm_uuid is None else view.domain(handle.vm_uuid)
    named = set() if domain is None else {item.source for item in domain.mentioned}
    if not named or vgpu.device in named:
        return None
    return next(
        (
            other
            for gpu in view.snapshot.gpus
            for other in gpu.vgpus
            if other.device in named and handle.path in other.vfio
        ),
        None,
    )


def _has_another(view: HostView, vm: VmUuid | None, gpu: Gpu, vgpu: Vgpu) -> bool:
    domain = None if vm is None else view.domain(vm)
    if domain is None or domain.active or any(item.source == vgpu.device for item in domain.mentioned):
        return False
    there = [view.snapshot.vgpu_of(entry.vgpu) for entry in view.entries(domain.uuid) if entry.vgpu.gpu == gpu.pci]
    return bool(there) and vgpu not in there


def holder_name(view: HostView, vgpu: Vgpu) -> str | None:
    """The one name that a table shows: the VM that runs with the vGPU, else a process that has it open."""
    for domain in view.vms.naming(vgpu.device):
        if any(item.source == vgpu.device for item in domain.live or ()):
            return domain.name
    for handle in view.snapshot.handles or ():
        if handle.path in vgpu.vfio and _held_for(view, handle, vgpu) is None:
            return handle.vm_name or f"{handle.command} ({handle.pid})"
    for active in view.snapshot.active or ():
        if active.device == vgpu.device:
            return active.vm_name or active.vm_uuid
    return None


def neighbours(view: HostView, ours: VgpuSpec) -> tuple[str, ...]:
    """The VMs that have a path of its open, for other functions of its IOMMU group alone."""
    vgpu = view.snapshot.vgpu_of(ours)
    found = [handle for handle in view.snapshot.handles or () if vgpu is not None and handle.path in vgpu.vfio]
    if vgpu is None or any(_held_for(view, handle, vgpu) is None for handle in found):
        return ()
    return tuple(dict.fromkeys(handle.vm_name or "?" for handle in found))


def why_unknown(snapshot: HostSnapshot, what: str, gpu: PciAddress | None = None) -> str:
    """The host program's reason for an unknown fact of the host, or of that GPU."""
    silent = snapshot.silent.get(gpu, "not read") if gpu is not None else "not read"  # of a lost GPU nothing is asked
    return next((row.why for row in snapshot.unknown if (row.gpu, row.what) == (gpu, what)), silent)
