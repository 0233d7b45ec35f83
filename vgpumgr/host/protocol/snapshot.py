"""The answers to `observe`, `lock` and `unlock`."""

from typing import Dict, List, Literal, Optional, TypedDict

from .gpu import GpuFact
from .ledger import BlockedWriteFact, CordonFact, FreedFact, InstanceEntry, LedgerEntry, ReservationFact, UnwritableFact
from .libvirt import LibvirtFact

# Fabric Manager: its process runs, it is only installed, or not even that
FabricManager = Literal["running", "stopped", "absent"]


class HandleFact(TypedDict):
    """A process that has a vGPU's device node open: a /dev/vfio path, or /dev/nvidia-vgpuN (the driver's vGPU plugin).

    The VM's name and uuid are those of its command line; `start` is as in QemuFact.
    """

    path: str
    pid: int
    start: int
    command: str
    vm_name: Optional[str]
    vm_uuid: Optional[str]


class QemuFact(TypedDict):
    """A QEMU that is not gone, in any state: one that is exiting (or has no descriptors left) may still have its vGPU.

    `start`: clock ticks since boot (field 22 of /proc/PID/stat), which with the pid identifies the process; `state` is
    from the same file. The VM's name and uuid are from its command line; if that is gone, `machine` is libvirt's name
    (qemu-3-vm01), from its control group. All three null: its VM is unknown. `uid`: its user; null if unreadable.
    """

    pid: int
    start: int
    state: str
    command: str
    ending: bool
    vm_name: Optional[str]
    vm_uuid: Optional[str]
    machine: Optional[str]
    uid: Optional[int]


class ActiveFact(TypedDict):
    """One row of NVML's active list (running VMs only). `gpu` is the PCI address, `uuid` the mdev's.

    NVML names no VF: `vf` is the one whose /dev/vfio path the VM has open, null unless there is just one.
    """

    gpu: str
    instance: int
    vm_uuid: Optional[str]
    vm_name: Optional[str]
    uuid: Optional[str]
    vf: Optional[str]
    type_id: Optional[int]


class ModprobeFact(TypedDict):
    """The whole text of a file in /etc/modprobe.d with an `options nvidia` line, or of any vgpumgr.conf."""

    path: str
    text: str


class ModuleFact(TypedDict):
    """The nvidia module's options at load: two lines of /proc/driver/nvidia/params; empty if there were none."""

    registry_dwords: str
    registry_dwords_per_device: str


class FabricFact(TypedDict):
    """The host's NVSwitches as PCI functions (from Blackwell on there are none), and Fabric Manager.

    `mode`: FABRIC_MODE in its configuration: 0 bare metal, 1 shared NVSwitch, 2 vGPU; null if it is not set there.
    """

    switches: Optional[int]
    manager: Optional[FabricManager]
    mode: Optional[int]


class UnknownFact(TypedDict):
    """`what` could not be read: a fact of the GPU at that address, or of the host if that is null."""

    gpu: Optional[str]
    what: str
    why: str


class Snapshot(TypedDict):
    """Facts about one host, read afresh. If `handles` or `active` is null, use is unknown, so everything is in use.

    `qemus` is read with `handles`, and null with it.
    `silent`: the GPUs (PCI address) whose running vGPUs NVML does not report, and why; everything on them is in use.
    `ledger`, `blocked_writes`, `freed` (the newest), `cordons`, `reservations` (that have not ended) and `instances`
    are from one file; if it is unreadable, the first two are null, the rest empty. `ledger_file`: whether it exists; if
    not, `ledger` is empty: we created nothing there, or it was lost. `vfio`: whether there is /dev/vfio/vfio, which
    VFIO's users open first.
    """

    protocol: int
    boot: str
    machine: Optional[str]
    hostname: str
    versions: Dict[str, Optional[str]]
    gpus: List[GpuFact]
    handles: Optional[List[HandleFact]]
    qemus: Optional[List[QemuFact]]
    active: Optional[List[ActiveFact]]
    silent: Dict[str, str]
    ledger: Optional[List[LedgerEntry]]
    freed: List[FreedFact]
    cordons: List[CordonFact]
    reservations: List[ReservationFact]
    instances: List[InstanceEntry]
    ledger_file: bool
    blocked_writes: Optional[List[BlockedWriteFact]]
    modprobe: Optional[List[ModprobeFact]]
    module: Optional[ModuleFact]
    vfio: Optional[bool]
    fabric: FabricFact
    unknown: List[UnknownFact]


class Observed(Snapshot):
    """A snapshot, and libvirt's answer; null if it was not asked."""

    libvirt: Optional[LibvirtFact]


class Locked(Observed):
    """The answer to `lock`: the facts under the lock, and why the ledger cannot be written, null if it can.

    This is tried with a file that never has a name, so that a run that changes nothing leaves nothing behind.
    """

    unwritable: Optional[UnwritableFact]
