"""vGPUs on kernels where the driver dropped mdev: nvidia/current_vgpu_type on each virtual function."""

import re
from typing import Dict

from ..files import read

CURRENT = "nvidia/current_vgpu_type"
CREATABLE = "nvidia/creatable_vgpu_types"

_ID_FIRST = re.compile(r"(\d+)\s*:?\s+(\S.*)|(\d+)\s*:\s*(\S.*)")
_ID_LAST = re.compile(r"(\S.*?)\s*:?\s+(\d+)")


def parse_creatable(text: str) -> Dict[int, str]:
    """Read creatable_vgpu_types: {id: name}.

    Seen in the wild: a header `ID    : vGPU Name` or none, rows `1145  : NVIDIA L40S-1B`, and rows the other way
    round, `NVIDIA A40-2Q  558`. Any other row is skipped.
    """
    types: Dict[int, str] = {}
    for line in text.splitlines():
        row = line.strip()
        first = _ID_FIRST.fullmatch(row)
        if first is not None:
            types[int(first[1] or first[3])] = first[2] or first[4]
            continue
        last = _ID_LAST.fullmatch(row)
        if last is not None:
            types[int(last[2])] = last[1].rstrip(" \t:")
    return types


def read_current(function: int) -> int:
    """The type id set on the VF (an open directory), 0 for none. Raises OSError, or ValueError if it is no number."""
    return int(read(CURRENT, function))


def read_creatable(function: int) -> Dict[int, str]:
    """What the VF would take now, {id: name}. Raises OSError."""
    return parse_creatable(read(CREATABLE, function))
