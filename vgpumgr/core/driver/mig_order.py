"""The order in which a GPU enters and leaves MIG mode, and what prevents each move.

Its vGPUs and GPU instances are removed first, then its virtual functions; the mode is set; the GPU is reset if its
board needs that; the virtual functions are made again. No other order works:

* `sriov-manage` rebinds the GPU, which ends all vGPUs, GPU instances and mixed-size mode (its source; seen on hardware,
  host/steps/vfs_step.py). So a virtual function with a vGPU must stay; the ledger does not learn of lost instances.
* nvmlDeviceSetMigMode needs a GPU without virtual functions and vGPUs, as seen on hosts with MIG-backed vGPUs.
* The mode changes at once or with a reset (`mig.needs_reset`), which nvidia-smi refuses while the GPU is open (manual).
* nvmlGpuInstanceDestroy fails with IN_USE while anything is active in the instance (nvml.h). So its vGPUs go first.
"""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator


class Move(StrEnum):
    """The changes of the whole GPU, in this order; each only if needed."""

    TAKE_FUNCTIONS = "take functions"
    SET = "set"
    RESET = "reset"
    MAKE_FUNCTIONS = "make functions"


def is_done(*, enabled: bool, pending: bool, on: bool, functions: bool) -> bool:
    """Whether a GPU takes vGPUs and has MIG as wanted (`on`). `pending`: MIG after a reset; `functions`: it has VFs."""
    return enabled == pending == on and functions


def moves(*, enabled: bool, pending: bool, on: bool, functions: bool, needs_reset: bool) -> Iterator[Move]:
    """The moves left on a GPU without vGPUs and instances, also after an interrupted run."""
    if functions:
        yield Move.TAKE_FUNCTIONS
    if pending != on:
        yield Move.SET
    if enabled != on and (pending == on or needs_reset):
        yield Move.RESET
    yield Move.MAKE_FUNCTIONS


def obstacle(move: Move, *, vgpus: bool, functions: bool) -> str | None:
    """What on the GPU prevents a move; None if nothing does."""
    if vgpus:
        return "vGPUs"
    if functions and move in (Move.SET, Move.RESET):
        return "virtual functions"
    return None


def may_go(instance: int, inside: Iterable[int | None]) -> bool:
    """Whether a GPU instance can be destroyed. `inside`: the instance of each vGPU on the GPU; None: unknown."""
    return all(one not in (None, instance) for one in inside)
