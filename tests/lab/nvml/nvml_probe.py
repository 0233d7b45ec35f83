"""A process that asks the mock through the real pynvml: one JSON line {"path", "code"} in, one {"ok"} out; an NVML
error is {"nvml": number}.

`code` is an expression over pynvml's names, `gpus` (the handles, in order), `lib` (the raw library), ctypes and the functions
here. It runs between nvmlInit and nvmlShutdown, unless "bare" is set.
"""

from __future__ import annotations

import ctypes
import json
import os
import sys
import threading
from typing import Any

import pynvml


def attempt(function: Any, *arguments: Any) -> Any:
    """The value, or NVML's error number as {"nvml": n}."""
    try:
        value = function(*arguments)
    except pynvml.NVMLError as error:
        return {"nvml": error.value}
    return value


def starts(gpu: Any, profile: int) -> list[list[int]]:
    """[start, size] of each possible placement: asked for twice, as NVML wants it."""
    count = ctypes.c_uint(0)
    pynvml.nvmlDeviceGetGpuInstancePossiblePlacements(gpu, profile, None, ctypes.byref(count))
    places = (pynvml.c_nvmlGpuInstancePlacement_t * count.value)()
    pynvml.nvmlDeviceGetGpuInstancePossiblePlacements(gpu, profile, places, ctypes.byref(count))
    return [[place.start, place.size] for place in places[: count.value]]


def instances(gpu: Any, profile: int) -> list[Any]:
    """The handles of all GPU instances of a profile."""
    return _listed(pynvml.nvmlDeviceGetGpuInstances, pynvml.c_nvmlGpuInstance_t, gpu, profile)


def computes(instance: Any, profile: int) -> list[Any]:
    """The handles of all compute instances of a profile."""
    return _listed(pynvml.nvmlGpuInstanceGetComputeInstances, pynvml.c_nvmlComputeInstance_t, instance, profile)


def _listed(function: Any, kind: Any, owner: Any, profile: int) -> list[Any]:
    count, room = ctypes.c_uint(0), (kind * 12)()
    function(owner, profile, room, ctypes.byref(count))
    return list(room[: count.value])


def placement(start: int, size: int) -> Any:
    return ctypes.byref(pynvml.c_nvmlGpuInstancePlacement_t(start=start, size=size))


def told(info: Any, *names: str) -> Any:
    """These fields of a struct, or the error that came in its place."""
    return info if isinstance(info, dict) else [getattr(info, name) for name in names]


def placed(info: Any) -> list[int]:
    """What an instance tells of itself."""
    return [info.id, info.profileId, info.placement.start, info.placement.size]


def answer(request: dict[str, Any]) -> Any:
    os.environ["VGPUMGR_LAB_NVML"] = request["path"]
    names = {**vars(pynvml), "ctypes": ctypes, "lib": ctypes.CDLL("libnvidia-ml.so.1"), "attempt": attempt}
    names["threading"] = threading
    names.update((one.__name__, one) for one in (starts, instances, computes, placement, told, placed))
    if request["bare"]:
        return eval(request["code"], names)  # noqa: S307, RUF100 -- the test's own expression
    pynvml.nvmlInit()
    try:
        count = pynvml.nvmlDeviceGetCount()
        names["gpus"] = [attempt(pynvml.nvmlDeviceGetHandleByIndex, index) for index in range(count)]
        return eval(request["code"], names)  # noqa: S307, RUF100 -- the test's own expression
    finally:
        pynvml.nvmlShutdown()


for line in sys.stdin:
    try:
        reply = {"ok": answer(json.loads(line))}
    except pynvml.NVMLError as error:
        reply = {"ok": {"nvml": error.value}}
    except Exception as error:
        reply = {"bug": repr(error)}
    print(json.dumps(reply, default=bytes.decode), flush=True)  # noqa: T201 -- the answer
