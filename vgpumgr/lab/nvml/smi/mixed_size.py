"""`nvidia-smi vgpu -shm 0|1`: mixed-size mode, which the tool calls heterogeneous. The wording is the lab's own."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .request import request
from .state import ERRORS, INVALID_ARGUMENT, SmiError, bus_id

if TYPE_CHECKING:
    from .state import Row, State

OPTION = "-shm"
_FIRST = 550
_STATES = {"0": "Disabled", "1": "Enabled"}


def set_mode(value: str, state: State, gpus: list[Row]) -> list[str]:
    """Set the mode on each GPU; the first refusal ends the program with NVML's error number."""
    if state.branch < _FIRST:
        raise SmiError(f"ERROR: Option {OPTION} is not recognized. Please run 'nvidia-smi -h'.", INVALID_ARGUMENT)
    if value not in _STATES:
        raise SmiError(f"Invalid value for option {OPTION}: {value}", INVALID_ARGUMENT)
    lines: list[str] = []
    for gpu in gpus:
        code = state.failure("nvmlDeviceSetVgpuHeterogeneousMode", gpu) or request(f"mixed pci={gpu['pci']} on={value}")
        if code:
            why = ERRORS.get(code, "Unknown Error")
            raise SmiError(
                "\n".join([*lines, f"Unable to set vGPU heterogeneous mode for GPU {bus_id(gpu)}: {why}"]), code
            )
        lines.append(f"{_STATES[value]} vGPU heterogeneous mode for GPU {bus_id(gpu)}.")
    return lines
