"""The host's libvirtd and virtlogd, run as root without systemd, and the VMs that the lab defines there."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING
from xml.sax.saxutils import escape

from vgpumgr.errors import LabError
from vgpumgr.lab.machine import emulator
from vgpumgr.lab.machine.machine import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from vgpumgr.lab.driver.model import ForeignSpec, VmSpec
    from vgpumgr.lab.machine.machine import Machine
    from vgpumgr.lab.machine.root import HostRoot

log = logging.getLogger(__name__)

_VIRSH = ("virsh", "-q", "-c", "qemu:///system")
_PID_FILE = "/run/libvirtd.pid"
_LOG_PID_FILE = "/run/virtlogd.pid"
_ATTEMPTS = 3
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
    machine.must([*_VIRSH, "uri"])


def stop(machine: Machine) -> None:
    """Kill libvirtd (not virtlogd, and no guest), as if it had crashed."""
    pid = machine.alive(_PID_FILE)
    if pid is not None:
        machine.must(["kill", "-KILL", str(pid)])
        wait_until(lambda: machine.alive(_PID_FILE) is None, "the end of libvirtd")


def define(machine: Machine, root: HostRoot, documents: Iterable[str]) -> None:
    """Define all these VMs with one virsh call. Raises LabError with what virsh said.

    The first definition may make libvirtd start QEMU to learn its capabilities. If that QEMU is killed, for want of memory perhaps, only
    this definition fails: the next one starts QEMU again. So all VMs are defined once more, which changes nothing about the others.
    """
    commands = []
    for number, document in enumerate(documents):
        root.write(f"tmp/define/{number}.xml", document, mode=0o600)
        commands.append(f"define /tmp/define/{number}.xml")
    if not commands:
        return
    left = _ATTEMPTS
    while said := _failures(machine, commands):
        left -= 1
        if not left:
            raise LabError("virsh did not define every VM of the host", details=said.splitlines())
        log.warning("not every VM was defined: %s", said)
    machine.must(["rm", "-rf", "/tmp/define"])


def _failures(machine: Machine, commands: Sequence[str]) -> str:
    """What virsh said of those of its commands that failed: its status is that of the last one alone, so stderr counts."""
    done = machine.run([*_VIRSH, "; ".join(commands)])
    said = done.stderr.strip()
    return said or (f"virsh ended with {done.returncode}" if done.returncode else "")


def inactive_xml(machine: Machine, name: str) -> str | None:
    """A VM's definition; None if the host has no such VM."""
    done = machine.run([*_VIRSH, "dumpxml", "--inactive", "--", name])
    return done.stdout if done.returncode == 0 else None


def vm_names(machine: Machine) -> list[str]:
    return machine.must([*_VIRSH, "list", "--all", "--name"]).split()


def start_guest(machine: Machine, root: HostRoot, document: str) -> None:
    """Start a VM, with its vGPUs, from its definition; that one stays as it is (virDomainCreateXML of a defined domain)."""
    name = "run/lab-start.xml"
    root.write(name, emulator.prepared(document), mode=0o600)
    try:
        machine.must([*_VIRSH, "create", f"/{name}"])
    finally:
        machine.run(["rm", "-f", f"/{name}"])


def runs(machine: Machine, name: str) -> bool:
    return machine.run([*_VIRSH, "domid", "--", name]).stdout.strip().isdigit()


def destroy(machine: Machine, name: str) -> bool:
    """Power off a running VM at once; return whether it ran."""
    return machine.run([*_VIRSH, "destroy", "--", name]).returncode == 0


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
