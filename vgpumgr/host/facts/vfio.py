"""Who has a vGPU: the device nodes of a vGPU, the processes that have one of them open, and the QEMUs that are there.

A descriptor counts by what it is, not by what it is called: anybody may have a file of his own that ends in dev/vfio/86, and
QEMU under libvirt opened its nodes in a /dev of its own. So a character device counts by its number. Beside VFIO's nodes
there is the driver's own, /dev/nvidia-vgpuN, which the vGPU plugin (nvidia-vgpu-mgr, a process for each VM) has open from the
start of its VM until some seconds after its end (NVIDIA's open kernel part 525.85.07, nvidia-vgpu-vfio.c).
"""

import errno
import os
import re
import stat
from contextlib import suppress
from typing import Dict, List, NamedTuple, Optional, Set, Tuple

from ..files import Root, directory, link_name, names_in, optional_names, read_all
from ..protocol import HandleFact, QemuFact
from ..refusal import reason
from .processes import Process, live_processes
from .qemu import command_of, parse_command_line, read_command_line, read_qemu

_PREFIX = "/dev/vfio/"
_CONTAINER = "/dev/vfio/vfio"  # opened by every user of VFIO, and names no device
_DELETED = " (deleted)"
_GONE = (errno.ENOENT, errno.ESRCH)  # the process ended while it was looked at
_PLUGIN = re.compile(r"/dev/nvidia-vgpu[0-9]+")
# What a descriptor's own text must have in it to be worth a stat, which may hang on a dead file system.
_WORDS = ("vfio", "nvidia-vgpu")

_MEMORY = 1  # Documentation/admin-guide/devices.txt: null, zero and their like

_Identity = Tuple[str, int, int]


class Unreadable(Exception):
    """Some process's descriptors could not be listed, so it cannot be told what is in use."""


class Users(NamedTuple):
    """Every open device node of a vGPU, and every QEMU that is not gone."""

    handles: List[HandleFact]
    qemus: List[QemuFact]


def device_paths(device: int) -> List[str]:
    """The /dev/vfio paths under which the device (an open sysfs directory) can be opened. Raises OSError."""
    paths = []
    with suppress(FileNotFoundError):
        paths.append(_PREFIX + link_name("iommu_group", device))
    names = optional_names("vfio-dev", device) or ()
    paths.extend("{}devices/{}".format(_PREFIX, name) for name in sorted(names))
    return paths


def is_plugin(path: str) -> bool:
    """Whether a handle's path is the driver's own node of a vGPU, which the vGPU plugin has open."""
    return _PLUGIN.fullmatch(path) is not None


def open_handles(root: Root) -> List[HandleFact]:
    """Every open node of a vGPU of every process, VFIO's container aside. Raises Unreadable where one hides its own."""
    return look(root).handles


def look(root: Root) -> Users:
    """One walk over /proc. Raises Unreadable where a process hides its descriptors."""
    users = Users([], [])
    nodes = _Nodes(root)
    try:
        with directory(root.path("/proc")) as proc:
            for process in live_processes(proc):
                found = _paths_of(proc, process, nodes)
                paths = sorted(path for path in found if path)
                if paths:
                    users.handles.extend(_facts(proc, process, paths))
                # No QEMU that lives is without descriptors: its table went while nobody looked at its flags.
                qemu = read_qemu(proc, process if found else process._replace(ending=True))
                if qemu is not None:
                    users.qemus.append(qemu)
    except OSError as error:
        raise Unreadable("/proc: {}".format(reason(error))) from error
    return users


class _Nodes:
    """The host's device nodes of vGPUs, by what they are; read when the first descriptor may be one."""

    def __init__(self, root: Root) -> None:
        self._root = root
        self._known: Optional[Dict[_Identity, str]] = None
        self._majors: Set[int] = set()

    def path_of(self, status: os.stat_result, text: str) -> str:
        """The node that a descriptor is, as the host names it; empty where it is none. `text` is the descriptor's own."""
        if self._known is None:
            self._known = self._read()
        known = self._known.get(_identity(status))
        if known is not None:
            return known
        # A node that is gone from /dev, or lies in another /dev only, is told by its driver.
        if stat.S_ISCHR(status.st_mode) and os.major(status.st_rdev) in self._majors:
            return _named_by(text)
        return ""

    def _read(self) -> Dict[_Identity, str]:
        self._majors = _vgpu_majors(self._root)
        known: Dict[_Identity, str] = {}
        for folder in ("/dev/vfio", "/dev/vfio/devices", "/dev"):
            with suppress(OSError):
                for name in names_in(self._root.path(folder)):
                    path = "{}/{}".format(folder, name)
                    if path != _CONTAINER and (folder != "/dev" or is_plugin(path)):
                        with suppress(OSError):
                            status = os.stat(self._root.path(path))
                            if not stat.S_ISDIR(status.st_mode):
                                known[_identity(status)] = path
        return known


def _identity(status: os.stat_result) -> _Identity:
    """By number; of what is no device of a driver's own (a simulated host has files, or copies of /dev/null) by its inode."""
    if stat.S_ISCHR(status.st_mode) and os.major(status.st_rdev) != _MEMORY:
        return "device", os.major(status.st_rdev), os.minor(status.st_rdev)
    return "file", status.st_dev, status.st_ino


def _vgpu_majors(root: Root) -> Set[int]:
    """The numbers of the drivers vfio and nvidia-vgpu*, as /proc/devices has them."""
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
    """The nodes that it has open, with an empty text for all else; an empty set where it has no descriptors at all."""
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
    except OSError:  # closed just now, or a file of a user's own file system, which is no device of the host
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
