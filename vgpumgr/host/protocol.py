"""The protocol between the controller and the host program: the one module that both sides import.

The host program prints one greeting line, MAGIC followed by a JSON object (Hello); then each request is one JSON line on
its stdin and each answer one JSON line on its stdout, in order. A request is {"id": n, "do": VERB, …}; an answer is
{"id": n, "ok": {…}} or {"id": n, "err": {"kind": KIND, "message": text, …}}.

    do        fields                          ok
    observe   wait_s, libvirt                 Observed (under the shared lock, which is released at once)
    lock      by, wait_s, libvirt             Locked (under the exclusive lock, which is kept)
    execute   step, deadline_s                {"note": text | null,
                                               "scheduler": SchedulerFact | null (as read back, set_scheduler only)}
    sample    wait_s, since                   SampleReport (as observe; since: {GPU's PCI address: us})
    ping                                      {}
    unlock    gpu_uuids (a list), libvirt     Observed, of these GPUs only; then the lock is released
    libvirt   libvirt                         LibvirtFact
    installed                                 Installed
    install   dispatcher (text), programs     Installed, afterwards
              (base64), pinned
    uninstall                                 Installed, afterwards
    purge     check                           PurgeFact (without `check`, under the lock that `lock` took)

`libvirt` is a LibvirtQuery or null: what is to be read of it, at the same time. What is changed in libvirt are steps of `execute`.

`gpu` is always a GPU's PCI address, and `gpu_uuid` its UUID. Every key of every object is always present; an unknown value is
null and has a row in Snapshot["unknown"] that says why.
Python 3.9: this file runs on the hypervisor.
"""

from typing import Dict, Final, List, Literal, Optional, TypedDict, Union

PROTOCOL = 7
MAGIC = "VGPUMGR/1 "
# After this long without a line from the lock's owner, the host program releases the lock and exits. It is longer than
# libvirt's wait for a busy domain (30 s) and the time between two pings (8 s): what waits inside libvirtd has ended by then.
LEASE_S = 40.0
MAX_LINE_BYTES = 16 * 1024 * 1024
LEDGER_PATH = "/var/lib/vgpumgr/ledger.json"
LEDGER_VERSION = 5
# A ledger is written as the oldest version that says all of it, so that an older vgpumgr goes on with it. One that knows no GPU
# instances would leave them behind, and one that knows no cordons would place vGPUs where nobody wants them: they have to refuse.
LEDGER_VERSION_WITHOUT_INSTANCES = 4
LEDGER_VERSION_WITHOUT_CORDONS = 3
LOCK_PATH = "/root"

# dispatcher.py, which stands alone, has the same
DISPATCHER_SAYS = "vgpumgr dispatcher: "

# what NVML may say of a GPU: it is gone from the bus, it needs a reset, or its driver is not loaded or of another version than NVML
Fault = Literal["lost", "needs-reset", "no-driver"]
NO_DRIVER: Final = "no-driver"

# Fabric Manager: its process runs, it is only installed, or not even that
FabricManager = Literal["running", "stopped", "absent"]

# frameworks (how the driver offers vGPUs)
FrameworkName = Literal["mdev-pf", "mdev-vf", "vendor-vfio"]
MDEV_PF: Final = "mdev-pf"  # pre-Ampere: mdev types on the physical function
MDEV_VF: Final = "mdev-vf"  # Ampere and later on older kernels: mdev types on each SR-IOV virtual function
VENDOR_VFIO: Final = "vendor-vfio"  # kernels where the driver dropped mdev: nvidia/current_vgpu_type on each VF

# modes of a GPU
Mode = Literal["equal-size", "mixed-size", "mig"]
SizeMode = Literal["equal-size", "mixed-size"]
EQUAL_SIZE: Final = "equal-size"
MIXED_SIZE: Final = "mixed-size"
MIG: Final = "mig"

# states of a ledger entry: on disk before the hardware is created, while it exists, and before it is removed
EntryState = Literal["planned", "made", "leaving"]
PLANNED: Final = "planned"
MADE: Final = "made"
LEAVING: Final = "leaving"

# what a step about a vGPU expects to find (Step)
Expect = Literal["empty", "same", "present", "absent"]
EMPTY: Final = "empty"
SAME: Final = "same"
PRESENT: Final = "present"
ABSENT: Final = "absent"

EXIT_LEASE = 3  # the program's status where the exclusive lock's owner was silent for too long

# kinds of err
LOCKED = "Locked"  # owner
NOT_LOCKED = "NotLocked"
CHANGED = "Changed"  # expected, found: nothing was written
IN_USE = "InUse"  # vm (its owner, or null), holders (one line each): nothing was written, or the message says what was
NOT_YET = "NotYet"  # vm, waits_for (one line each): nothing was written; what still has the vGPU ends by itself: retry
SYSFS_REFUSED = "SysfsRefused"  # path (below /sys, or in /etc/modprobe.d), errno, read_back
DEADLINE = "Deadline"  # path: the write had not returned in time; it may still happen
BLOCKED_WRITE = "BlockedWrite"  # gpu (its PCI address), path, pid, since: an earlier write there has not returned; nothing was written
LEDGER_BROKEN = "LedgerBroken"  # path
LEDGER_UNWRITABLE = (
    "LedgerUnwritable"  # path, errno; written: whether the step's own write to the hardware was done before
)
NOT_ROOT = "NotRoot"
PINNED_HERE = "Pinned"
UNWRITABLE = "Unwritable"  # path, errno: a file of the installation
BAD_REQUEST = "BadRequest"
INTERNAL = "Internal"
LIBVIRT_REFUSED = (
    "LibvirtRefused"  # why (LibvirtRefusal), code (libvirt's), verb; begun: whether the change may have been made
)
NVML_REFUSED = "NvmlRefused"  # function, code (NVML's; 0: accepted, but without effect); message has NVML's text
TOOL_REFUSED = (
    "ToolRefused"  # command (as a shell would take it), output (its last lines), status (null: it did not end in time)
)

# scheduler policies, as users write them
Policy = Literal["best-effort", "equal-share", "fixed-share"]
BEST_EFFORT: Final = "best-effort"
EQUAL_SHARE: Final = "equal-share"
FIXED_SHARE: Final = "fixed-share"

# verbs of steps
CREATE_VGPU = "create_vgpu"
DESTROY_VGPU = "destroy_vgpu"
EVACUATE_VGPU = "evacuate_vgpu"
SET_SCHEDULER = "set_scheduler"
SET_MODE = "set_mode"
WRITE_MODPROBE = "write_modprobe"
SET_CORDON = "set_cordon"
CREATE_INSTANCE = "create_instance"
DESTROY_INSTANCE = "destroy_instance"
SET_MIG = "set_mig"
SET_VFS = "set_vfs"
RESET_GPU = "reset_gpu"
SET_METADATA: Final = "set_metadata"
ATTACH_DEVICE: Final = "attach_device"
DETACH_DEVICE: Final = "detach_device"
PLUG_DEVICE: Final = "plug_device"
UNPLUG_DEVICE: Final = "unplug_device"


class Hello(TypedDict):
    protocol: int
    pid: int
    euid: int
    python: str
    boot: str


class TypeFact(TypedDict):
    """One vGPU type of one GPU. `name` is the driver's whole name, `max` per GPU in equal-size mode.

    `mig_profile`: the id of the GPU instance profile that a MIG-backed type needs, null for a time-sliced one and where the GPU
    knows no MIG. `max_per_instance`: how many vGPUs of it one GPU instance takes, as NVML has it from r575 on; null elsewhere.
    """

    id: int
    name: str
    max: Optional[int]
    framebuffer_mib: Optional[int]
    mig_profile: Optional[int]
    max_per_instance: Optional[int]


class CreatableFact(TypedDict):
    """A type that a parent would take now; `available` is how many (mdev's available_instances; 1 on a vendor-vfio VF)."""

    id: int
    available: int


class VgpuFact(TypedDict):
    """A vGPU that exists. `vfio` are the /dev/vfio paths that a holder would have open; `uuid` is null on vendor-vfio.

    `gpu_instance`: the id of the GPU instance that it is in, null if the GPU is not in MIG mode.
    """

    uuid: Optional[str]
    type_id: Optional[int]
    type_name: Optional[str]
    placement_id: Optional[int]
    gpu_instance: Optional[int]
    vfio: List[str]


class ParentFact(TypedDict):
    """A PCI function on which vGPUs are created: the PF (mdev-pf, vf_index null, many vGPUs) or a VF (at most one).

    `vfio_dev`: whether the VF of a vendor-vfio GPU has its vfio-dev directory, by which libvirt knows that it can leave it
    bound to nvidia (libvirt 9.7, virpci.c; Linux 6.1 and newer have it). `iommu_group`: whether that VF has an IOMMU group, by which
    it is assigned to a VM, and `group` which. Null, all: not read, or the GPU's vGPUs are mdevs.
    `creatable`: what it would take now, as the position in the GPU's `offers`.
    """

    pci: str
    vf_index: Optional[int]
    vfio_dev: Optional[bool]
    iommu_group: Optional[bool]
    group: Optional[str]
    creatable: Optional[int]
    vgpus: List[VgpuFact]


class SchedulerCapsFact(TypedDict):
    """What the driver accepts, according to NVML (nvmlVgpuSchedulerCapabilities_t); it silently clamps other values.

    `arr`: the driver knows adaptive (strict) round robin. Time slices are in ns, frequencies in Hz.
    """

    policies: List[Policy]
    arr: bool
    min_time_slice_ns: int
    max_time_slice_ns: int
    min_frequency_hz: int
    max_frequency_hz: int
    min_averaging_factor: int
    max_averaging_factor: int


class EngineSchedulerFact(TypedDict):
    """How one engine is shared now. Null: unknown, or (slice and factor) no vGPU is active, in which case NVML returns 0.

    `engine` is graphics, nvenc0 or nvenc1; the v1 call has no engines, and its only row is graphics.
    """

    engine: str
    policy: Optional[Policy]
    arr: Optional[bool]
    averaging_factor: Optional[int]
    time_slice_ns: Optional[int]


class SchedulerFact(TypedDict):
    """The run-time layer. `api` 1: nvmlDevice…SchedulerState; 2: …_v2 (from r595), per engine, round robin always adaptive."""

    api: int
    caps: SchedulerCapsFact
    engines: List[EngineSchedulerFact]


class PlacesFact(TypedDict):
    """Where one more vGPU of a type can lie now: placement ids, of which it takes `size`, counted in GiB (NVML's slots)."""

    type_id: int
    size: int
    creatable: List[int]


class MigProfileFact(TypedDict):
    """A GPU instance profile of a GPU in MIG mode: `id` as NVML has it, `name` 2g.10gb.

    `slices`: compute slices; `size`: memory slices, which begin at one of `starts` (ascending); `max`: how many the GPU takes at once.
    """

    id: int
    name: str
    slices: int
    size: int
    starts: List[int]
    memory_mib: int
    max: int


class MigInstanceFact(TypedDict):
    """A GPU instance: its memory slices are `size` from `start` on. Its id is new at each creation.

    `compute`: how many compute instances it has, null if that could not be read.
    """

    id: int
    profile_id: int
    start: int
    size: int
    compute: Optional[int]


class MigFact(TypedDict):
    """How a GPU that knows MIG is divided. `pending`: the mode after its next reset.

    `profiles` and `instances` are empty with MIG off. `instances` is null if they could not be read, and so unknown.
    """

    enabled: bool
    pending: bool
    profiles: List[MigProfileFact]
    instances: Optional[List[MigInstanceFact]]


class GpuFact(TypedDict):
    """A physical function. `framework` is null if it has neither mdev nor nvidia/ directories; `problem` says why.

    `offers`: what its parents would take, each list once, since most of them are the same. `places`: where the types that the
    GPU would take now can lie; null where it is not in mixed-size mode, or that could not be read. `mig`: null if the board or its
    driver has no MIG, or that could not be read. `fault`: what NVML says is wrong with the GPU or its driver; null too where there is no
    NVML to ask. `fabric`: whether NVML says that the GPU is on an NVSwitch fabric, as it can from Hopper on; null if it could not be asked.
    """

    pci: str
    uuid: Optional[str]
    name: Optional[str]
    pci_id: str
    framework: Optional[FrameworkName]
    problem: Optional[str]
    mode: Optional[Mode]
    numa_node: Optional[int]
    framebuffer_mib: Optional[int]
    types: Optional[List[TypeFact]]
    offers: List[List[CreatableFact]]
    parents: List[ParentFact]
    places: Optional[List[PlacesFact]]
    mig: Optional[MigFact]
    scheduler: Optional[SchedulerFact]
    fault: Optional[Fault]
    fabric: Optional[bool]


class HandleFact(TypedDict):
    """A process that has a vGPU's device node open: a /dev/vfio path, or the driver's /dev/nvidia-vgpuN (the vGPU plugin).

    The VM's name and uuid are those of its command line; `start` is as in QemuFact.
    """

    path: str
    pid: int
    start: int
    command: str
    vm_name: Optional[str]
    vm_uuid: Optional[str]


class QemuFact(TypedDict):
    """A QEMU that is not gone, whatever its state: one that is exiting (or has no descriptor at all) may still have its vGPU.

    `start`: clock ticks since boot (field 22 of /proc/PID/stat), which together with the pid identifies the process; `state` is
    from the same file. Its VM's name and uuid are those of its command line; if that is gone, `machine` is libvirt's name for it
    (qemu-3-vm01), from its control group. All three null: its VM is unknown. `uid`: its user; null if that cannot be read.
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
    """One row of NVML's active list (running VMs only). `gpu` is the PCI address.

    `uuid` is the mdev's. NVML names no VF: `vf` is the one whose /dev/vfio path the VM has open, null if that is not one.
    """

    gpu: str
    instance: int
    vm_uuid: Optional[str]
    vm_name: Optional[str]
    uuid: Optional[str]
    vf: Optional[str]
    type_id: Optional[int]


class MigPlace(TypedDict):
    """The GPU instance that a MIG-backed vGPU is meant to be in: its profile (name and id), and its first memory slice."""

    profile: str
    profile_id: int
    start: int


class OurVgpu(TypedDict):
    """A vGPU of ours: its owner, place and type. `uuid` is null if it is a VF with a type set.

    `placement_id`: where it is meant to lie on a GPU in mixed-size mode, null elsewhere; VgpuFact says where it lies. `mig`: null
    if it is not MIG-backed; the ledger's file leaves it out then.
    """

    vm_uuid: str
    vm_name: str
    slot: str
    generation: int
    gpu_uuid: str
    gpu: str
    vf_index: Optional[int]
    parent: str
    uuid: Optional[str]
    type_id: int
    type_name: str
    placement_id: Optional[int]
    mig: Optional[MigPlace]


class LedgerEntry(OurVgpu):
    """Our ownership of one vGPU, written before the hardware is touched. state: planned, made or leaving."""

    boot: str
    state: EntryState


class OurInstance(MigPlace):
    """A GPU instance of ours. It is identified by its GPU, profile and start."""

    gpu_uuid: str
    gpu: str
    size: int


class InstanceEntry(OurInstance):
    """Our ownership of it, written before the hardware is touched, and gone once `boot` is over. state: planned, made or leaving."""

    boot: str
    state: EntryState


class FreedFact(TypedDict):
    """The vGPU of a slot and generation that was removed on purpose, and not re-created since."""

    vm_uuid: str
    slot: str
    generation: int


class CordonText(TypedDict):
    """Why no new vGPU is placed somewhere, who said so, and when (RFC 3339, UTC)."""

    reason: str
    by: str
    at: str


class CordonFact(CordonText):
    """Where that is: a GPU, or with both null the whole host. `gpu` is the GPU's address when it was said."""

    gpu_uuid: Optional[str]
    gpu: Optional[str]


class BlockedWriteFact(TypedDict):
    """A write to a file in /sys that was begun and has not returned: its GPU takes no more writes until it has.

    `pid` and `start` (field 22 of /proc/PID/stat) identify the process that sleeps in it, `boot` the boot; `since` is when it
    began (RFC 3339, UTC). `vfio` are the paths that a holder of the vGPU to be removed has open.
    """

    gpu_uuid: str
    gpu: str
    path: str
    verb: str
    vm_name: str
    slot: str
    vfio: List[str]
    boot: str
    pid: int
    start: int
    since: str


class ModprobeFact(TypedDict):
    """The whole text of a file in /etc/modprobe.d with an `options nvidia` line, or of vgpumgr.conf, whatever it contains."""

    path: str
    text: str


class ModuleFact(TypedDict):
    """What the nvidia module was loaded with: two lines of /proc/driver/nvidia/params; empty if nothing was given."""

    registry_dwords: str
    registry_dwords_per_device: str


class FabricFact(TypedDict):
    """The host's NVSwitches as PCI functions (from Blackwell on there are none), and what is known of Fabric Manager.

    `mode`: FABRIC_MODE in its configuration: 0 bare metal, 1 shared NVSwitch, 2 vGPU; null where it has no configuration, or none that says so.
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
    """Facts about one host, read afresh. `handles` or `active` null means that use is unknown, so everything is in use.

    `qemus` is read with `handles`, and null with it.
    `silent`: the GPUs (PCI address) for which just NVML does not report what runs there, and why; everything there is in use.
    `ledger` and `blocked_writes` come from one file, and are null together. `ledger_file`: whether it exists, readable or not; if not,
    `ledger` is empty, because we never created anything there or because the file was lost. `freed` is from that file, too:
    the newest of what was freed; empty if `ledger` is null; so are `cordons` and `instances`. `vfio`: whether there is /dev/vfio/vfio, which VFIO's users open first.
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
    instances: List[InstanceEntry]
    ledger_file: bool
    blocked_writes: Optional[List[BlockedWriteFact]]
    modprobe: Optional[List[ModprobeFact]]
    module: Optional[ModuleFact]
    vfio: Optional[bool]
    fabric: FabricFact
    unknown: List[UnknownFact]


class LibvirtQuery(TypedDict):
    """What to read of libvirt's domains. `only`: of which the documents are read (UUIDs), null for all.

    `saved`: the managed-save images and snapshots of all domains that have any. `wait_s` is the longest wait for all of it.
    """

    names: bool
    domains: bool
    only: Optional[List[str]]
    saved: bool
    wait_s: float


class NameFact(TypedDict):
    """A domain's name and UUID."""

    name: str
    uuid: str


class DomainFact(TypedDict):
    """A domain's documents, dumped without VIR_DOMAIN_XML_SECURE.

    `inactive_xml` is null for a transient domain, `live_xml` for one that is shut off. `unreadable` says why one of them
    could not be read.
    """

    name: str
    uuid: str
    active: bool
    persistent: bool
    managed_save: bool
    inactive_xml: Optional[str]
    live_xml: Optional[str]
    unreadable: Optional[str]


class SnapshotDocument(TypedDict):
    """One of a domain's snapshots."""

    name: str
    xml: str


class SavedFact(TypedDict):
    """What could come back for one domain. `image_xml` is null if it has no managed-save image.

    The last two say why the image or the snapshots could not be read.
    """

    uuid: str
    image_xml: Optional[str]
    snapshots: List[SnapshotDocument]
    image_unreadable: Optional[str]
    snapshots_unreadable: Optional[str]


# Why nothing could be read: the host has no usable libvirt library; the connection could not be opened; a call was refused;
# no answer came in time.
LibvirtRefusal = Literal["missing", "closed", "refused", "silent"]


class LibvirtFailure(TypedDict):
    """`message` and `code` are libvirt's own where it refused."""

    kind: LibvirtRefusal
    message: str
    code: int


class LibvirtFact(TypedDict):
    """What was asked for, each list in the order of names; null what was not. `version` is the host's libvirt: 9000000 is 9.0.0.

    Everything is null if `failure` says why nothing could be read.
    """

    version: Optional[int]
    names: Optional[List[NameFact]]
    domains: Optional[List[DomainFact]]
    saved: Optional[List[SavedFact]]
    failure: Optional[LibvirtFailure]


class Observed(Snapshot):
    """A snapshot, and what was asked of libvirt, null if nothing was."""

    libvirt: Optional[LibvirtFact]


class UnwritableFact(TypedDict):
    """Why the ledger's folder cannot be written to: the folder that was tried, and the errno's name (ENOSPC, EROFS)."""

    path: str
    errno: str


class Locked(Observed):
    """The answer to `lock`: the facts under the lock, and why the ledger cannot be written, null if it can.

    This is tried with a file that never has a name, so that a run that changes nothing leaves nothing behind.
    """

    unwritable: Optional[UnwritableFact]


class InstalledProgramFact(TypedDict):
    """A host program below /opt/vgpumgr-host. `sha256` is its name; `intact`: also the hash of what it holds."""

    sha256: str
    intact: bool


class InstallationFact(TypedDict):
    """What `host install` left here. `dispatcher`: the SHA-256 of its text below the first line, null if there is none.

    `by_dispatcher`: that was how this program was started; `user`: who called sudo, null for root's own login. `problems`:
    what was altered, or can be by others than root. `cordons` is the ledger's, null if it cannot be read.
    """

    by_dispatcher: bool
    user: Optional[str]
    dispatcher: Optional[str]
    pinned: bool
    programs: List[InstalledProgramFact]
    problems: List[str]
    cordons: Optional[List[CordonFact]]


class Installed(TypedDict):
    """The answer to `installed`, `install` and `uninstall`."""

    installation: InstallationFact


class PurgeFact(TypedDict):
    """The answer to `purge`: the files and folders of ours that went; with `check`, those that are there."""

    files: List[str]


class HolderFact(TypedDict):
    """A process that runs a VM and has its vGPU open. `since_us`: its start, us since the epoch; null if that is unknown."""

    pid: int
    command: str
    since_us: Optional[int]


class VgpuSampleFact(TypedDict):
    """A running vGPU: whose it is (as in ActiveFact; with the VF its index), its memory now, and the sample since `since`.

    `at_us`: the sample's time, us since the epoch; null if there is no newer one, and then the four are null, too. They are
    integer percentages of the whole GPU, over the time since `since` (nvmlDeviceGetVgpuUtilization). With MIG, of which NVML
    has no such samples, it is the time of this reading, and the four are null. `holder`: null if no
    process of the VM could be found.
    """

    instance: int
    vm_uuid: Optional[str]
    vm_name: Optional[str]
    uuid: Optional[str]
    vf: Optional[str]
    vf_index: Optional[int]
    type_id: Optional[int]
    framebuffer_used_bytes: Optional[int]
    at_us: Optional[int]
    sm: Optional[int]
    memory: Optional[int]
    encoder: Optional[int]
    decoder: Optional[int]
    holder: Optional[HolderFact]


class GpuSampleFact(TypedDict):
    """A physical function. `sm` and `memory`: percent of time in the driver's last period (nvmlDeviceGetUtilizationRates).

    `policy`: how the graphics engine is shared, null with MIG. `types`: those of its running vGPUs and of the ledger's entries. `made`:
    how many vGPUs sysfs shows on it, running or not. `vgpus` null: it is unknown what runs. `temperature_c` (of the die) and
    `power_mw` are null also on a board without that sensor, which is no failure.
    """

    pci: str
    uuid: Optional[str]
    name: Optional[str]
    framebuffer_bytes: Optional[int]
    framebuffer_used_bytes: Optional[int]
    sm: Optional[int]
    memory: Optional[int]
    temperature_c: Optional[int]
    power_mw: Optional[int]
    policy: Optional[Policy]
    mode: Optional[Mode]
    types: List[TypeFact]
    made: Optional[int]
    vgpus: Optional[List[VgpuSampleFact]]


class SampleReport(TypedDict):
    """What runs and how much it uses. `now_us`: the host's clock, us since the epoch."""

    protocol: int
    boot: str
    now_us: int
    driver: Optional[str]
    gpus: List[GpuSampleFact]
    ledger: Optional[List[LedgerEntry]]
    unknown: List[UnknownFact]


class Step(OurVgpu):
    """One change of hardware and ledger: the entry's keys, and the state that must be found first.

    verb create_vgpu: expect "empty" (no vGPU there, no other entry) or "same" (a vGPU of this type and uuid is there
    and must be entered as ours). Where `placement_id` is set, what was created is moved there, or the note says where it lies. verb destroy_vgpu: expect "present" (exactly this vGPU is there) or "absent" (only the
    entry is left). verb evacuate_vgpu: expect "present"; the vGPU is removed, but its entry, which must be `made`, stays as it is.
    `param`: plugin parameters that it gets; `replaces`: the generation of the same slot, or its own, whose other ones it keeps.
    `runs`: the VM runs without this vGPU. `listed`: when this was planned, NVML listed it as active although its VM was off: it
    must have left that list.
    """

    verb: str
    expect: Expect
    param: Optional[str]
    replaces: Optional[int]
    runs: bool
    listed: bool


class SchedulerSetting(TypedDict):
    """The setting for NVML. Null: the driver's default. A time slice requires arr false; the other two, arr true or null."""

    policy: Policy
    arr: Optional[bool]
    averaging_factor: Optional[int]
    frequency_hz: Optional[int]
    time_slice_ns: Optional[int]


class GpuStep(TypedDict):
    """A step that concerns a whole GPU."""

    verb: str
    gpu_uuid: str
    gpu: str


class SchedulerStep(GpuStep):
    """verb set_scheduler: every engine of the GPU gets the setting. `expect`: the policy of each engine, as read.

    An engine that already has the wanted policy passes, too. Graphics must accept it; the answer's note names engines that do not.
    """

    api: int
    setting: SchedulerSetting
    expect: Dict[str, Optional[Policy]]


class ModeStep(GpuStep):
    """verb set_mode: mixed-size mode on or off. `expect`: the mode as read; a GPU that already has the wanted one passes, too."""

    mode: SizeMode
    expect: SizeMode


class ModprobeStep(TypedDict):
    """verb write_modprobe: the file /etc/modprobe.d/NAME.conf gets this text (null: it is removed); expect: its text before.

    A file that already has the text passes, too. A symbolic link is refused (SysfsRefused, ELOOP).
    """

    verb: str
    path: str
    text: Optional[str]
    expect: Optional[str]


class CordonStep(TypedDict):
    """verb set_cordon: the ledger's cordon of a GPU, or (both null) of the host; cordon null: none. expect: the one before.

    A ledger that already says so passes, too. The GPU need not be there: it may have been taken out.
    """

    verb: str
    gpu_uuid: Optional[str]
    gpu: Optional[str]
    cordon: Optional[CordonText]
    expect: Optional[CordonText]


class InstanceStep(OurInstance):
    """verbs create_instance, destroy_instance: a GPU instance of ours, and its entry.

    create_instance: expect "empty" (nothing lies in its memory slices) or "same" (just this instance is there, and is entered as
    ours). It gets one compute instance of its whole size. destroy_instance: expect "present" (it is there and ours) or "absent"
    (at most its entry is left).
    """

    verb: str
    expect: Expect


class MigModeStep(GpuStep):
    """verb set_mig: MIG on or off, on a GPU without VFs and vGPUs. `expect`: as read; a GPU that is as wanted passes, too.

    The answer's note says if the GPU's reset is needed before it takes effect.
    """

    on: bool
    expect: bool


class VfsStep(GpuStep):
    """verb set_vfs: the GPU's VFs made or removed by NVIDIA's sriov-manage. `expect`: whether there were any; as wanted passes, too."""

    on: bool
    expect: bool


class ResetStep(GpuStep):
    """verb reset_gpu: a reset of this GPU alone, which has no VFs and no vGPUs."""


class MetadataStep(TypedDict):
    """verb set_metadata: that element (without prefix and xmlns) of the namespace `uri` into the VM's persistent definition.

    `xml` null removes it; it need not be there.
    """

    verb: Literal["set_metadata"]
    vm_uuid: str
    xml: Optional[str]
    key: str
    uri: str


class DeviceStep(TypedDict):
    """verbs attach_device, detach_device: a device into the VM's persistent definition, or out of it.

    verbs plug_device, unplug_device: into the VM while it runs; its guest is asked to release it.
    """

    verb: Literal["attach_device", "detach_device", "plug_device", "unplug_device"]
    vm_uuid: str
    xml: str


DefinitionStep = Union[MetadataStep, DeviceStep]
MigStep = Union[InstanceStep, MigModeStep, VfsStep, ResetStep]
AnyStep = Union[Step, SchedulerStep, ModeStep, ModprobeStep, CordonStep, MigStep, DefinitionStep]
