"""The running vGPUs that NVML lists, and their types: the queries shared by `observe` and `sample`."""

import re
from contextlib import suppress
from typing import Any, Callable, List, Optional

from ..protocol.gpu import MDEV_PF, MDEV_VF, FrameworkName, TypeFact
from .scheduler import NvmlFailed, ask

AGAIN_S = 0.2
MIB = 1024 * 1024
_VM_ID_IS_UUID = 1  # NVML_VGPU_VM_ID_UUID

# INSUFFICIENT_SIZE: a vGPU appeared between pynvml's two calls (count, then list). INVALID_STATE and UNKNOWN: the
# resource manager's NV_ERR_INVALID_STATE while a VM starts or stops and its counts differ (open-gpu-kernel-modules 550
# to 595, vgpuconfigapi.c).
_PASSING = (7, 27, 999)
_UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_ZEROES = "00000000-0000-0000-0000-000000000000"


def running_vgpus(nvml: Any, handle: Any, pause: Callable[[float], None]) -> List[int]:
    """NVML's handles of the vGPUs that run on the GPU. A transient failure is retried once. Raises NvmlFailed."""
    try:
        return _active(nvml, handle)
    except NvmlFailed as error:
        if error.code not in _PASSING:
            raise
    pause(AGAIN_S)
    return _active(nvml, handle)


def _active(nvml: Any, handle: Any) -> List[int]:
    return [int(instance) for instance in ask(nvml, "nvmlDeviceGetActiveVgpus", handle)]


def mdev_uuid(nvml: Any, instance: int, framework: Optional[FrameworkName]) -> Optional[str]:
    """The UUID of a running vGPU's mdev; null if it is not an mdev, or NVML does not report the UUID.

    NVML is only queried if vGPUs are mdevs, and only a real UUID counts. If a vGPU is a VF, expect success with zeroes
    or with `N/A`: nvml.h names no error for it (NOT_SUPPORTED is for hypervisors other than KVM), and the resource
    manager leaves the field zero (vgpuconfigapi.c, 550 to 595).
    """
    if framework not in (MDEV_PF, MDEV_VF):
        return None
    with suppress(NvmlFailed):  # then it is unknown which vGPU it is, and readers of this fact treat it so
        return parse_uuid(ask(nvml, "nvmlVgpuInstanceGetMdevUUID", instance))
    return None


def parse_uuid(value: Any) -> Optional[str]:
    """A UUID in lower case; null if it has only zeroes, or if the value is not a UUID."""
    text = (text_of(value) or "").strip().lower()
    return text if _UUID.fullmatch(text) and text != _ZEROES else None


def text_of(value: Any) -> Optional[str]:
    """NVML's answer as text; null for null. Older bindings give bytes."""
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    return None if value is None else str(value)


def vm_uuid_of(vm: Any) -> Optional[str]:
    """The UUID in the answer to nvmlVgpuInstanceGetVmID; null if there is none, or it names the VM in another way."""
    return ((text_of(vm[0]) or "").lower() or None) if vm is not None and vm[1] == _VM_ID_IS_UUID else None


def type_fact(handle: Any, type_id: int, what: str, query: Callable[..., Any]) -> Optional[TypeFact]:
    """What NVML reports about a vGPU type; null if it reports no name.

    `query` takes the fact's name, NVML's function and its arguments.
    """
    name = text_of(query(what, "nvmlVgpuTypeGetName", type_id))
    if name is None:
        return None
    size = query(what + ".framebuffer_mib", "nvmlVgpuTypeGetFramebufferSize", type_id)
    most = query(what + ".max", "nvmlVgpuTypeGetMaxInstances", handle, type_id)
    return {
        "id": type_id,
        "name": name,
        "max": None if most is None else int(most),
        "framebuffer_mib": None if size is None else int(size) // MIB,
        "mig_profile": None,
        "max_per_instance": None,
    }
