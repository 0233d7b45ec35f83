"""How busy GPUs and vGPUs are now, in percent of the whole GPU."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .state import Row, State


def gpu_util(gpu: Row, engine: str, unit: str = "%") -> str:
    """`engine` is sm or mem; N/A with MIG."""
    value = gpu.get("util_" + engine)
    return "N/A" if value is None else value + unit


def vgpu_util(state: State, vgpu: Row, engine: str, unit: str = "%") -> str:
    """`engine` is sm, mem, enc or dec; 0 where no VM runs the vGPU."""
    own = [use for use in state.uses if use["instance"] == vgpu["instance"]]
    thousandths = int(own[-1][engine]) if own else 0
    return str((thousandths + 500) // 1000) + unit
