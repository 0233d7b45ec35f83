"""The step set_vfs: a GPU's virtual functions, made or removed by NVIDIA's sriov-manage.

It rebinds the GPU to its driver, which ends every vGPU and GPU instance, mixed-size mode and a scheduler set at run time. Its exit
status says nothing (0 although no function came, seen on hardware), so its work is verified by counting. Where something has
the GPU open it says `Cannot obtain unbindLock`, which passes.
"""

import time
from typing import Any, Callable

from ..facts.gpu import SRIOV_MANAGE
from ..files import Root
from ..protocol import VfsStep
from .bare_gpu import check_bare, refuse_foreign
from .hardware import changed
from .mig_gpu import open_gpu, vfs_on
from .tool import run_tool

_TRIES = 5
_PAUSE_S = 1.0
_BUSY = "unbindLock"


def set_vfs(
    root: Root,
    load_nvml: Callable[[], Any],
    step: VfsStep,
    at: Callable[[str], None],
    *,
    deadline_s: float,
    pause: Callable[[float], None] = time.sleep,
) -> None:
    """Make or remove them. The caller holds the host's exclusive lock. Raises Refusal."""
    ledger = check_bare(root, load_nvml, step)
    there = vfs_on(root, step["gpu"]) > 0
    if there == step["on"]:
        return
    if there != step["expect"]:
        raise changed(_words(step["expect"]), _words(there))
    with open_gpu(load_nvml, step["gpu"]) as gpu:
        refuse_foreign(root, ledger, step["gpu_uuid"], gpu)
    at("looked")
    until = time.monotonic() + deadline_s
    arguments = ["-e" if step["on"] else "-d", step["gpu"]]
    ended = run_tool(root, SRIOV_MANAGE, arguments, deadline_s)
    for _ in range(_TRIES - 1):
        if _BUSY not in ended.output:
            break
        pause(_PAUSE_S)
        ended = run_tool(root, SRIOV_MANAGE, arguments, max(_PAUSE_S, until - time.monotonic()))
    at("ran")
    if (vfs_on(root, step["gpu"]) > 0) != step["on"]:
        raise ended.refusal("without effect, {}".format(_words(not step["on"])))
    at("read-back")


def _words(on: bool) -> str:
    return "virtual functions are there" if on else "there are no virtual functions"
