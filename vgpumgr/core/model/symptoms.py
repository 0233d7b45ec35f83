"""What only doctor asks of a host, typed. Unknown is None, with a reason in `unknown`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from vgpumgr.core.model.snapshot import Unknown
    from vgpumgr.names import PciAddress


@dataclass(frozen=True, slots=True, kw_only=True)
class Function:
    """A GPU, or (with `physfn`) a virtual function. `driver` None: nothing is bound; `total_vfs` None: no SR-IOV."""

    pci: PciAddress
    pci_id: str
    physfn: PciAddress | None
    driver: str | None
    total_vfs: int | None
    iommu_group: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ModuleVersion:
    """A loaded kernel module, and the version that it states."""

    name: str
    version: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Unit:
    """An installed systemd unit. `active`: active, inactive, failed …; `file`: enabled, disabled, masked …"""

    name: str
    active: str
    file: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Client:
    """A process that has a GPU's node or unbindLock open."""

    path: str
    pid: int
    command: str


@dataclass(frozen=True, slots=True, kw_only=True)
class MdevDefinition:
    """A definition of mdevctl; `auto`: mdevctl makes it as soon as its parent is there."""

    parent: str
    uuid: str
    type: str
    auto: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class OnShutdown:
    """What libvirt-guests does with running VMs at the host's shutdown, and the file that says so."""

    path: str
    action: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Symptoms:
    """`library`: NVML's version on disk; None: unknown. `host_driver`: whether the vGPU host driver is installed.

    `units`: empty without systemd. The functions' order is that of their addresses. `log`: the driver's newest
    different lines of this boot. `clock`: the host's time when it answered, in seconds since the epoch.
    """

    functions: tuple[Function, ...] = ()
    modules: tuple[ModuleVersion, ...] | None = ()
    library: str | None = None
    host_driver: bool = True
    units: tuple[Unit, ...] | None = ()
    clients: tuple[Client, ...] | None = ()
    definitions: tuple[MdevDefinition, ...] | None = ()
    on_shutdown: OnShutdown | None = None
    log: tuple[str, ...] = ()
    clock: int = 0
    unknown: tuple[Unknown, ...] = ()

    @property
    def gpus(self) -> tuple[Function, ...]:
        """The physical functions."""
        return tuple(one for one in self.functions if one.physfn is None)

    def unit(self, name: str) -> Unit | None:
        return next((one for one in self.units or () if one.name == name), None)

    def module(self, name: str) -> ModuleVersion | None:
        return next((one for one in self.modules or () if one.name == name), None)
