"""Everything that was read about one host: the host program's facts and libvirt's domains."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from vgpumgr.core.model.indexes import Domains, SavedStatesByVm
from vgpumgr.core.model.owners import Allowances, Owners, Quotas
from vgpumgr.core.policies import known
from vgpumgr.wording import Own, say

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from vgpumgr.core.driver.asking import FgpuUnits
    from vgpumgr.core.driver.profiles import Wish
    from vgpumgr.core.model.domain_xml import Domain, SavedStates
    from vgpumgr.core.model.functions import Vgpu
    from vgpumgr.core.model.snapshot import Active, Gpu, Handle, HostSnapshot
    from vgpumgr.core.model.vgpu import Device, LedgerEntry, VgpuSpec
    from vgpumgr.core.policies.policy import Policy
    from vgpumgr.names import HostName, OwnerName, PciAddress, Slot, VmName, VmUuid


CANNOT_TELL = "cannot tell"  # begins each line about evidence that could not be read

FindingKind = Literal[
    "advised",
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
    "no-advice",
    "no-such-mdev",
    "not-proven",
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
    "start-failed",
    "taken",
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
        "taken",
        "undeclared",
        "will-not-start",
    }
)
"""Findings that hold while the host is unchanged, so they are not news on every nightly run."""


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
    """A VM that only the host's ledger still names: it has no definition, so no claim, and does not run."""

    name: VmName
    uuid: VmUuid

    active = False
    claims = None
    condition = "no longer defined"


@dataclass(frozen=True, slots=True, kw_only=True)
class HostView:
    """One observation of a host, with the inventory's settings for plans. `libvirt_version`: 9000000 is 9.0.0.

    `saved`: what could come back, for VMs with a managed-save image or snapshots. None: it was not read, because only
    steps that free a vGPU need it. Ten settings are the inventory's: `excluded_vfs`, on which nothing new is created;
    `even_if_it_will_not_start`, whether to create a vGPU that no VM can start with; `fgpu_per_gpu`, what one fGPU is on
    a board; `policy`, which GPU a vGPU gets if its slot does not name one, and `find_policy`, which knows the others;
    `usual`, the wishes that it declares for the host's VMs, or else those of the journal (attached.py), and how often;
    `layouts`, the GPU instances that it declares for a GPU; `owners`, whose the VMs are; `quotas`, what an owner may
    hold on all hosts; `lazy`, whether new vGPUs are lazy. `allowances`: what is left of the quotas for this host's
    plans, by owner; None: not known yet, so nothing is refused.
    `planned`: the slots whose vGPUs were not read, but added by a simulated plan (core/simulate.py).
    """

    snapshot: HostSnapshot
    domains: tuple[Domain, ...]
    libvirt_version: int
    saved: Mapping[VmUuid, SavedStates] | None = None
    excluded_vfs: frozenset[PciAddress] = frozenset()
    even_if_it_will_not_start: bool = False
    lazy: bool = False
    fgpu_per_gpu: FgpuUnits = field(default_factory=dict)
    policy: Policy = known.DEFAULT
    find_policy: known.Find = field(default=known.find, compare=False, repr=False)
    usual: Mapping[Wish, int] = field(default_factory=dict)
    layouts: Mapping[PciAddress, tuple[str, ...]] = field(default_factory=dict)
    owners: Owners = field(default_factory=Owners)
    quotas: Quotas = field(default_factory=dict)
    allowances: Allowances | None = None
    planned: frozenset[tuple[VmUuid, Slot]] = field(default=frozenset(), compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "domains", Domains.of(self.domains))
        if self.saved is not None and not isinstance(self.saved, SavedStatesByVm):
            object.__setattr__(self, "saved", SavedStatesByVm(self.saved))

    @property
    def vms(self) -> Domains:
        """The domains, with lookup by name or by what they name."""
        return self.domains if isinstance(self.domains, Domains) else Domains(self.domains)

    @property
    def states(self) -> SavedStatesByVm:
        """The saved states, with lookup by what they name; none if they were not read."""
        return self.saved if isinstance(self.saved, SavedStatesByVm) else _NO_SAVED_STATES

    def domain(self, uuid: VmUuid) -> Domain | None:
        return self.vms.find(uuid)

    def vm_name(self, uuid: VmUuid) -> str:
        """The VM's name, or its UUID if it was defined after the domains were read."""
        domain = self.domain(uuid)
        return domain.name if domain else uuid

    def owner(self, vm: VmUuid, name: VmName) -> OwnerName | None:
        """The owner of a VM, also of one that only the ledger names (`name`); None if nothing names its owner."""
        domain = self.domain(vm)
        return self.owners.of(name if domain is None else domain.name, domain.owner if domain else None)

    def entries(self, vm: VmUuid, slot: Slot | None = None) -> tuple[LedgerEntry, ...]:
        """The ledger's entries of a VM, slot by slot, oldest generation first."""
        entries = self.snapshot.entries.of_vm(vm)
        if slot is None:
            return entries
        if len(entries) == 1:  # nearly always, and planning asks often
            return entries if entries[0].vgpu.slot == slot else ()
        return tuple(entry for entry in entries if entry.vgpu.slot == slot)


class Unread(str):
    """A line about evidence that could not be read: it counts as use, but names no user."""

    __slots__ = ()


class Named(str):
    """A line about a document that names the vGPU: it counts as use until someone changes the document."""

    __slots__ = ()


def ends(lines: Iterable[str]) -> bool:
    """Whether all these holders are running VMs and processes: when they end, so does the use."""
    return not any(isinstance(line, Unread | Named) for line in lines)


@dataclass(frozen=True, slots=True, kw_only=True)
class Holders:
    """Who has a vGPU, in words. Both empty: all evidence was read, and nothing has it.

    `lasting` holders lead to a refusal. `passing` ones end by themselves, and the host program waits for them: a QEMU
    that is exiting, or a VM that is off but still listed by NVML (`listed`). Unreadable evidence counts as a holder;
    its line says what could not be read.
    """

    lasting: tuple[str, ...]
    passing: tuple[str, ...] = ()
    listed: bool = False


def holders(
    view: HostView, device: Device, vgpu: Vgpu | None, *, letting_go: VmUuid | None = None, unplugs: bool = False
) -> Holders:
    """Who has a vGPU.

    `vgpu` is the hardware, None if it is gone. `letting_go`: the domain whose *inactive* XML is about to lose the
    device; only its running state counts. `unplugs`: its running state is about to lose the device, too, so that its
    use is passing.
    """
    unplugging = letting_go if unplugs else None
    lines: list[str] = []
    for domain in _concerned(view, device):
        line = _runs_with(domain, device)
        if line is not None and (domain.uuid != unplugging or isinstance(line, Unread)):
            lines.append(line)
        elif domain.uuid != letting_go and any(item.source == device for item in domain.inactive):
            lines.append(Named(f"VM {domain.name} has it in its definition"))
        elif any(item.source == device for item in domain.arguments):
            lines.append(Named(f"VM {domain.name} has it in its QEMU arguments"))
    return _with_users([*lines, *_in_images(view, device)], view, device, vgpu, unplugging)


def _in_images(view: HostView, device: Device) -> Iterator[str]:
    """The managed-save images that have the device, and those that cannot be read."""
    uuids = {*view.states.naming(device), *view.states.unreadable}
    for uuid, states in view.states.items() if uuids else ():
        image = f"managed-save image of VM {view.vm_name(uuid)}"
        if uuid in uuids and states.image_problem is not None:
            yield Unread(f"cannot tell: the {image}: {states.image_problem}")
        elif uuid in uuids and any(item.source == device for item in states.image or ()):
            yield Named(f"VM {view.vm_name(uuid)} has it in its managed-save image")


def users(view: HostView, device: Device, vgpu: Vgpu) -> Holders:
    """Who uses a vGPU now. Definitions do not count, because the device is about to be re-created."""
    lines = [line for domain in _concerned(view, device) if (line := _runs_with(domain, device)) is not None]
    return _with_users(lines, view, device, vgpu, None)


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
    """Whether the VM runs. If it does and nothing `lasting` holds its vGPU, it runs without the vGPU."""
    domain = view.domain(vm)
    return domain is not None and domain.active


def _concerned(view: HostView, device: Device) -> tuple[Domain, ...]:
    """The VMs that name a vGPU, and those with an unreadable document, in their order."""
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
    """Lines about open handles: first of the processes that stay, then of those that are about to release the vGPU."""
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
    """Lines about NVML's active list: first of VMs that may run, then of those that are off or about to release it."""
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

    It does not if its VM has a vGPU of that GPU open: then the handles say which one (two VFs of one VM, for example).
    Neither does it if its VM is off and has another vGPU on that GPU: the list still has that one.
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
    """The vGPU for which the handle's VM has this shared node (an IOMMU group's) open. None if it may be for `vgpu`."""
    domain = None if handle.vm_uuid is None else view.domain(handle.vm_uuid)
    devices = set() if domain is None else {item.source for item in domain.mentioned}
    if not devices or vgpu.device in devices:
        return None
    return next(
        (
            other
            for gpu in view.snapshot.gpus
            for other in gpu.vgpus
            if other.device in devices and handle.path in other.vfio
        ),
        None,
    )


def _has_another(view: HostView, vm: VmUuid | None, gpu: Gpu, vgpu: Vgpu) -> bool:
    domain = None if vm is None else view.domain(vm)
    if domain is None or domain.active or any(item.source == vgpu.device for item in domain.mentioned):
        return False
    vgpus = [view.snapshot.vgpu_of(entry.vgpu) for entry in view.entries(domain.uuid) if entry.vgpu.gpu == gpu.pci]
    return bool(vgpus) and vgpu not in vgpus


def holder_name(view: HostView, vgpu: Vgpu) -> str | None:
    """The holder in a table: the VM that runs with the vGPU, else a process that has it open."""
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
    """The VMs that have a path of this vGPU open, but only for other functions of its IOMMU group."""
    vgpu = view.snapshot.vgpu_of(ours)
    handles = [handle for handle in view.snapshot.handles or () if vgpu is not None and handle.path in vgpu.vfio]
    if vgpu is None or any(_held_for(view, handle, vgpu) is None for handle in handles):
        return ()
    return tuple(dict.fromkeys(handle.vm_name or "?" for handle in handles))


def why_unknown(snapshot: HostSnapshot, what: str, gpu: PciAddress | None = None) -> str:
    """The host program's reason for an unknown fact of the host, or of that GPU."""
    reason = snapshot.silent.get(gpu, "not read") if gpu is not None else "not read"  # of a lost GPU nothing is asked
    return next((row.why for row in snapshot.unknown if (row.gpu, row.what) == (gpu, what)), reason)
