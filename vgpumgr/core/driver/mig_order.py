"""In which order a GPU gets into MIG mode and out of it, and what stands in the way of each move.

Its vGPUs and GPU instances go first, then its virtual functions; the mode is set; the GPU is reset where its board needs that; the
functions come back. No other order works:

* `sriov-manage` rebinds the GPU to its driver, which ends every vGPU and GPU instance and mixed-size mode (NVIDIA's script; seen on
  hardware, host/steps/vfs_step.py). So a virtual function with a vGPU may not be removed, and nothing tells the ledger of the instances.
* nvmlDeviceSetMigMode takes the mode on a GPU without virtual functions and vGPUs only, as seen on hosts with MIG-backed vGPUs.
* The mode takes effect at once, or with a reset (`mig.needs_reset`), which nvidia-smi refuses while anything has the GPU open (its manual).
* nvmlGpuInstanceDestroy: IN_USE while anything is active in the instance (nvml.h). So an instance goes after its vGPUs.
"""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator


class Move(StrEnum):
    """What changes on the GPU as a whole, in this order; each where it is needed."""

    TAKE_FUNCTIONS = "take functions"
    SET = "set"
    RESET = "reset"
    MAKE_FUNCTIONS = "make functions"


def is_done(*, enabled: bool, pending: bool, on: bool, functions: bool) -> bool:
    """Whether a GPU is in the wanted mode and takes vGPUs. `pending`: the mode after its next reset; `functions`: it has virtual ones."""
    return enabled == pending == on and functions


def moves(*, enabled: bool, pending: bool, on: bool, functions: bool, needs_reset: bool) -> Iterator[Move]:
    """What there is to do on a GPU without vGPUs and instances, also where a run was broken off."""
    if functions:
        yield Move.TAKE_FUNCTIONS
    if pending != on:
        yield Move.SET
    if enabled != on and (pending == on or needs_reset):
        yield Move.RESET
    yield Move.MAKE_FUNCTIONS


def obstacle(move: Move, *, vgpus: bool, functions: bool) -> str | None:
    """What of a GPU does not let it make a move."""
    if vgpus:
        return "vGPUs"
    if functions and move in (Move.SET, Move.RESET):
        return "virtual functions"
    return None


def may_go(instance: int, inside: Iterable[int | None]) -> bool:
    """Whether a GPU instance can be destroyed. `inside`: the instance of each vGPU on the GPU, None where it does not say."""
    return all(one not in (None, instance) for one in inside)
