"""vGPU schedulers: their state, what the driver would take, and setting one.

The state is the graphics engine's. Slice and factor are printed while a vGPU is active; from R595 on there is no line
for ARR, and no option to turn it off.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .request import request
from .state import ERRORS, INVALID_ARGUMENT, NOT_SUPPORTED, SmiError, bus_id
from .text import fields

if TYPE_CHECKING:
    from collections.abc import Mapping

    from .state import Row, State

COMMAND = "set-scheduler-state"
LONG = {
    "--policy": "-p",
    "--arr-mode": "-a",
    "--arr-sched-frequency": "-asf",
    "--arr-avg-factor": "-aavg",
    "--time-slice": "-ts",
}
OPTIONS = tuple(LONG.values())

_FIRST_GET, _FIRST_SET, _FIRST_ALWAYS_ARR = 530, 535, 595
_POLICIES = {"1": "Best Effort", "2": "Equal Share", "3": "Fixed Share"}
_GRAPHICS = "1"
_ARR_OFF, _ARR_ON = "1", "2"  # NVML's values; those of the option are 0 and 1
_BAD_POLICY = "Requested vGPU scheduler policy is not supported."


def check_wish(values: Mapping[str, str]) -> None:
    """Check the options' values. A slice needs `-a 0`, which frequency and factor exclude."""
    for option, value in values.items():
        if not value.isdecimal():
            raise SmiError(f"Invalid value for option {option}: {value}", INVALID_ARGUMENT)
    if "-p" not in values:
        raise SmiError("Missing option -p. Please run 'nvidia-smi -h'.", INVALID_ARGUMENT)
    arr = values.get("-a")
    if arr not in (None, "0", "1"):
        raise SmiError(f"Invalid value for option -a: {arr}", INVALID_ARGUMENT)
    if ("-ts" in values and arr != "0") or (("-asf" in values or "-aavg" in values) and arr == "0"):
        raise SmiError("-ts requires -a 0; -asf and -aavg require -a 1.", INVALID_ARGUMENT)


def set_state(wish: Mapping[str, str], state: State, gpus: list[Row]) -> list[str]:
    """Set the scheduler on each GPU; the first refusal ends the program."""
    _known_from(state, _FIRST_SET, COMMAND)
    if state.branch >= _FIRST_ALWAYS_ARR and "-a" in wish:
        raise SmiError("ERROR: Option -a is not recognized. Please run 'nvidia-smi -h'.", INVALID_ARGUMENT)
    if wish["-p"] not in _POLICIES:
        raise SmiError(_BAD_POLICY, NOT_SUPPORTED)
    lines: list[str] = []
    for gpu in gpus:
        code = state.failure("nvmlDeviceSetVgpuSchedulerState", gpu) or _ask(wish, gpu)
        if code:
            why = ERRORS.get(code, "Unknown Error")
            raise SmiError(
                "\n".join([*lines, f"Unable to set vGPU scheduler state for GPU {bus_id(gpu)}: {why}"]), code
            )
        lines.append(f"Set vGPU scheduler state for GPU {bus_id(gpu)}.")
    return lines


def _ask(wish: Mapping[str, str], gpu: Row) -> int:
    """Write the request (vgpumgr.lab.nvml.request) and wait; return NVML's error number, 0 for success."""
    arr = {None: "0", "0": _ARR_OFF, "1": _ARR_ON}[wish.get("-a")]
    others = {"factor": "-aavg", "frequency": "-asf", "slice": "-ts"}
    numbers = {"policy": wish["-p"], "arr": arr, **{name: wish.get(key, "0") for name, key in others.items()}}
    return request(
        " ".join(["scheduler", f"pci={gpu['pci']}", *(f"{name}={value}" for name, value in numbers.items())])
    )


def show_state(state: State, gpus: list[Row]) -> list[str]:
    _known_from(state, _FIRST_GET, "-ss")
    lines: list[str] = []
    for gpu in gpus:
        states = [row for row in state.schedulers if row["gpu"] == gpu["index"] and row["engine"] == _GRAPHICS]
        code = state.failure("nvmlDeviceGetVgpuSchedulerState", gpu) or (0 if states else NOT_SUPPORTED)
        if code:
            raise _unreadable("state", gpu, code)
        now = states[0]
        active = sum("vm_uuid" in vgpu for vgpu in state.vgpus_of(gpu))
        rows: list[tuple[str, str | None]] = [
            ("Active vGPUs", str(active)),
            ("Scheduler Policy", _POLICIES[now["policy"]]),
        ]
        if now["slice"] != "0":
            if state.branch < _FIRST_ALWAYS_ARR:
                rows.append(("ARR Mode", "Enabled" if now["arr"] == _ARR_ON else "Disabled"))
            if now["arr"] == _ARR_ON:
                rows.append(("Average Factor", now["factor"]))
            rows.append(("Time Slice(ns)", now["slice"]))
        lines += ["GPU " + bus_id(gpu), *fields(state, 1, rows), ""]
    return lines


def show_caps(state: State, gpus: list[Row]) -> list[str]:
    _known_from(state, _FIRST_GET, "-sc")
    lines: list[str] = []
    for gpu in gpus:
        matches = [row for row in state.caps if row["gpu"] == gpu["index"]]
        code = state.failure("nvmlDeviceGetVgpuSchedulerCapabilities", gpu) or (0 if matches else NOT_SUPPORTED)
        if code:
            raise _unreadable("capabilities", gpu, code)
        caps = matches[0]
        first, *others = _POLICIES.values()
        policies = fields(state, 1, [("Supported Policies", first)])
        column = policies[0].index(first)
        rows: list[tuple[str, str | None]] = [
            ("ARR Mode", "Supported" if caps["arr"] == "1" else "Not Supported"),
            ("Supported Timeslice Range", None),
            ("    Maximum Timeslice", caps["slice_max"] + " ns"),
            ("    Minimum Timeslice", caps["slice_min"] + " ns"),
            ("Supported Scheduling Frequency", None),
            ("    Maximum Frequency", caps["frequency_max"]),
            ("    Minimum Frequency", caps["frequency_min"]),
            ("Supported ARR Averaging Factor", None),
            ("    Maximum Avg Factor", caps["factor_max"]),
            ("    Minimum Avg Factor", caps["factor_min"]),
        ]
        lines += ["GPU " + bus_id(gpu), *policies, *(" " * column + name for name in others)]
        lines += [*fields(state, 1, rows), ""]
    return lines


def _unreadable(what: str, gpu: Row, code: int) -> SmiError:
    why = ERRORS.get(code, "Unknown Error")
    return SmiError(f"Unable to get vGPU scheduler {what} for GPU {bus_id(gpu)}: {why}", code)


def _known_from(state: State, branch: int, word: str) -> None:
    if state.branch < branch:
        raise SmiError(f"ERROR: Option {word} is not recognized. Please run 'nvidia-smi -h'.", INVALID_ARGUMENT)
