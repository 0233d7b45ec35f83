"""What the controller and the host program say to each other: the one module that both sides know.

The host program prints one greeting line, MAGIC followed by a JSON object (Hello); then each request is one JSON line on
its stdin and each answer one JSON line on its stdout, in order. A request is {"id": n, "do": VERB, …}; an answer is
{"id": n, "ok": {…}} or {"id": n, "err": {"kind": KIND, "message": text, …}}.

    do        fields                          ok
    observe   wait_s                          Snapshot (under the shared lock, which is given back at once)
    lock      by, wait_s                      Snapshot (under the exclusive lock, which is kept)
    execute   step, deadline_s                {"entry": LedgerEntry | null, "vgpu": VgpuFact | null, "note": text | null,
                                               "scheduler": SchedulerFact | null (as read back, set_scheduler only)}
    sample    wait_s, since                   SampleReport (as observe; since: {GPU's PCI address: us})
    ping                                      {}
    unlock    gpu_uuids (a list)              Snapshot of these GPUs only; then the lock is given back

`gpu` is a GPU's PCI address wherever it stands, and `gpu_uuid` its UUID. Every key of every object is always there; what is unknown is null and has a row in Snapshot["unknown"] saying why.
Python 3.9: this file runs on the hypervisor.
"""

from typing import Dict, Final, List, Literal, Optional, TypedDict, Union

PROTOCOL = 2
MAGIC = "VGPUMGR/1 "
# Without a line from the lock's owner for so long, the host program gives the lock back and ends. Longer than libvirt's own
# wait for a busy domain (30 s) and the time between two pings (8 s): what waits inside of libvirtd has ended by then.
LEASE_S = 40.0
MAX_LINE_BYTES = 16 * 1024 * 1024
LEDGER_PATH = "/var/lib/vgpumgr/ledger.json"
LEDGER_VERSION = 2
LOCK_PATH = "/root"

# frameworks (how the driver offers vGPUs)
FrameworkName = Literal["mdev-pf", "mdev-vf", "vendor-vfio"]
MDEV_PF: Final = "mdev-pf"  # pre-Ampere: mdev types on the physical function
MDEV_VF: Final = "mdev-vf"  # Ampere and later on older kernels: mdev types on each SR-IOV virtual function
VENDOR_VFIO: Final = "vendor-vfio"  # kernels where the driver dropped mdev: nvidia/current_vgpu_type on each VF

# modes of a GPU
Mode = Literal["equal-size", "mixed-size", "mig"]
EQUAL_SIZE: Final = "equal-size"
MIXED_SIZE: Final = "mixed-size"
MIG: Final = "mig"

# states of a ledger's entry: on disk before the hardware is made, while it stands, and before it goes
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
IN_USE = "InUse"  # vm (its owner, or null), holders (one line each): nothing was written, else the message says what
NOT_YET = (
    "NotYet"  # vm, waits_for (one line each): nothing was written; what still has the vGPU ends by itself: ask again
)
SYSFS_REFUSED = "SysfsRefused"  # path (below /sys, or in /etc/modprobe.d), errno, read_back
DEADLINE = "Deadline"  # path: the write had not returned in time; it may still happen
STUCK = "Stuck"  # gpu (its PCI address), path, pid, since: an earlier write there has not returned; nothing was written
LEDGER_BROKEN = "LedgerBroken"  # path
LEDGER_UNWRITABLE = (
    "LedgerUnwritable"  # path, errno; written: whether the step's own write to the hardware was done before
)
NOT_ROOT = "NotRoot"
BAD_REQUEST = "BadRequest"
INTERNAL = "Internal"
NVML_REFUSED = "NvmlRefused"  # function, code (NVML's number; 0: taken, without effect); message has NVML's text

# scheduler policies, as people write them
Policy = Literal["best-effort", "equal-share", "fixed-share"]
BEST_EFFORT: Final = "best-effort"
EQUAL_SHARE: Final = "equal-share"
FIXED_SHARE: Final = "fixed-share"

# verbs of steps
CREATE_VGPU = "create_vgpu"
DESTROY_VGPU = "destroy_vgpu"
PARK_VGPU = "park_vgpu"
SET_SCHEDULER = "set_scheduler"
WRITE_MODPROBE = "write_modprobe"


class Hello(TypedDict):
    protocol: int
    pid: int
    euid: int
    python: str
    boot: str


class TypeFact(TypedDict):
    """One vGPU type of one GPU. `name` is the driver's whole name, `max` per GPU in equal-size mode."""

    id: int
    name: str
    max: Optional[int]
    framebuffer_mib: Optional[int]


class CreatableFact(TypedDict):
    """What one parent would take now; `available` is how many (mdev's available_instances; 1 on a vendor-vfio VF)."""

    id: int
    name: str
    available: int


class VgpuFact(TypedDict):
    """A vGPU that exists. `vfio` are the /dev/vfio paths a holder would have open; `uuid` is null on vendor-vfio."""

    uuid: Optional[str]
    type_id: Optional[int]
    type_name: Optional[str]
    placement_id: Optional[int]
    vfio: List[str]


class ParentFact(TypedDict):
    """A PCI function that vGPUs are made on: the PF (mdev-pf, vf_index null, many vGPUs) or a VF (at most one).

    `vfio_dev`: whether the VF of a vendor-vfio GPU has its vfio-dev directory, by which libvirt knows that it may leave it
    bound to nvidia (libvirt 9.7, virpci.c; Linux 6.1 and newer have it). Null: not read, or mdevs are what is made.
    """

    pci: str
    vf_index: Optional[int]
    driver: Optional[str]
    vfio_dev: Optional[bool]
    creatable: Optional[List[CreatableFact]]
    vgpus: List[VgpuFact]


class SchedulerCapsFact(TypedDict):
    """What NVML says that the driver would take (nvmlVgpuSchedulerCapabilities_t); it clamps silently what lies beyond.

    `arr`: adaptive (strict) round robin is known to the driver. Time slices in ns, frequencies in Hz.
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
    """How one engine is shared now. Null: unknown, or (slice and factor) no vGPU is active, when NVML gives 0.

    `engine` is graphics, nvenc0 or nvenc1; the v1 call knows no engines, and its one row is graphics.
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


class GpuFact(TypedDict):
    """A physical function. `framework` is null where neither mdev nor nvidia/ directories are there; `problem` says why."""

    pci: str
    uuid: Optional[str]
    name: Optional[str]
    pci_id: str
    framework: Optional[FrameworkName]
    problem: Optional[str]
    mode: Optional[Mode]
    numa_node: Optional[int]
    vfs_total: Optional[int]
    vfs: Optional[int]
    framebuffer_mib: Optional[int]
    types: Optional[List[TypeFact]]
    parents: List[ParentFact]
    scheduler: Optional[SchedulerFact]


class HandleFact(TypedDict):
    """A process that has a node of a vGPU open: a /dev/vfio path, or the driver's own /dev/nvidia-vgpuN (the vGPU plugin).

    VM name and uuid as its command line gives them; `start` as in QemuFact.
    """

    path: str
    pid: int
    start: int
    command: str
    vm_name: Optional[str]
    vm_uuid: Optional[str]


class QemuFact(TypedDict):
    """A QEMU that is not gone, whatever its state: one that is ending (or has no descriptor at all) may have its vGPU yet.

    `start`: clock ticks since the boot (field 22 of /proc/PID/stat), with which a pid is one process; `state` as there. Its VM's
    name and uuid as its command line gives them; `machine` is libvirt's name for it (qemu-3-vm01), out of its control group,
    where the command line is gone. All three null: it cannot be told whose it is.
    """

    pid: int
    start: int
    state: str
    command: str
    ending: bool
    vm_name: Optional[str]
    vm_uuid: Optional[str]
    machine: Optional[str]


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


class OurVgpu(TypedDict):
    """A vGPU of ours: whose it is, where it is, what it is. `uuid` is null where it is a VF with a type of its own."""

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


class LedgerEntry(OurVgpu):
    """Our ownership of one vGPU, written before the hardware is touched. state: planned, made or leaving."""

    boot: str
    state: EntryState


class FreedFact(TypedDict):
    """The vGPU of a slot and generation that was taken away on purpose, and not made again since."""

    vm_uuid: str
    slot: str
    generation: int


class StuckFact(TypedDict):
    """A write to a file of /sys that was begun and has not returned: its GPU takes no more until it has.

    `pid` and `start` (field 22 of /proc/PID/stat) tell the process that sleeps in it, `boot` the boot; `since` is when it was
    begun (RFC 3339, UTC). `vfio` are the paths that a holder of the vGPU has open which it was to take away.
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
    """A file of /etc/modprobe.d that has an `options nvidia` line, whole; vgpumgr.conf, whatever it has."""

    path: str
    text: str


class ModuleFact(TypedDict):
    """What the nvidia module was loaded with: two lines of /proc/driver/nvidia/params; empty where nothing was given."""

    registry_dwords: str
    registry_dwords_per_device: str


class UnknownFact(TypedDict):
    what: str
    why: str


class Snapshot(TypedDict):
    """Facts about one host, read afresh. `handles` and `active` null means: cannot tell, so everything is in use.

    `qemus` is read with `handles`, and null with it.
    `silent`: the GPUs (PCI address) of which NVML alone does not tell what runs there, and why; there all is in use.
    `ledger` and `stuck` are of one file, and null together. `ledger_file`: whether there is one, readable or not; without
    one `ledger` is empty, since nothing of ours was ever made there, or because the file was lost. `freed` is of that file, too: the newest of what
    was freed; empty where `ledger` is null.
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
    ledger_file: bool
    stuck: Optional[List[StuckFact]]
    modprobe: Optional[List[ModprobeFact]]
    module: Optional[ModuleFact]
    unknown: List[UnknownFact]


class UnwritableFact(TypedDict):
    """Why nothing can be written where the ledger lies: the folder that was tried, and the errno's name (ENOSPC, EROFS)."""

    path: str
    errno: str


class Locked(Snapshot):
    """What `lock` answers: the facts under the lock, and whether the ledger can be written, null where it can.

    Tried with a file that never has a name, so that a run that changes nothing leaves nothing.
    """

    unwritable: Optional[UnwritableFact]


class VgpuSampleFact(TypedDict):
    """A running vGPU: whose it is (as in ActiveFact; with the VF its index), its memory now, and the sample since `since`.

    `at_us`: the sample's own time, us since the epoch, null where there is none newer; then the four are null, too. They
    are whole percent of the whole GPU, over the time since `since` (nvmlDeviceGetVgpuUtilization).
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


class GpuSampleFact(TypedDict):
    """A physical function. `sm` and `memory`: percent of time in the driver's last period (nvmlDeviceGetUtilizationRates).

    `policy`: how the graphics engine is shared. `types`: those of its running vGPUs and of the ledger's entries. `made`:
    how many vGPUs sysfs shows on it, whether they run or not. `vgpus` null: it cannot be told what runs.
    """

    pci: str
    uuid: Optional[str]
    name: Optional[str]
    framebuffer_bytes: Optional[int]
    framebuffer_used_bytes: Optional[int]
    sm: Optional[int]
    memory: Optional[int]
    policy: Optional[Policy]
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
    """One change of hardware and ledger. The entry's own keys, and what must be found first.

    verb create_vgpu: expect "empty" (no vGPU there, no other entry) or "same" (a vGPU of this type and uuid is there
    and is to be entered as ours). verb destroy_vgpu: expect "present" (exactly this vGPU is there) or "absent" (only the
    entry is left). verb park_vgpu: expect "present"; the vGPU goes, and its entry, which must be made, stays as it is.
    `runs`: the VM runs without this vGPU. `listed`: NVML had it in its list of active vGPUs when this was planned, though its VM
    is off: it must have left that list.
    """

    verb: str
    expect: Expect
    runs: bool
    listed: bool


class SchedulerSetting(TypedDict):
    """What NVML is told. Null: the driver's default. A time slice goes with arr false; the other two with arr true or null."""

    policy: Policy
    arr: Optional[bool]
    averaging_factor: Optional[int]
    frequency_hz: Optional[int]
    time_slice_ns: Optional[int]


class SchedulerStep(TypedDict):
    """verb set_scheduler: every engine of the GPU gets the setting. `expect`: the policy of each engine, as was read.

    An engine that has the wanted policy already passes, too. Graphics must take it; what else does not is the answer's note.
    """

    verb: str
    gpu_uuid: str
    gpu: str
    api: int
    setting: SchedulerSetting
    expect: Dict[str, Optional[Policy]]


class ModprobeStep(TypedDict):
    """verb write_modprobe: the file /etc/modprobe.d/NAME.conf gets this text (null: it goes); expect: its text before.

    A file that has the text already passes, too. A symbolic link is refused (SysfsRefused, ELOOP).
    """

    verb: str
    path: str
    text: Optional[str]
    expect: Optional[str]


AnyStep = Union[Step, SchedulerStep, ModprobeStep]
