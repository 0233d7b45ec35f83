"""The host's libvirtd and virtlogd, run as root without systemd, and the VMs that the lab defines there."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING
from xml.sax.saxutils import escape

import libvirt

from vgpumgr.errors import LabError
from vgpumgr.lab.machine import emulator
from vgpumgr.lab.machine.machine import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from vgpumgr.lab.driver.model import ForeignSpec, VmSpec
    from vgpumgr.lab.machine.machine import Machine
    from vgpumgr.lab.machine.root import HostRoot

_URI = "qemu+unix:///system?socket=/proc/{}/root/run/libvirt/libvirt-sock"
_PID_FILE = "/run/libvirtd.pid"
_LOG_PID_FILE = "/run/virtlogd.pid"
_RETRIES = 2
# libudev refuses a /sys that is not a sysfs; libvirt's node devices come from there.
_EXTRA = {"SYSTEMD_DEVICE_VERIFY_SYSFS": "0"}

# No security driver, no device namespace and no cgroups: the host has none to offer.
_QEMU_CONF = """security_driver = "none"
user = "root"
group = "root"
namespaces = []
cgroup_controllers = []
remember_owner = 0
"""
_LIBVIRTD_CONF = """auth_unix_ro = "none"
auth_unix_rw = "none"
unix_sock_ro_perms = "0700"
unix_sock_rw_perms = "0700"
log_outputs = "3:file:/var/log/libvirt/libvirtd.log"
"""

libvirt.registerErrorHandler(lambda *_: None, None)  # errors are raised; libvirt need not print them as well


def install(root: HostRoot) -> None:
    root.write(emulator.PATH, emulator.PROGRAM, mode=0o755)
    root.write("etc/libvirt/qemu.conf", _QEMU_CONF, mode=0o600)
    root.write("etc/libvirt/libvirtd.conf", _LIBVIRTD_CONF)
    for folder in ("var/log/libvirt/qemu", "var/lib/libvirt/qemu", "var/cache/libvirt/qemu"):
        (root.path / folder).mkdir(parents=True, exist_ok=True)


def start(machine: Machine) -> None:
    """Start the daemons that do not run; returns when libvirtd has loaded its domains and answers."""
    for pid_file, program in ((_LOG_PID_FILE, "virtlogd"), (_PID_FILE, "libvirtd")):
        if machine.alive(pid_file) is None:
            machine.must([program, "--daemon"], extra=_EXTRA)
    with _connection(machine):
        pass


def stop(machine: Machine) -> None:
    """Kill libvirtd (not virtlogd, and no guest), as if it had crashed."""
    pid = machine.alive(_PID_FILE)
    if pid is not None:
        machine.must(["kill", "-KILL", str(pid)])
        wait_until(lambda: machine.alive(_PID_FILE) is None, "the end of libvirtd")


def define(machine: Machine, documents: Iterable[str]) -> None:
    """Define these VMs. Raises LabError with libvirt's words if one of them cannot be defined.

    The first definition may make libvirtd start QEMU to learn its capabilities. If that QEMU is killed, for instance
    for lack of memory, only this definition fails: the next one starts QEMU again.
    """
    with _connection(machine) as connection:
        for document in documents:
            for _ in range(_RETRIES):
                with contextlib.suppress(libvirt.libvirtError):
                    connection.defineXML(document)
                    break
            else:
                connection.defineXML(document)


def vm_names(machine: Machine) -> list[str]:
    with _connection(machine) as connection:
        return sorted(domain.name() for domain in connection.listAllDomains())


def inactive_xml(machine: Machine, name: str) -> str:
    """A VM's definition."""
    with _connection(machine) as connection:
        return connection.lookupByName(name).XMLDesc(libvirt.VIR_DOMAIN_XML_INACTIVE)


def start_guest(machine: Machine, document: str) -> None:
    """Start a VM, with its vGPUs, from this document; its definition stays (virDomainCreateXML of a defined domain)."""
    with _connection(machine) as connection:
        connection.createXML(emulator.prepared(document))


def runs(machine: Machine, name: str) -> bool:
    with _connection(machine) as connection:
        return bool(connection.lookupByName(name).isActive())


def destroy(machine: Machine, name: str) -> bool:
    """Power off a running VM at once; return whether it ran."""
    with _connection(machine) as connection:
        try:
            connection.lookupByName(name).destroy()
        except libvirt.libvirtError as error:
            if error.get_error_code() != libvirt.VIR_ERR_OPERATION_INVALID:
                raise
            return False
        return True


@contextlib.contextmanager
def _connection(machine: Machine) -> Iterator[libvirt.virConnect]:
    """A connection to the host's libvirtd, by the socket in the host's root. Raises LabError with libvirt's words."""
    try:
        with contextlib.closing(libvirt.open(_URI.format(machine.first_process))) as connection:
            yield connection
    except libvirt.libvirtError as error:
        reason, *more = str(error).splitlines()
        raise LabError(f"the host's libvirt: {reason}", details=more) from error


def domain_xml(vm: VmSpec, *, foreign: ForeignSpec | None = None) -> str:
    """An emulated guest without a disk. `foreign` is a foreign vGPU that its definition names."""
    hostdev = ""
    if foreign is not None and foreign.uuid is not None:
        source = f"<source><address uuid='{foreign.uuid}'/></source>"
        hostdev = f"<hostdev mode='subsystem' type='mdev' model='vfio-pci'>{source}</hostdev>"
    return f"""<domain type='qemu'>
  <name>{escape(vm.name)}</name>
  <uuid>{vm.uuid}</uuid>
  <memory unit='MiB'>{vm.memory_mib}</memory>
  <vcpu>1</vcpu>
  <os><type arch='x86_64' machine='{vm.machine}'>hvm</type></os>
  <features><acpi/></features>
  <on_poweroff>destroy</on_poweroff>
  <on_reboot>restart</on_reboot>
  <on_crash>destroy</on_crash>
  <devices>
    {hostdev}
    <memballoon model='none'/>
  </devices>
</domain>
"""
