"""The step set_vfs: NVIDIA's sriov-manage creates or removes a GPU's virtual functions.

It rebinds the GPU to its driver, which ends every vGPU, every GPU instance, mixed-size mode and a scheduler set at run
time. Its exit status says nothing (0 although no function came, seen on hardware), so the functions are counted. While
a process has the GPU open, sriov-manage prints `Cannot obtain unbindLock`, and is run again. A removal is entered in
the ledger, so that facts.py queries NVML about such a GPU.
"""

import time
from typing import Any, Callable

from ..facts.boot import boot_id
from ..facts.clients import open_in
from ..facts.gpu import SRIOV_MANAGE, find_framework
from ..facts.pci import find_cards
from ..files import Root, Unknowns
from ..ledger.ledger import write_ledger
from ..protocol.steps import VfsStep
from ..timing import Timing
from .bare_gpu import open_for, refuse_foreign, refuse_vgpus
from .hardware import changed
from .mig_gpu import open_gpu, vfs_on
from .tool import run_tool

_TRIES = 5
_LEAST_S = 1.0  # for a try that begins when the time is over
_LOOKS = 20
_BUSY = "unbindLock"


def set_vfs(
    root: Root,
    load_nvml: Callable[[], Any],
    step: VfsStep,
    at: Callable[[str], None],
    *,
    deadline_s: float,
    timing: Timing,
    pause: Callable[[float], None] = time.sleep,
) -> None:
    """Make or remove the VFs. The caller holds the host's exclusive lock. Raises Refusal."""
    ledger = open_for(root, step)
    has_vfs = vfs_on(root, step["gpu"]) > 0
    if has_vfs == step["on"]:
        return
    if has_vfs != step["expect"]:
        raise changed(_words(step["expect"]), _words(has_vfs))
    refuse_vgpus(root, load_nvml, step)
    with open_gpu(load_nvml, step["gpu"]) as gpu:
        refuse_foreign(root, ledger, step["gpu_uuid"], gpu)
    at("looked")
    boot = boot_id(root, Unknowns())
    if not step["on"]:
        write_ledger(root, ledger.with_vfs_taken(step["gpu_uuid"], boot, taken=True))
    at("noted")
    until = time.monotonic() + deadline_s
    arguments = ["-e" if step["on"] else "-d", step["gpu"]]
    result = run_tool(root, SRIOV_MANAGE, arguments, deadline_s)
    for _ in range(_TRIES - 1):
        if _BUSY not in result.output:
            break
        pause(timing.unbind_s)
        result = run_tool(root, SRIOV_MANAGE, arguments, max(_LEAST_S, until - time.monotonic()))
    at("ran")
    if step["on"] and result.status == 0:
        _await_functions(root, step, until, timing, pause)
    if (vfs_on(root, step["gpu"]) > 0) != step["on"]:
        raise result.refusal("without effect, {}".format(_words(not step["on"])), open_in(root, step["gpu"]))
    if step["on"]:
        if ledger.took_vfs(step["gpu_uuid"], boot):
            write_ledger(root, ledger.with_vfs_taken(step["gpu_uuid"], boot, taken=False))
        _await_offer(root, step, timing, pause)
    at("read-back")


def _await_functions(root: Root, step: VfsStep, until: float, timing: Timing, pause: Callable[[float], None]) -> None:
    """Wait for the VFs: sriov-manage may end before the kernel made them (30 s for 160, NVIDIA/gpu-operator #2002)."""
    for _ in range(round(timing.vfs_s / timing.offer_s)):
        if vfs_on(root, step["gpu"]) > 0 or time.monotonic() + timing.offer_s > until:
            return
        pause(timing.offer_s)


def _await_offer(root: Root, step: VfsStep, timing: Timing, pause: Callable[[float], None]) -> None:
    """Wait a moment for the driver to set the functions up, so that the next reading shows what they offer."""
    for _ in range(_LOOKS):
        cards = [card for card in find_cards(root, Unknowns()) if card.pci == step["gpu"]]
        if not cards or find_framework(root, cards[0]).name is not None:
            return
        pause(timing.offer_s)


def _words(on: bool) -> str:
    return "virtual functions are there" if on else "there are no virtual functions"
