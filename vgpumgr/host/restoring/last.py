"""What the last restore wrote. `installed` needs only this, so the code that restores is not imported for it."""

import json
from typing import Optional

from ..facts.boot import boot_id
from ..fields import reader
from ..files import Root, Unknowns, read_all
from ..protocol.restored import RESTORED_PATH, RestoredFact, RestoredVgpuFact
from ..refusal import Refusal


def read_last(root: Root) -> Optional[RestoredFact]:
    """The run of this boot; None if there was none, or its file cannot be read."""
    try:
        fact = _read_fact(json.loads(read_all(root.path(RESTORED_PATH)).decode("utf-8")))
        fact["vgpus"] = [_read_vgpu(vgpu) for vgpu in fact["vgpus"]]
    except (OSError, ValueError, RecursionError, Refusal):
        return None
    return fact if fact["boot"] == boot_id(root, Unknowns()) else None


_read_vgpu = reader(RestoredVgpuFact, "vgpu", {})
_read_fact = reader(RestoredFact, "restored", {"vgpus": (lambda value: isinstance(value, list), "a list")})
