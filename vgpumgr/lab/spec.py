"""What a lab consists of: hosts, boards, VMs and what its inventory declares, as frozen values."""

from __future__ import annotations

import uuid as uuid_module
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

from vgpumgr.core.model.snapshot import MDEV_PF, MDEV_VF, VENDOR_VFIO
from vgpumgr.lab.driver import scheduler
from vgpumgr.lab.driver.model import ForeignSpec, Gpu, HostState, Scheduling, VmSpec

if TYPE_CHECKING:
    from collections.abc import Mapping

    from vgpumgr.core.model.snapshot import FabricManager
    from vgpumgr.lab.driver.model import BoardSpec, ForeignInstance

CERTIFIED = ("hosts", "users")
FRAMEWORKS = (MDEV_PF, MDEV_VF, VENDOR_VFIO)

# slot → wish as the inventory writes it: {"vgpu0": {"profile": "4Q"}}
Slots: TypeAlias = "Mapping[str, Mapping[str, str]]"


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuSpec:
    """One physical function of a host, at its address. `mig`: it starts in MIG mode, with these instances.

    `nvlink`: it is linked with those of the host's other GPUs that have `nvlink` set, too.
    """

    pci: str
    uuid: str
    board: BoardSpec
    framework: str
    numa_node: int
    mig: bool = False
    instances: tuple[ForeignInstance, ...] = ()
    nvlink: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class FabricSpec:
    """An NVSwitch fabric of all GPUs of a host. `switches`: how many are PCI functions. `mode`: FABRIC_MODE."""

    switches: int = 0
    manager: FabricManager = "absent"
    mode: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class HostSpec:
    """One simulated host. `scheduler_counts_idle`: whether a vGPU that no VM holds blocks a scheduler change, too.

    `faults`: those that it has from the start. `via`: the jump hosts on the way to it. `is_jump`: whether it is itself
    a jump host, a machine with an sshd and nothing else.
    """

    name: str
    machine_id: str
    driver_version: str
    gpus: tuple[GpuSpec, ...]
    foreign: tuple[ForeignSpec, ...] = ()
    vms: tuple[VmSpec, ...] = ()
    scheduler_counts_idle: bool = True
    fabric: FabricSpec | None = None
    faults: tuple[str, ...] = ()
    via: tuple[str, ...] = ()
    is_jump: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetSpec:
    """A whole lab: its machines, and what its inventory declares."""

    name: str
    hosts: tuple[HostSpec, ...]
    declared: Mapping[str, Mapping[str, Slots]] = field(default_factory=dict)  # by the inventory: host → VM → slot
    jumps: tuple[HostSpec, ...] = ()  # jump hosts, which the inventory does not manage
    certificates: tuple[str, ...] = ()  # which of CERTIFIED have certificates instead of keys

    @property
    def machines(self) -> tuple[HostSpec, ...]:
        """All machines that the lab starts: the jump hosts, then the hosts."""
        return (*self.jumps, *self.hosts)

    def host(self, name: str) -> HostSpec:
        """The machine of that name. The spec must have it."""
        return next(host for host in self.machines if host.name == name)


def lab_uuid(fleet: str, *parts: str) -> str:
    """A UUID that is the same for the same object of the same lab, every time the lab comes up."""
    return str(uuid_module.uuid5(uuid_module.NAMESPACE_URL, "/".join(("urn:vgpumgr:lab", fleet, *parts))))


def host_state(host: HostSpec, *, boot_id: str) -> HostState:
    """The driver's state on a new host, without vGPUs and instances; Driver.make_foreign() creates the foreign ones."""
    gpus: list[Gpu] = []
    group, vfio = 20, 0  # lower numbers belong to a machine's own devices, which the lab does not show
    for gpu in host.gpus:
        gpus.append(
            Gpu(
                pci=gpu.pci,
                uuid=gpu.uuid,
                board=gpu.board,
                framework=gpu.framework,
                numa_node=gpu.numa_node,
                vfs_on=False,
                first_group=group,
                first_vfio=vfio,
                schedulers=dict.fromkeys(scheduler.engines(gpu.board), Scheduling()),
                mig_on=gpu.mig,
                mig_pending=gpu.mig,
                fabric=_fabric_state(host.fabric),
                links=tuple(one.pci for one in host.gpus if one.nvlink and gpu.nvlink and one is not gpu),
            )
        )
        group += 1 + gpu.board.vfs
        vfio += gpu.board.vfs
    return HostState(
        name=host.name,
        driver_version=host.driver_version,
        machine_id=host.machine_id,
        boot_id=boot_id,
        gpus=gpus,
        foreign=host.foreign,
        foreign_instances=tuple(instance for gpu in host.gpus for instance in gpu.instances),
        scheduler_counts_idle=host.scheduler_counts_idle,
        switches=host.fabric.switches if host.fabric else 0,
        faults=set(host.faults),
    )


def _fabric_state(fabric: FabricSpec | None) -> int:
    """The fabric's state as an NVML_GPU_FABRIC_STATE_*.

    It is not supported, not started, or completed by Fabric Manager.
    """
    if fabric is None:
        return 0
    return 3 if fabric.manager == "running" else 1
