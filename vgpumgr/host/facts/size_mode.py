"""The mode of a GPU: whether its vGPUs are of one size, of several, or it is divided by MIG."""

from typing import Any, Optional

from ..protocol.gpu import EQUAL_SIZE, MIG, MIXED_SIZE, Mode
from .mig import NOT_THERE, Switch, read_switch
from .scheduler import NvmlFailed, ask


def read_mode(nvml: Any, handle: Any) -> Mode:
    """Read the mode of the GPU. Raises NvmlFailed."""
    return mode_with(nvml, handle, read_switch(nvml, handle))


def mode_with(nvml: Any, handle: Any, mig: Optional[Switch]) -> Mode:
    """The mode of the GPU, whose MIG switch has been read already.

    MIG takes precedence over mixed-size, which is then a setting of each GPU instance (nvml.h 13), not of the GPU.
    Raises NvmlFailed.
    """
    if mig is not None and mig.enabled:
        return MIG
    try:
        return MIXED_SIZE if ask(nvml, "nvmlDeviceGetVgpuHeterogeneousMode", handle) else EQUAL_SIZE
    except NvmlFailed as error:
        if error.code in NOT_THERE:
            return EQUAL_SIZE
        raise
