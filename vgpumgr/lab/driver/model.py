"""The driver state of one simulated host, as plain data: what /sys, NVML and nvidia-smi all show.

Only vgpumgr.lab.driver changes it, under one lock; everything else reads (inside `Driver.reading()`).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import IntEnum


class Policy(IntEnum):
    """How time-sliced vGPUs take turns; NVML's numbers (NVML_VGPU_SCHEDULER_POLICY_*)."""

    BEST_EFFORT = 1
    EQUAL_SHARE = 2
    FIXED_SHARE = 3


class Engine(IntEnum):
    """What the driver schedules; NVML's numbers (NVML_VGPU_SCHEDULER_ENGINE_TYPE_*)."""

    GRAPHICS = 1
    NVENC1 = 2
    NVENC0 = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Scheduling:
    """How one engine is shared. None is the driver's default, which depends on the vGPUs that run.

    `arr`: adaptive round robin; `factor` and `frequency_hz` count only with it, `time_slice_ns` only without it.
    """

    policy: Policy = Policy.BEST_EFFORT
    arr: bool = False
    factor: int | None = None
    frequency_hz: int | None = None
    time_slice_ns: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ModuleOptions:
    """The nvidia module's parameters at load: NVreg_RegistryDwords and NVreg_RegistryDwordsPerDevice, as given."""

    registry_dwords: str = ""
    registry_dwords_per_device: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class TypeSpec:
    """One vGPU type of a board. `name` is the driver's whole name; sizes are nominal MiB; `max_instances` per GPU.

    A MIG-backed type names the profile of the GPU instance that it lives in; `per_instance` of its vGPUs share one.
    """

    id: int
    name: str
    series: str
    framebuffer_mib: int
    max_instances: int
    profile: str | None = None
    per_instance: int = 1

    @property
    def display(self) -> tuple[int, int, int, int]:
        """Heads, the largest resolution of one head, and the frame rate limit (vGPU user guide, appendix A.1)."""
        match self.series:
            case "A":
                return 1, 1280, 1024, 60
            case "C":
                return 1, 4096, 2160, 60
            case "B":
                return 4, 5120, 2880, 45
            case _:
                return (4, 7680, 4320, 60) if self.framebuffer_mib >= 2048 else (4, 5120, 2880, 60)


@dataclass(frozen=True, slots=True, kw_only=True)
class InstanceProfile:
    """A board's GPU instance profile: `id` as in `nvidia-smi mig -lgip`, `number` as in NVML_GPU_INSTANCE_PROFILE_*.

    An instance has `slices` compute slices and `size` memory slices, the first of which is one of `starts`. A GPU has
    at most `maximum` of them. `sms` is the number of its multiprocessors.
    """

    id: int
    number: int
    name: str
    slices: int
    size: int
    starts: tuple[int, ...]
    memory_mib: int
    maximum: int
    sms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class MigSpec:
    """What a board is in MIG mode. `width`: its memory slices.

    `needs_reset`: the mode changes with a reset only, and survives a reboot. `shared`: vGPUs may share an instance.
    """

    profiles: tuple[InstanceProfile, ...]
    width: int
    needs_reset: bool
    shared: bool

    def profile(self, name: str) -> InstanceProfile:
        """The profile of that name, which the board has."""
        return next(profile for profile in self.profiles if profile.name == name)


@dataclass(frozen=True, slots=True, kw_only=True)
class BoardSpec:
    """A board: `name` as in NVML and /proc (NVIDIA A40), `code` the first part of its type names (A40).

    `vfs` is 0 without SR-IOV (pre-Ampere); the first VF is `vf_offset` functions after the card. `placements`: the
    driver reports placement ids in equal-size mode (from Ada on). `even_places`: the places divide the framebuffer into
    equal parts, in equal-size and in mixed-size mode (from Blackwell on). A board without VFs has no mixed-size mode.
    `types` are the time-sliced ones, `mig_types` the MIG-backed ones; `mig` is None on a board without MIG.
    """

    name: str
    code: str
    pci_device_id: int
    framebuffer_mib: int
    vfs: int
    placements: bool
    types: tuple[TypeSpec, ...]
    vf_offset: int = 4
    even_places: bool = False
    mig: MigSpec | None = None
    mig_types: tuple[TypeSpec, ...] = ()

    @property
    def all_types(self) -> tuple[TypeSpec, ...]:
        """What the driver lists in either mode, in its order."""
        return tuple(sorted((*self.types, *self.mig_types), key=lambda kind: kind.id)) if self.mig_types else self.types


@dataclass(frozen=True, slots=True, kw_only=True)
class Use:
    """Parts of one GPU's time, in percent of the whole GPU: requested by a guest, or received by it."""

    sm: float = 0.0
    memory: float = 0.0
    encoder: float = 0.0
    decoder: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Stretch:
    """The use of a vGPU from that time (microseconds since the epoch) until the next stretch begins."""

    since_us: int
    use: Use


@dataclass(frozen=True, slots=True, kw_only=True)
class GuestDriver:
    """The NVIDIA driver in a guest. `license`: NVML_GRID_LICENSE_STATE_*; `expires_s`: since the epoch, None: never."""

    version: str
    license: int
    expires_s: int | None


@dataclass(slots=True, kw_only=True)
class Vgpu:
    """A vGPU that exists. `uuid` is None on vendor-vfio; `instance` is NVML's handle; `group` the IOMMU group number;
    `vfio` the number of its VFIO device (vfio-dev/vfioN).

    `number` is that of its character device, /dev/nvidia-vgpuN.

    `holder_*` are set while a (simulated) VM has it open; it is then on NVML's active list, unless that VM is
    `exiting`, its QEMU killed and still closing it. `plugin` is set while the vGPU's plugin, a process of
    nvidia-vgpu-mgr, has its character device open: while the VM runs, and then until the plugin ends.
    `leaving` is set while a removal waits for holder or plugin: the vGPU is off the bus, but its place is not free.
    `wants` and `framebuffer_used` (bytes) are its guest's load, `had` what the GPU recently gave it, oldest first, and
    `guest` the driver in its guest; all four are empty while no VM runs on it. `gpu_instance` is the id of the GPU
    instance that it lives in, in MIG mode.
    """

    type: TypeSpec
    uuid: str | None
    vf: int | None
    instance: int
    group: int
    vfio: int
    number: int
    placement_id: int | None = None
    gpu_instance: int | None = None
    params: str = ""
    holder_uuid: str | None = None
    holder_name: str | None = None
    exiting: bool = False
    plugin: bool = False
    leaving: bool = False
    wants: Use = field(default_factory=Use)
    framebuffer_used: int = 0
    had: list[Stretch] = field(default_factory=list)
    guest: GuestDriver | None = None

    @property
    def runs(self) -> bool:
        """Whether a VM runs on it: what NVML calls active."""
        return self.holder_uuid is not None and not self.exiting


@dataclass(frozen=True, slots=True, kw_only=True)
class ComputeInstance:
    """A compute instance: `start` is its first compute slice within its GPU instance; `serial` is never used again."""

    serial: int
    id: int
    start: int
    slices: int


@dataclass(slots=True, kw_only=True)
class GpuInstance:
    """A GPU instance: `id` is the driver's small number for it, `serial` unlike any other instance's ever."""

    serial: int
    id: int
    profile: InstanceProfile
    start: int
    compute: list[ComputeInstance] = field(default_factory=list)

    @property
    def end(self) -> int:
        """The memory slice after its last one."""
        return self.start + self.profile.size


@dataclass(slots=True, kw_only=True)
class Gpu:
    """A physical function. `vfs_on`: whether SR-IOV is enabled (always False on mdev-pf).

    `schedulers` has the board's engines. `mixed`: mixed-size mode (NVML: heterogeneous). `mig_on`: MIG mode;
    `mig_pending`: after a reset. `lost` are vGPUs that the driver counts but does not show: they were removed while in
    use. `links`: the GPUs at the other ends of its NVLinks. `fabric`: its NVSwitch fabric state as in NVML; 0: none.
    IOMMU groups: the PF has `first_group`, VF n first_group + 1 + n. `first_vfio` is VF 0's /dev/vfio/devices number.
    """

    pci: str
    uuid: str
    board: BoardSpec
    framework: str
    numa_node: int
    vfs_on: bool
    first_group: int
    first_vfio: int
    schedulers: dict[Engine, Scheduling]
    mixed: bool = False
    mig_on: bool = False
    mig_pending: bool = False
    links: tuple[str, ...] = ()
    fabric: int = 0
    past_ids: dict[tuple[int, int], int] = field(
        default_factory=dict
    )  # profile and start → the last id of such an instance
    instances: list[GpuInstance] = field(default_factory=list)
    vgpus: list[Vgpu] = field(default_factory=list)
    lost: list[Vgpu] = field(default_factory=list)

    @property
    def counted(self) -> list[Vgpu]:
        """The vGPUs that occupy a place, including the lost ones."""
        return [*self.vgpus, *self.lost]


@dataclass(frozen=True, slots=True, kw_only=True)
class ForeignSpec:
    """A vGPU that another tool made: present at the first boot, gone after a reboot like all others.

    `vf` is None on mdev-pf, `uuid` None on vendor-vfio; `vm` is the VM whose definition names it, if one does.
    """

    gpu: str
    vf: int | None
    type_id: int
    uuid: str | None
    vm: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ForeignInstance:
    """Another tool's GPU instance, with one compute instance; the driver chooses the place where `start` is None."""

    gpu: str
    profile: str
    start: int | None


@dataclass(slots=True, kw_only=True)
class HostState:
    """Everything the driver of one host knows. `faults` are names such as create-eio.

    `scheduler_counts_idle`: whether a vGPU that no VM holds blocks a scheduler change, too. NVIDIA's header can be read
    both ways. `module` is as of the last boot. `switches`: how many NVSwitches it has as PCI functions.
    """

    name: str
    driver_version: str
    machine_id: str
    boot_id: str
    gpus: list[Gpu]
    foreign: tuple[ForeignSpec, ...] = ()
    foreign_instances: tuple[ForeignInstance, ...] = ()
    scheduler_counts_idle: bool = True
    switches: int = 0
    module: ModuleOptions = field(default_factory=ModuleOptions)
    faults: set[str] = field(default_factory=set)

    @property
    def branch(self) -> int:
        """570 for 570.133.10; 0 if the version does not start with a number."""
        head = self.driver_version.partition(".")[0]
        return int(head) if head.isdecimal() else 0


@dataclass(frozen=True, slots=True, kw_only=True)
class VmSpec:
    """A VM that the lab defines."""

    name: str
    uuid: str
    machine: str = "q35"
    memory_mib: int = 64
