"""A GPU: its functions, the types that it offers, the vGPUs on it, and how its engines are shared."""

from typing import Final, List, Literal, Optional, TypedDict

from .mig import MigFact

# NVML's verdict on a GPU: off the bus, needs a reset, or its driver is not loaded or of a version other than NVML's
Fault = Literal["lost", "needs-reset", "no-driver"]
NO_DRIVER: Final = "no-driver"

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

# scheduler policies, as users write them
Policy = Literal["best-effort", "equal-share", "fixed-share"]
BEST_EFFORT: Final = "best-effort"
EQUAL_SHARE: Final = "equal-share"
FIXED_SHARE: Final = "fixed-share"


class TypeFact(TypedDict):
    """One vGPU type of one GPU. `name` is the driver's whole name, `max` per GPU in equal-size mode.

    `mig_profile`: the id of the GPU instance profile that a MIG-backed type needs; null for a time-sliced type or a GPU
    without MIG. `max_per_instance`: how many of it one GPU instance takes (NVML from r575 on; null elsewhere).
    """

    id: int
    name: str
    max: Optional[int]
    framebuffer_mib: Optional[int]
    mig_profile: Optional[int]
    max_per_instance: Optional[int]


class CreatableFact(TypedDict):
    """A type that a parent would take now, `available` times (mdev's available_instances; 1 on a vendor-vfio VF)."""

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

    `vfio_dev`: whether a vendor-vfio GPU's VF has its vfio-dev directory, which tells libvirt to leave it bound to
    nvidia (libvirt 9.7, virpci.c; Linux 6.1 and newer). `iommu_group`: whether that VF has an IOMMU group, which it
    needs to be assigned to a VM; `group`: that group. These three are null if unread, or if the GPU's vGPUs are mdevs.
    `creatable`: what it would take now, as an index into the GPU's `offers`.
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
    """How one engine is shared now. Null means unknown; slice and factor are null, too, while no vGPU is active.

    `engine` is graphics, nvenc0 or nvenc1; the v1 call has no engines, and its only row is graphics.
    """

    engine: str
    policy: Optional[Policy]
    arr: Optional[bool]
    averaging_factor: Optional[int]
    time_slice_ns: Optional[int]


class SchedulerFact(TypedDict):
    """The scheduler as set at run time.

    `api`: the version of NVML's calls, 1 (nvmlDevice…SchedulerState) or 2 (…_v2, from r595: each engine separately,
    always with arr).
    """

    api: int
    caps: SchedulerCapsFact
    engines: List[EngineSchedulerFact]


class PlacesFact(TypedDict):
    """The placement ids at which one more vGPU of a type can lie now. It takes `size` of NVML's slots of 1 GiB each."""

    type_id: int
    size: int
    creatable: List[int]


class GpuFact(TypedDict):
    """A physical function. `framework` is null if it has neither mdev nor nvidia/ directories; `problem` says why.

    `offers`: what its parents would take, each distinct list once. `places`: where the types of its offers can lie now;
    null if unreadable or not in mixed-size mode. `mig`: null if unreadable or the board or its driver has no MIG.
    `fault`: what NVML says is wrong with the GPU or its driver; null also without NVML. `fabric`: whether NVML says
    that the GPU is on an NVSwitch fabric (from Hopper on); null if it could not be asked.
    """

    pci: str
    uuid: Optional[str]
    name: Optional[str]
    pci_id: str
    framework: Optional[FrameworkName]
    problem: Optional[str]
    mode: Optional[Mode]
    numa_node: Optional[int]
    local_cpus: Optional[str]
    framebuffer_mib: Optional[int]
    types: Optional[List[TypeFact]]
    offers: List[List[CreatableFact]]
    parents: List[ParentFact]
    places: Optional[List[PlacesFact]]
    mig: Optional[MigFact]
    scheduler: Optional[SchedulerFact]
    fault: Optional[Fault]
    fabric: Optional[bool]
