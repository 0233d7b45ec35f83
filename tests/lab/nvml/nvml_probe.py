"""A process that asks the mock through the real pynvml: one JSON line {"path", "code"} in, one {"ok"} out; an NVML
error is {"nvml": number}.

`code` is an expression over pynvml's names, `gpus` (the handles, in order), `lib` (the raw library) and ctypes. It runs
between nvmlInit and nvmlShutdown, unless "bare" is set.
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


def answer(request: dict[str, Any]) -> Any:
    os.environ["VGPUMGR_LAB_NVML"] = request["path"]
    names = {**vars(pynvml), "ctypes": ctypes, "lib": ctypes.CDLL("libnvidia-ml.so.1"), "attempt": attempt}
    names["threading"] = threading
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
