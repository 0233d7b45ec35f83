"""The mode of a GPU: whether its vGPUs are of one size, of several, or it is divided by MIG."""

from typing import Any, Callable, Optional

from ..protocol import EQUAL_SIZE, MIG, MIXED_SIZE, Mode
from .scheduler import NvmlFailed, ask

_NOT_THERE = (3, 13)  # NOT_SUPPORTED, FUNCTION_NOT_FOUND: the GPU does not have it, or the driver is older than it


def read_mode(nvml: Any, handle: Any) -> Mode:
    """MIG takes precedence over mixed-size, which is then a setting of each GPU instance (nvml.h 13), not of the GPU.

    Raises NvmlFailed.
    """
    if _is_on(lambda: ask(nvml, "nvmlDeviceGetMigMode", handle)[0]):
        return MIG
    return MIXED_SIZE if _is_on(lambda: ask(nvml, "nvmlDeviceGetVgpuHeterogeneousMode", handle)) else EQUAL_SIZE


def _is_on(read: Callable[[], Optional[int]]) -> bool:
    try:
        return bool(read())
    except NvmlFailed as failed:
        if failed.code in _NOT_THERE:
            return False
        raise
