"""The processes that keep NVIDIA's driver from being unbound: by a GPU's node, or by its unbindLock."""

import re
from typing import List, Optional

from ..facts.clients import open_files
from ..files import Root, Unknowns
from ..protocol.symptoms import ClientFact

_NODE = re.compile(r"/dev/nvidia\d{1,3}|/proc/driver/nvidia/gpus/[0-9a-f:.]{1,20}/unbindLock")
_MOST = 64


def read_clients(root: Root, unknown: Unknowns) -> Optional[List[ClientFact]]:
    """Each such process with each such file, at most 64 rows. Processes that hide their files are left out.

    Null, and noted, if /proc cannot be listed.
    """
    facts: List[ClientFact] = []
    try:
        for process, paths in open_files(root):
            for path in sorted(path.removeprefix(root.top) for path in paths):
                if _NODE.fullmatch(path):
                    facts.append({"path": path, "pid": process.pid, "command": process.name})
    except OSError as error:
        unknown.failed("clients", error)
        return None
    return facts[:_MOST]
