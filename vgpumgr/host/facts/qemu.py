"""Which VM a process is: by its command line or, if that is gone, by the control group that libvirt put it into."""

import os
import re
from contextlib import suppress
from typing import FrozenSet, List, NamedTuple, Optional

from ..files import Root, read_all
from ..protocol.snapshot import QemuFact
from .processes import Process

_NAMES = ("qemu", "kvm")  # names of QEMU processes, including /usr/bin/kvm and /usr/libexec/qemu-kvm
_ACCOUNTS = ("libvirt-qemu", "qemu")  # Debian's and Red Hat's
# machine-qemu\x2d3\x2dvm01.scope with systemd, qemu-3-vm01.libvirt-qemu without it
_GROUP = re.compile(r"(?:machine-)?(qemu-\d+-[^/]*)\.(?:scope|libvirt-qemu)")
_ESCAPED = re.compile(r"\\x([0-9a-fA-F]{2})")
_MACHINE = re.compile(r"qemu-\d+-")
_MACHINE_CHARACTERS = 64  # libvirt's virDomainGenerateMachineName


class Vm(NamedTuple):
    """What a QEMU command line says of its VM."""

    name: Optional[str]
    uuid: Optional[str]


def read_command_line(proc: int, pid: int) -> List[str]:
    """A process's arguments; a single empty one if it no longer has any."""
    try:
        return read_all("{}/cmdline".format(pid), proc).decode("utf-8", "replace").split("\0")
    except OSError:
        return [""]


def qemu_owners(root: Root) -> FrozenSet[int]:
    """The users that QEMU runs as: root, the owner of libvirt's folder, and the names used by distributions."""
    uids = {0}
    with suppress(OSError):
        uids.add(os.stat(root.path("/var/lib/libvirt/qemu")).st_uid)
    with suppress(OSError):
        for line in read_all(root.path("/etc/passwd")).decode("utf-8", "replace").splitlines():
            name, _, rest = line.partition(":")
            if name in _ACCOUNTS and rest.count(":") >= 2 and rest.split(":")[1].isdigit():
                uids.add(int(rest.split(":")[1]))
    return frozenset(uids)


def read_qemu(proc: int, process: Process, owners: FrozenSet[int]) -> Optional[QemuFact]:
    """The process as a VM's QEMU; None if it is not one.

    Anybody can choose a process's name and command line. So these count only if the process is of one of `owners`, or
    in a libvirt machine, into which no other user can put one.
    """
    vm, machine = Vm(None, None), None
    by_name = process.name.startswith(_NAMES)
    if by_name or process.ending:
        machine = _read_machine(proc, process.pid)
    uid = _read_uid(proc, process.pid) if by_name or machine is not None else None
    by_name = by_name and (machine is not None or uid is None or uid in owners)
    if not by_name and machine is None:
        return None
    if by_name and not process.ending:
        vm = parse_command_line(read_command_line(proc, process.pid))
    if vm.uuid is not None or vm.name is not None:
        machine = None
    return {
        "pid": process.pid,
        "start": process.start,
        "state": process.state,
        "command": process.name,
        "ending": process.ending,
        "vm_name": vm.name,
        "vm_uuid": vm.uuid,
        "machine": machine,
        "uid": uid,
    }


def _read_uid(proc: int, pid: int) -> Optional[int]:
    """The process's real user id; null if that cannot be read."""
    with suppress(OSError, ValueError):
        for line in read_all("{}/status".format(pid), proc).decode("ascii", "replace").splitlines():
            if line.startswith("Uid:"):
                return int(line.split()[1])
    return None


def is_of(qemu: QemuFact, vm_uuid: str, vm_name: str) -> Optional[bool]:
    """Whether the process is that VM's; None if unknown."""
    if qemu["vm_uuid"] is not None:
        return qemu["vm_uuid"] == vm_uuid
    if qemu["vm_name"] is not None:
        return qemu["vm_name"] == vm_name
    if qemu["machine"] is not None:
        return is_machine_of(qemu["machine"], vm_name)
    return None


def is_machine_of(machine: str, vm_name: str) -> bool:
    """Whether `machine` is libvirt's name for that VM's process.

    That is qemu-N- and the letters, digits, single dots and single dashes of the VM's name, cut to 64 characters.
    """
    prefix = _MACHINE.match(machine)
    if prefix is None:
        return False
    characters: List[str] = []
    for character in vm_name:
        if character in ".-":
            if characters and characters[-1] not in ".-":
                characters.append(character)
        elif character.isascii() and character.isalnum():
            characters.append(character)
    return (prefix[0] + "".join(characters))[:_MACHINE_CHARACTERS].rstrip(".-") == machine.rstrip(".-")


def _read_machine(proc: int, pid: int) -> Optional[str]:
    try:
        text = read_all("{}/cgroup".format(pid), proc).decode("utf-8", "replace")
    except OSError:
        return None
    match = _GROUP.search(_ESCAPED.sub(lambda code: chr(int(code[1], 16)), text))
    return match[1] if match is not None else None


def parse_command_line(arguments: List[str]) -> Vm:
    """Read `-name guest=vm01,debug-threads=on -uuid 6a1f…` as libvirt writes it (a comma in a name is doubled)."""
    return Vm(name=_name(_value(arguments, "-name")), uuid=(_value(arguments, "-uuid") or "").lower() or None)


def command_of(arguments: List[str]) -> str:
    """The program's name, without its folder."""
    return os.path.basename(arguments[0]) or "?"


def _value(arguments: List[str], option: str) -> Optional[str]:
    for at, argument in enumerate(arguments[:-1]):
        if argument in (option, "-" + option):
            return arguments[at + 1]
    return None


def _name(value: Optional[str]) -> Optional[str]:
    if not value:
        return None
    parts = [part.replace("\0", ",") for part in value.replace(",,", "\0").split(",")]
    for part in parts:
        if part.startswith("guest="):
            return part[len("guest=") :] or None
    return parts[0] if parts[0] and "=" not in parts[0] else None
