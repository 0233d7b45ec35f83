"""The answer to `symptoms`: what only doctor asks, about the host's drivers, services and libvirt."""

from typing import List, Optional, TypedDict

from .snapshot import UnknownFact


class FunctionFact(TypedDict):
    """An NVIDIA display or 3D function. `physfn`: of a virtual function, the physical one's address.

    `driver`: what the kernel has bound to it; null: nothing. `total_vfs`: null if the function has no SR-IOV.
    """

    pci: str
    pci_id: str
    physfn: Optional[str]
    driver: Optional[str]
    total_vfs: Optional[int]
    iommu_group: bool


class ModuleVersionFact(TypedDict):
    """A loaded kernel module for NVIDIA's GPUs. `version`: null if it states none."""

    name: str
    version: Optional[str]


class UnitFact(TypedDict):
    """A systemd unit that is installed: its ActiveState, and its UnitFileState (empty if it has no file)."""

    name: str
    active: str
    file: str


class ClientFact(TypedDict):
    """A process that has a node of NVIDIA's driver open, /dev/nvidia0 or a GPU's unbindLock."""

    path: str
    pid: int
    command: str


class MdevDefinitionFact(TypedDict):
    """A definition of mdevctl. `auto`: whether it is started with its parent."""

    parent: str
    uuid: str
    type: str
    auto: bool


class OnShutdownFact(TypedDict):
    """What libvirt-guests does with running VMs, and the file that says so: its configuration, or the script itself."""

    path: str
    action: str


class Symptoms(TypedDict):
    """Read afresh, without the host's lock. Null: it could not be read, and `unknown` says why.

    `library`: the version of NVML's library on disk, null if its name has none. `host_driver`: whether the driver's
    sriov-manage is installed. `units` is empty on a host without systemd. `log`: the driver's newest different lines
    of this boot, the kernel's first; empty if they cannot be read. `clock`: the host's time, seconds since the epoch.
    """

    functions: List[FunctionFact]
    modules: Optional[List[ModuleVersionFact]]
    library: Optional[str]
    host_driver: bool
    units: Optional[List[UnitFact]]
    clients: Optional[List[ClientFact]]
    definitions: Optional[List[MdevDefinitionFact]]
    on_shutdown: Optional[OnShutdownFact]
    log: List[str]
    clock: int
    unknown: List[UnknownFact]
