"""A process that holds a VM's vGPUs as a running guest would: QEMU itself, without a machine.

The kernel under a lab has no VFIO, so by default no guest can be started with a vGPU. What observers see is the same: a
process with QEMU's name, the VM's name and UUID in its command line, and /dev/vfio/N open.

It has one more file open, whose close waits while the VM counts as exiting (`lab fault HOST slow-exit:SECONDS`). A
killed holder then looks like a QEMU that waits in its last close: a process frees its memory before it closes its files
(do_exit() in kernel/exit.c), so /proc/PID/cmdline and /proc/PID/fd are empty, and only its name, flags and control
group are left.
"""

from __future__ import annotations

import xml.etree.ElementTree as ET
from dataclasses import dataclass
from typing import TYPE_CHECKING

from vgpumgr.errors import LabError
from vgpumgr.lab.machine.machine import wait_until
from vgpumgr.lab.sysfs.tree import GATE_PATH

if TYPE_CHECKING:
    from collections.abc import Sequence

    from vgpumgr.lab.machine.machine import Machine

_FOLDER = "/run/lab-holders"
_PCI_PARTS = ("domain", "bus", "slot", "function")
_QEMU = "/usr/bin/qemu-system-x86_64"
_BARE = ("-S", "-machine", "none", "-nodefaults", "-display", "none", "-monitor", "none", "-daemonize")
# Opens every argument up to `--` and keeps it open across exec: `{name}<>` opens from 10 up, without O_CLOEXEC.
_OPEN_AND_EXEC = 'while [ "$1" != -- ]; do exec {held}<>"$1"; shift; done; shift; exec "$@"'


@dataclass(frozen=True, slots=True, kw_only=True)
class Guest:
    """A VM according to its definition: its identity and its vGPUs (mdev UUIDs, PCI addresses of VFs)."""

    name: str
    uuid: str
    devices: tuple[str, ...]


def read_guest(document: str) -> Guest:
    """Read libvirt's own dump of a domain."""
    domain = ET.fromstring(document)
    devices = []
    for hostdev in domain.iterfind("./devices/hostdev"):
        address = hostdev.find("./source/address")
        if address is None:
            continue
        match hostdev.get("type"):
            case "mdev":
                devices.append(address.get("uuid", "").lower())
            case "pci":
                domain_, bus, slot, function = (int(address.get(part, "0"), 0) for part in _PCI_PARTS)
                devices.append(f"{domain_:04x}:{bus:02x}:{slot:02x}.{function:x}")
            case _:
                pass
    return Guest(name=domain.findtext("name", ""), uuid=domain.findtext("uuid", ""), devices=tuple(devices))


def start(machine: Machine, guest: Guest, nodes: Sequence[str]) -> int:
    """Start the holder with these /dev/vfio nodes open (names below /dev/vfio); return its pid in the host."""
    pid_file = _pid_file(guest.uuid)
    if machine.alive(pid_file) is not None:
        raise LabError(f"{guest.name} is already held", hint=f"vgpumgr lab stop {guest.name}")
    machine.must(["mkdir", "-p", _FOLDER])
    paths = [*(f"/dev/vfio/{node}" for node in nodes), f"/sys{GATE_PATH}/{guest.uuid}"]
    identity = ["-name", f"guest={guest.name},debug-threads=on", "-uuid", guest.uuid]
    machine.must(["bash", "-c", _OPEN_AND_EXEC, "hold", *paths, "--", _QEMU, *identity, *_BARE, "-pidfile", pid_file])
    pid = machine.alive(pid_file)
    if pid is None:
        raise LabError(f"the holder of {guest.name} ended at once")
    return pid


def stop(machine: Machine, vm_uuid: str) -> bool:
    """End the holder; return whether there was one."""
    if not kill(machine, vm_uuid):
        return False
    wait_until(lambda: not is_running(machine, vm_uuid), "the end of the holder")
    return True


def kill(machine: Machine, vm_uuid: str) -> bool:
    """Send SIGKILL to the holder, which can then be exiting for a while; return whether there was one."""
    pid = machine.alive(_pid_file(vm_uuid))
    if pid is not None:
        machine.must(["kill", "-KILL", str(pid)])
    return pid is not None


def is_running(machine: Machine, vm_uuid: str) -> bool:
    return machine.alive(_pid_file(vm_uuid)) is not None


def _pid_file(vm_uuid: str) -> str:
    return f"{_FOLDER}/{vm_uuid}.pid"
