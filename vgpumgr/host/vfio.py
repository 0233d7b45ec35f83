"""Who holds a vGPU open: the /dev/vfio paths of a device, and the processes that have one of them open."""

import errno
import os
from contextlib import suppress
from typing import List, NamedTuple, Optional

from .files import Root, directory, link_name, optional_names, read_all
from .protocol import HandleFact
from .refusal import reason

_PREFIX = "/dev/vfio/"
_CONTAINER = "/dev/vfio/vfio"  # opened by every user of VFIO, and names no device
_DELETED = " (deleted)"
_GONE = (errno.ENOENT, errno.ESRCH)  # the process ended while it was looked at


class Unreadable(Exception):
    """Some process's descriptors could not be listed, so it cannot be told what is in use."""


class Vm(NamedTuple):
    """What a QEMU command line says of its VM."""

    name: Optional[str]
    uuid: Optional[str]


def device_paths(device: int) -> List[str]:
    """The /dev/vfio paths under which the device (an open sysfs directory) can be opened. Raises OSError."""
    paths = []
    with suppress(FileNotFoundError):
        paths.append(_PREFIX + link_name("iommu_group", device))
    names = optional_names("vfio-dev", device) or ()
    paths.extend("{}devices/{}".format(_PREFIX, name) for name in sorted(names))
    return paths


def open_handles(root: Root) -> List[HandleFact]:
    """Every open /dev/vfio path of every process, the container aside. Raises Unreadable where one hides its own."""
    handles: List[HandleFact] = []
    try:
        with directory(root.path("/proc")) as proc:
            for name in sorted(filter(str.isdigit, os.listdir(proc)), key=int):
                paths = _vfio_paths_of(proc, name)
                if paths:
                    handles.extend(_facts(proc, name, paths))
    except OSError as error:
        raise Unreadable("/proc: {}".format(reason(error))) from error
    return handles


def _vfio_paths_of(proc: int, pid: str) -> List[str]:
    try:
        with directory(pid + "/fd", proc) as descriptors:
            found = {_vfio_path(descriptors, name) for name in os.listdir(descriptors)}
    except OSError as error:
        if error.errno in _GONE:
            return []
        raise Unreadable("process {}: {}".format(pid, reason(error))) from error
    return sorted(path for path in found if path)


def _vfio_path(descriptors: int, name: str) -> str:
    try:
        target = os.readlink(name, dir_fd=descriptors)
    except OSError as error:
        if error.errno in _GONE:
            return ""
        raise
    # Seen from here, a path of another mount namespace may carry something in front.
    at = target.find(_PREFIX)
    if at < 0:
        return ""
    path = target[at:].removesuffix(_DELETED)
    return "" if path == _CONTAINER else path


def _facts(proc: int, pid: str, paths: List[str]) -> List[HandleFact]:
    try:
        arguments = read_all(pid + "/cmdline", proc).decode("utf-8", "replace").split("\0")
    except OSError:  # it ended just now; that it held the paths was true when it was seen
        arguments = [""]
    vm = parse_command_line(arguments)
    command = os.path.basename(arguments[0]) or "?"
    return [
        {"path": path, "pid": int(pid), "command": command, "vm_name": vm.name, "vm_uuid": vm.uuid} for path in paths
    ]


def parse_command_line(arguments: List[str]) -> Vm:
    """Read `-name guest=vm01,debug-threads=on -uuid 6a1f…` as libvirt writes it (a comma in a name is doubled)."""
    return Vm(name=_name(_value(arguments, "-name")), uuid=(_value(arguments, "-uuid") or "").lower() or None)


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
