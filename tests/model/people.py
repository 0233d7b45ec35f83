"""What people do to VMs behind our back, by name: each takes the fleet, the host and the VM, and does nothing where it cannot."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.model.fleet import HOSTS, vm_uuid

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from tests.model.fleet import Fleet
    from tests.model.libvirt_double import Vm

MAX_VMS = 5  # per host, clones included
_SNAPSHOTS = 2


def _start(fleet: Fleet, host: str, vm: Vm) -> None:
    if not vm.active:
        fleet.start(host, vm)


def _stop(fleet: Fleet, host: str, vm: Vm) -> None:
    if vm.active:
        fleet.stop(host, vm)


def _save(fleet: Fleet, host: str, vm: Vm) -> None:
    if vm.active:
        fleet.stop(host, vm, save=True)


def _redefine(*, metadata: bool, hostdevs: bool) -> Callable[[Fleet, str, Vm], None]:
    def redefine(fleet: Fleet, host: str, vm: Vm) -> None:
        fleet.machines[host].libvirt.redefine(vm, metadata=metadata, hostdevs=hostdevs)

    return redefine


def _clone(fleet: Fleet, host: str, vm: Vm) -> None:
    name = f"{vm.name}-clone"
    _define(fleet, host, vm, name, vm_uuid(host, name))


def _move(fleet: Fleet, host: str, vm: Vm) -> None:
    """A cold move or a copy for disaster: the same name and UUID on the other host, and here as well."""
    _define(fleet, HOSTS[1 - HOSTS.index(host)], vm, vm.name, vm.uuid)


def _define(fleet: Fleet, host: str, like: Vm, name: str, uuid: str) -> None:
    libvirt = fleet.machines[host].libvirt
    names = {vm.name for vm in libvirt.vms.values()}
    if uuid not in libvirt.vms and name not in names and len(libvirt.vms) < MAX_VMS:
        libvirt.define(name, uuid, like=like)


def _undefine(fleet: Fleet, host: str, vm: Vm) -> None:
    if not vm.active and vm.image is None:
        del fleet.machines[host].libvirt.vms[vm.uuid]


def _snapshot(fleet: Fleet, host: str, vm: Vm) -> None:
    del fleet, host
    if not vm.active:
        vm.snapshots = [(f"s{len(vm.snapshots)}", vm.inactive), *vm.snapshots][:_SNAPSHOTS]


def _revert(fleet: Fleet, host: str, vm: Vm) -> None:
    del fleet, host
    if not vm.active and vm.snapshots:
        vm.inactive = vm.snapshots[0][1]


def _restore(fleet: Fleet, host: str, vm: Vm) -> None:
    """virsh define with the backup from before the last change."""
    del fleet, host
    older = [document for document in vm.past if document != vm.inactive]
    if older:
        vm.inactive = older[-1]


def _drop_snapshots(fleet: Fleet, host: str, vm: Vm) -> None:
    del fleet, host
    vm.snapshots = []


def _freeze(fleet: Fleet, host: str, vm: Vm) -> None:
    """Its guest no longer answers when it is asked for a device; or does again."""
    del fleet, host
    vm.lets_go = not vm.lets_go


PEOPLE: Mapping[str, Callable[[Fleet, str, Vm], None]] = {
    "starts it": _start,
    "stops it": _stop,
    "saves it": _save,
    "drops its metadata": _redefine(metadata=True, hostdevs=False),
    "drops its hostdevs": _redefine(metadata=False, hostdevs=True),
    "defines it from an old file": _redefine(metadata=True, hostdevs=True),
    "clones it": _clone,
    "moves it": _move,
    "undefines it": _undefine,
    "takes a snapshot": _snapshot,
    "reverts it": _revert,
    "restores it from a backup": _restore,
    "deletes its snapshots": _drop_snapshots,
    "freezes its guest": _freeze,
}
