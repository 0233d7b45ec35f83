"""How the simulated nvidia-smi has the driver change something: by one line (vgpumgr.lab.nvml.request)."""

from __future__ import annotations

import errno
import os

from .state import (
    DRIVER_NOT_LOADED,
    IN_USE,
    INSUFFICIENT_RESOURCES,
    INVALID_ARGUMENT,
    NO_PERMISSION,
    NOT_SUPPORTED,
    UNKNOWN,
    state_path,
)

_MEANINGS = {
    errno.EOPNOTSUPP: NOT_SUPPORTED,
    errno.EINVAL: INVALID_ARGUMENT,
    errno.EBUSY: IN_USE,
    errno.ENOSPC: INSUFFICIENT_RESOURCES,
    errno.EACCES: NO_PERMISSION,
    errno.EPERM: NO_PERMISSION,
    errno.ENODEV: DRIVER_NOT_LOADED,
    errno.ENOENT: DRIVER_NOT_LOADED,
}


def request(line: str) -> int:
    """Write the line and wait for the driver; return NVML's error number, 0 for success."""
    try:
        descriptor = os.open(state_path(), os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC)
        try:
            os.write(descriptor, line.encode("ascii") + b"\n")
        finally:
            os.close(descriptor)
    except OSError as error:
        return _MEANINGS.get(error.errno or 0, UNKNOWN)
    return 0
