"""The vGPUs that run, as NVML lists them: what `observe` and `sample` both ask, and what of it may be believed."""

import re
from contextlib import suppress
from typing import Any, Callable, List, Optional

from ..protocol import MDEV_PF, MDEV_VF, FrameworkName
from .scheduler import NvmlFailed, ask

AGAIN_S = 0.2

# INSUFFICIENT_SIZE: one appeared between pynvml's two calls (count, then list). INVALID_STATE and UNKNOWN: the resource
# manager's NV_ERR_INVALID_STATE while a VM starts or stops, its counts not yet equal (open-gpu-kernel-modules 550 to 595,
# vgpuconfigapi.c).
_PASSING = (7, 27, 999)
_UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_ZEROES = "00000000-0000-0000-0000-000000000000"


def running_vgpus(nvml: Any, handle: Any, pause: Callable[[float], None]) -> List[int]:
    """The instances on the GPU's active list. A state that passes by itself is asked about once more. Raises NvmlFailed."""
    try:
        return _active(nvml, handle)
    except NvmlFailed as failed:
        if failed.code not in _PASSING:
            raise
    pause(AGAIN_S)
    return _active(nvml, handle)


def _active(nvml: Any, handle: Any) -> List[int]:
    return [int(instance) for instance in ask(nvml, "nvmlDeviceGetActiveVgpus", handle)]


def mdev_uuid(nvml: Any, instance: int, framework: Optional[FrameworkName]) -> Optional[str]:
    """The UUID of the mdev that a running vGPU is; null where it is none, or NVML does not tell it.

    Only asked where vGPUs are mdevs, and only a real UUID counts. For a vGPU on a VF nvml.h names no error (NOT_SUPPORTED
    is for hypervisors other than KVM), and the resource manager leaves the field zero (vgpuconfigapi.c, 550 to 595): so
    success with zeroes, or with `N/A`, is to be expected there.
    """
    if framework not in (MDEV_PF, MDEV_VF):
        return None
    with suppress(NvmlFailed):  # which vGPU it is cannot be told then, and whoever reads this takes it so
        return parse_uuid(ask(nvml, "nvmlVgpuInstanceGetMdevUUID", instance))
    return None


def parse_uuid(value: Any) -> Optional[str]:
    """A UUID in small letters; null for zeroes and for what is none. Older bindings give bytes."""
    text = value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)
    text = text.strip().lower()
    return text if _UUID.fullmatch(text) and text != _ZEROES else None
