"""The driver state of one simulated host, as plain data: what /sys, NVML and nvidia-smi all show.

Only vgpumgr.lab.driver changes it, under one lock; everything else reads (inside `Driver.reading()`).
"""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class TypeSpec:
    """One vGPU type of a board. `name` is the driver's whole name; sizes are nominal MiB; `max_instances` per GPU."""

    id: int
    name: str
    series: str
    framebuffer_mib: int
    max_instances: int


@dataclass(frozen=True, slots=True, kw_only=True)
class BoardSpec:
    """A board: `name` is what NVML and /proc say (NVIDIA A40), `code` the type names' first part (A40).

    `vfs` is 0 where there is no SR-IOV (pre-Ampere). `placements` says whether the driver reports placement ids in
    equal-size mode (from Ada on).
    """

    name: str
    code: str
    pci_device_id: int
    framebuffer_mib: int
    vfs: int
    placements: bool
    types: tuple[TypeSpec, ...]


@dataclass(slots=True, kw_only=True)
class Vgpu:
    """A vGPU that exists. `uuid` is None on vendor-vfio; `instance` is NVML's handle; `group` the IOMMU group number.

    `holder_*` are set while a (simulated) VM holds it: it is then on NVML's active list and cannot be removed.
    `leaving` is set while a removal waits for the holder: gone from /sys already, its place not yet free.
    """

    type: TypeSpec
    uuid: str | None
    vf: int | None
    instance: int
    group: int
    placement_id: int | None = None
    params: str = ""
    holder_uuid: str | None = None
    holder_name: str | None = None
    leaving: bool = False


@dataclass(slots=True, kw_only=True)
class Gpu:
    """A physical function. `vfs_on` says whether SR-IOV is enabled (always False on mdev-pf).

    IOMMU groups: the PF has `first_group`, VF n has first_group + 1 + n. `first_vfio` is VF 0's /dev/vfio/devices number.
    """

    pci: str
    uuid: str
    board: BoardSpec
    framework: str
    numa_node: int
    vfs_on: bool
    first_group: int
    first_vfio: int
    vgpus: list[Vgpu] = field(default_factory=list)


@dataclass(frozen=True, slots=True, kw_only=True)
class ForeignSpec:
    """A vGPU that somebody else made: there at the first boot, lost at a reboot like all.

    `vf` is None on mdev-pf, `uuid` None on vendor-vfio; `vm` is the VM whose definition names it, if one does.
    """

    gpu: str
    vf: int | None
    type_id: int
    uuid: str | None
    vm: str | None


@dataclass(slots=True, kw_only=True)
class HostState:
    """Everything the driver of one host knows. `faults` are names such as create-eio."""

    name: str
    driver_version: str
    machine_id: str
    boot_id: str
    gpus: list[Gpu]
    foreign: tuple[ForeignSpec, ...] = ()
    faults: set[str] = field(default_factory=set)


@dataclass(frozen=True, slots=True, kw_only=True)
class VmSpec:
    """A VM that the lab defines. `ours` is False for one that nobody's inventory or example speaks of."""

    name: str
    uuid: str
    machine: str = "q35"
    memory_mib: int = 64
    ours: bool = True
