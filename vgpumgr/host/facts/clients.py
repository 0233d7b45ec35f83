"""Which processes have a GPU's own device node open: these block nvidia-smi's reset and sriov-manage."""

import os
import re
from contextlib import suppress
from typing import Iterator, List, Optional, Set, Tuple

from ..files import Root, directory, read_all
from .pci import INFORMATION
from .processes import Process, live_processes

_MINOR = re.compile(r"^Device Minor:\s+([0-9]+)\s*$", re.MULTILINE)  # nv-procfs.c of the open modules


def open_in(root: Root, address: str) -> List[str]:
    """The line `the GPU is open in nv-hostengine (pid 812)`, or no line. It only explains a failure, so it skips
    unreadable processes.
    """
    clients = _clients_of(root, address)
    return ["the GPU is open in {}".format(", ".join(clients))] if clients else []


def _clients_of(root: Root, address: str) -> List[str]:
    clients: List[str] = []
    with suppress(OSError):
        node = _node(root, address)
        for process, paths in open_files(root):
            if node is not None and node in paths:
                clients.append("{} (pid {})".format(process.name, process.pid))
    return clients


def open_files(root: Root) -> "Iterator[Tuple[Process, Set[str]]]":
    """Each process except this one, with the paths that it has open. Raises OSError if /proc cannot be listed."""
    with directory(root.path("/proc")) as proc:
        for process in live_processes(proc):
            if process.pid != os.getpid():
                yield process, set(_open_in(proc, process))


def _node(root: Root, address: str) -> Optional[str]:
    text = read_all(root.path("{}/{}/information".format(INFORMATION, address))).decode("utf-8", "replace")
    minor = _MINOR.search(text)
    return None if minor is None else root.path("/dev/nvidia" + minor.group(1))


def _open_in(proc: int, process: Process) -> Iterator[str]:
    with suppress(OSError), directory(process.table, proc) as table:
        for name in os.listdir(table):
            with suppress(OSError):
                yield os.readlink(name, dir_fd=table)
