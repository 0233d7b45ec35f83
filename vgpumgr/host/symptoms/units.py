"""The systemd units that vGPUs need, and libvirt-guests."""

import subprocess
from typing import Dict, List, Optional

from ..files import Root, Unknowns, is_there
from ..protocol.symptoms import UnitFact
from ..refusal import reason

_UNITS = ("nvidia-vgpud", "nvidia-vgpu-mgr", "nvidia-fabricmanager", "libvirt-guests")
_SYSTEMD = "/run/systemd/system"  # sd_booted(3)
_PROGRAM = "/usr/bin/systemctl"
_PROPERTIES = "Id,LoadState,ActiveState,UnitFileState"
_LIMIT_S = 5.0


def read_units(root: Root, unknown: Unknowns) -> Optional[List[UnitFact]]:
    """The units that are installed. `systemctl show` starts nothing and shows no secrets."""
    try:
        if not is_there(root.path(_SYSTEMD)):
            return []
        done = subprocess.run(
            [root.path(_PROGRAM), "show", "--property=" + _PROPERTIES, *(name + ".service" for name in _UNITS)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            timeout=_LIMIT_S,
            check=True,
        )
    except (OSError, subprocess.SubprocessError) as error:
        unknown.add("units", reason(error) if isinstance(error, OSError) else "systemctl show failed or took too long")
        return None
    return parse_units(done.stdout.decode("utf-8", "replace"))


def parse_units(text: str) -> List[UnitFact]:
    """The blocks that `systemctl show` prints, one for each unit."""
    facts: List[UnitFact] = []
    for block in text.split("\n\n"):
        lines: Dict[str, str] = dict(line.split("=", 1) for line in block.splitlines() if "=" in line)
        if lines.get("LoadState") in ("loaded", "masked") and lines.get("ActiveState"):
            name = lines.get("Id", "?").rpartition(".service")[0]
            facts.append({"name": name, "active": lines["ActiveState"], "file": lines.get("UnitFileState", "")})
    return facts
