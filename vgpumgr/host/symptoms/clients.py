"""The processes that keep NVIDIA's driver from being unbound: by a GPU's node, or by its unbindLock."""

import os
import re
from contextlib import suppress
from typing import List, Optional

from ..facts.processes import live_processes
from ..files import Root, Unknowns, directory
from ..protocol.symptoms import ClientFact

_NODE = re.compile(r"/dev/nvidia\d{1,3}|/proc/driver/nvidia/gpus/[0-9a-f:.]{1,20}/unbindLock")
_MOST = 64


def read_clients(root: Root, unknown: Unknowns) -> Optional[List[ClientFact]]:
    """Each process with each such file. A process that hides what it has open is left out: this only explains."""
    facts: List[ClientFact] = []
    try:
        with directory(root.path("/proc")) as proc:
            for process in live_processes(proc):
                if process.pid == os.getpid():
                    continue
                for path in sorted(_open_in(root, proc, process.table)):
                    facts.append({"path": path, "pid": process.pid, "command": process.name})
    except OSError as error:
        unknown.failed("clients", error)
        return None
    return facts[:_MOST]


def _open_in(root: Root, proc: int, table: str) -> "set[str]":
    found = set()
    with suppress(OSError), directory(table, proc) as descriptors:
        for name in os.listdir(descriptors):
            with suppress(OSError):
                path = os.readlink(name, dir_fd=descriptors).removeprefix(root.top)
                if _NODE.fullmatch(path):
                    found.add(path)
    return found
