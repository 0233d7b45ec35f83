# ruff: noqa: N802 -- pynvml's names
"""The NVML calls of this program: NVIDIA's own binding (pynvml, of nvidia-ml-py), with a few corrections.

Two of its calls are fixed: nvmlVgpuInstanceGetFbUsage has room for the 64 bits that NVML writes (pynvml 13: 32), and
nvmlVgpuInstanceGetVmID passes its buffer's 80 bytes (pynvml 13: 128). Placements, GPU instances and compute instances
are returned as lists; pynvml takes a buffer for them. Source: nvml.h 13.

A host gets only the part of pynvml that this program names, as a module beside this one (link/program/nvml_cut.py).
"""

from ctypes import byref, c_uint, c_ulonglong, create_string_buffer
from typing import Any, List, Tuple

try:
    from . import pynvml  # type: ignore[attr-defined]
except ImportError:  # where this program was not packed, there is the whole of it
    import pynvml

_MOST_PLACES = 64  # the driver has at most 48 vGPUs on a GPU, and at most 8 places for a GPU instance


def __getattr__(name: str) -> Any:
    return getattr(pynvml, name)


def _call(name: str, *arguments: Any) -> None:
    code = pynvml._nvmlGetFunctionPointer(name)(*arguments)  # noqa: SLF001 -- how pynvml's own functions find NVML's
    if code != pynvml.NVML_SUCCESS:
        raise pynvml.NVMLError(code)


def _handles(name: str, kind: Any, *arguments: Any) -> List[Any]:
    """The rows that the call lists, in a buffer with room for _MOST_PLACES rows of `kind`."""
    rows, count = (kind * _MOST_PLACES)(), c_uint(_MOST_PLACES)
    _call(name, *arguments, rows, byref(count))
    # Handles of their own: an array's elements would change with it.
    return list(rows[: min(count.value, _MOST_PLACES)])


def nvmlDeviceGetGpuInstancePossiblePlacements(handle: Any, profile_id: int) -> List[Any]:
    """All places where an instance may lie, free or not."""
    kind = pynvml.c_nvmlGpuInstancePlacement_t
    return _handles("nvmlDeviceGetGpuInstancePossiblePlacements_v2", kind, handle, profile_id)


def nvmlDeviceGetGpuInstances(handle: Any, profile_id: int) -> List[Any]:
    """The instances of that profile."""
    return _handles("nvmlDeviceGetGpuInstances", pynvml.c_nvmlGpuInstance_t, handle, profile_id)


def nvmlGpuInstanceGetComputeInstances(instance: Any, profile_id: int) -> List[Any]:
    """The compute instances of that profile."""
    return _handles("nvmlGpuInstanceGetComputeInstances", pynvml.c_nvmlComputeInstance_t, instance, profile_id)


def nvmlDeviceGetVgpuTypeCreatablePlacements(handle: Any, type_id: int, version: int) -> Tuple[int, List[int]]:
    """How many slots one vGPU of the type takes, and the free placement ids. Version 2 of the list is from R565."""
    ids = (c_uint * _MOST_PLACES)()
    placements = pynvml.c_nvmlVgpuPlacementList_v2_t() if version == 2 else pynvml.c_nvmlVgpuPlacementList_v1_t()
    placements.version = pynvml.VgpuPlacementList_v2 if version == 2 else pynvml.VgpuPlacementList_v1
    placements.count, placements.placementIds = _MOST_PLACES, ids
    _call("nvmlDeviceGetVgpuTypeCreatablePlacements", handle, c_uint(type_id), byref(placements))
    return int(placements.placementSize), list(ids[: min(int(placements.count), _MOST_PLACES)])


def nvmlVgpuInstanceGetVmID(instance: int) -> Tuple[bytes, int]:
    """The id of the vGPU's VM (bytes, as in pynvml), and which kind of id it is."""
    size = pynvml.NVML_DEVICE_UUID_BUFFER_SIZE
    name, kind = create_string_buffer(size), c_uint(0)
    _call("nvmlVgpuInstanceGetVmID", c_uint(instance), byref(name), c_uint(size), byref(kind))
    return name.value, kind.value


def nvmlVgpuInstanceGetFbUsage(instance: int) -> int:
    """The framebuffer that the vGPU uses, in bytes."""
    used = c_ulonglong(0)
    _call("nvmlVgpuInstanceGetFbUsage", c_uint(instance), byref(used))
    return used.value
