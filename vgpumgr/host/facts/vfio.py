"""Who uses a vGPU: the device nodes of vGPUs, the processes that have one of them open, and the QEMUs that exist.

A descriptor is judged by its device number, not by its path: anybody may have a file whose path ends in dev/vfio/86,
and QEMU under libvirt opened its nodes in a private /dev. In addition to VFIO's nodes there is the driver's,
/dev/nvidia-vgpuN, which the vGPU plugin (nvidia-vgpu-mgr, one process per VM) has open from the start of its VM until
some seconds after its end (NVIDIA's open kernel part 525.85.07, nvidia-vgpu-vfio.c).
"""

import errno
import os
import re
import stat
from contextlib import suppress
from typing import Dict, List, NamedTuple, Optional, Set, Tuple

from ..files import Root, Unknowns, directory, is_there, link_name, names_in, optional_names, read_all
from ..protocol.snapshot import HandleFact, QemuFact
from ..refusal import reason
from .processes import Process, live_processes
from .qemu import command_of, parse_command_line, qemu_owners, read_command_line, read_qemu

_PREFIX = "/dev/vfio/"
_CONTAINER = "/dev/vfio/vfio"  # every user of VFIO opens it, and it names no device
_DELETED = " (deleted)"
_GONE = (errno.ENOENT, errno.ESRCH)  # the process ended while we were reading
_PLUGIN = re.compile(r"/dev/nvidia-vgpu[0-9]+")
# What a descriptor's text must contain to be worth a stat, which may hang on a dead file system.
_WORDS = ("vfio", "nvidia-vgpu")

_MEMORY = 1  # Documentation/admin-guide/devices.txt: null, zero and their like

_Identity = Tuple[str, int, int]


class Unreadable(Exception):
    """Some process's descriptors could not be listed, so it is unknown what is in use."""


class Users(NamedTuple):
    """Every open device node of a vGPU, every QEMU that is not gone, and the names of all processes."""

    handles: List[HandleFact]
    qemus: List[QemuFact]
    names: Set[str]


def device_paths(device: int) -> List[str]:
    """The /dev/vfio paths under which the device (an open sysfs directory) can be opened. Raises OSError."""
    paths = []
    with suppress(FileNotFoundError):
        paths.append(_PREFIX + link_name("iommu_group", device))
    names = optional_names("vfio-dev", device) or ()
    paths.extend("{}devices/{}".format(_PREFIX, name) for name in sorted(names))
    return paths


def has_vfio(root: Root, unknown: Unknowns) -> Optional[bool]:
    """Whether there is VFIO's container; null (and noted) if that is unknown."""
    try:
        return is_there(root.path(_CONTAINER))
    except OSError as error:
        unknown.failed("vfio", error)
        return None


def is_plugin(path: str) -> bool:
    """Whether a handle's path is the driver's node of a vGPU, which the vGPU plugin has open."""
    return _PLUGIN.fullmatch(path) is not None


def open_handles(root: Root) -> List[HandleFact]:
    """Every process's open vGPU device nodes, except VFIO's container. Raises Unreadable if a process hides its own."""
    return look(root).handles


def look(root: Root) -> Users:
    """One walk over /proc. Raises Unreadable if a process hides its descriptors."""
    users = Users([], [], set())
    nodes = _Nodes(root)
    owners = qemu_owners(root)
    try:
        with directory(root.path("/proc")) as proc:
            for process in live_processes(proc):
                users.names.add(process.name)
                descriptors = _paths_of(proc, process, nodes)
                paths = sorted(path for path in descriptors if path)
                if paths:
                    users.handles.extend(_facts(proc, process, paths))
                # A live QEMU always has descriptors: this one lost its table after its flags were read.
                qemu = read_qemu(proc, process if descriptors else process._replace(ending=True), owners)
                if qemu is not None:
                    users.qemus.append(qemu)
    except OSError as error:
        raise Unreadable("/proc: {}".format(reason(error))) from error
    return users


class _Nodes:
    """The host's device nodes of vGPUs, by identity. They are read only when the first descriptor is checked."""

    def __init__(self, root: Root) -> None:
        self._root = root
        self._known: Optional[Dict[_Identity, str]] = None
        self._majors: Set[int] = set()

    def path_of(self, status: os.stat_result, text: str) -> str:
        """The path of the vGPU node that a descriptor has open; empty for another file. `text`: the link's text."""
        if self._known is None:
            self._known = self._read()
        path = self._known.get(_identity(status))
        if path is not None:
            return path
        # A node that is gone from /dev, or exists only in another /dev, is recognised by its driver.
        if stat.S_ISCHR(status.st_mode) and os.major(status.st_rdev) in self._majors:
            return _named_by(text)
        return ""

    def _read(self) -> Dict[_Identity, str]:
        self._majors = _vgpu_majors(self._root)
        nodes: Dict[_Identity, str] = {}
        for folder in ("/dev/vfio", "/dev/vfio/devices", "/dev"):
            with suppress(OSError):
                for name in names_in(self._root.path(folder)):
                    path = "{}/{}".format(folder, name)
                    if path != _CONTAINER and (folder != "/dev" or is_plugin(path)):
                        with suppress(OSError):
                            status = os.stat(self._root.path(path))
                            if not stat.S_ISDIR(status.st_mode):
                                nodes[_identity(status)] = path
        return nodes


def _identity(status: os.stat_result) -> _Identity:
    """The device number; for anything but a driver's device the inode (simulated hosts have files or /dev/null)."""
    if stat.S_ISCHR(status.st_mode) and os.major(status.st_rdev) != _MEMORY:
        return "device", os.major(status.st_rdev), os.minor(status.st_rdev)
    return "file", status.st_dev, status.st_ino


def _vgpu_majors(root: Root) -> Set[int]:
    """The major numbers of the drivers vfio and nvidia-vgpu*, from /proc/devices."""
    try:
        lines = read_all(root.path("/proc/devices")).decode("ascii", "replace").splitlines()
    except OSError:
        return set()
    pairs = [line.split() for line in lines]
    return {
        int(pair[0])
        for pair in pairs
        if len(pair) == 2 and pair[0].isdigit() and pair[1].startswith(("vfio", "nvidia-vgpu"))
    }


def _named_by(text: str) -> str:
    plugin = _PLUGIN.search(text)
    if plugin is not None:
        return plugin[0]
    at = text.find(_PREFIX)
    path = text[at:].removesuffix(_DELETED) if at >= 0 else ""
    return "" if path == _CONTAINER else path


def _paths_of(proc: int, process: Process, nodes: _Nodes) -> Set[str]:
    """The nodes that a process has open; "" stands for other files. Empty if it has no descriptors at all."""
    try:
        with directory(process.table, proc) as descriptors:
            return {_path(descriptors, name, nodes) for name in os.listdir(descriptors)}
    except OSError as error:
        if error.errno in _GONE:
            return set()
        raise Unreadable("process {}: {}".format(process.pid, reason(error))) from error


def _path(descriptors: int, name: str, nodes: _Nodes) -> str:
    try:
        text = os.readlink(name, dir_fd=descriptors)
    except OSError as error:
        if error.errno in _GONE:
            return ""
        raise
    if not any(word in text for word in _WORDS):
        return ""
    try:
        status = os.stat(name, dir_fd=descriptors)
    except OSError:  # just closed, or a file of a user's file system, which is no device of the host
        return ""
    return nodes.path_of(status, text)


def _facts(proc: int, process: Process, paths: List[str]) -> List[HandleFact]:
    arguments = read_command_line(proc, process.pid)
    vm = parse_command_line(arguments)
    command = command_of(arguments)
    return [
        {
            "path": path,
            "pid": process.pid,
            "start": process.start,
            "command": process.name if command == "?" else command,
            "vm_name": vm.name,
            "vm_uuid": vm.uuid,
        }
        for path in paths
    ]
