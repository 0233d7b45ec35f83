"""How busy GPUs and vGPUs are now, in percent of the whole GPU."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .state import Row, State

_FIRST_SIX = 550  # the branch from which -u has columns for the JPEG and the optical flow engine


def gpu_util(gpu: Row, engine: str, unit: str = "%") -> str:
    """A GPU's use, with its unit; N/A with MIG. `engine` is sm or mem."""
    value = gpu.get("util_" + engine)
    return "N/A" if value is None else value + unit


def vgpu_util(state: State, vgpu: Row, engine: str, unit: str = "%") -> str:
    """A vGPU's use, with its unit: 0 if no VM runs with it, N/A if it is MIG-backed. `engine`: sm, mem, enc or dec."""
    if "gpu_instance" in vgpu:
        return "N/A"
    own = [use for use in state.uses if use["instance"] == vgpu["instance"]]
    thousandths = int(own[-1][engine]) if own else 0
    return str((thousandths + 500) // 1000) + unit


def show_columns(state: State, gpus: list[Row]) -> list[str]:
    """`vgpu -u`: the header and the first rows. R550 and later have two more engines, which no load of the lab uses."""
    more = [("jpg", "%"), ("ofa", "%")] if state.branch >= _FIRST_SIX else []
    names = [("sm", "%"), ("mem", "%"), ("enc", "%"), ("dec", "%"), *more]
    head = ["# gpu       vgpu" + "".join(f"{name:>7}" for name, _ in names)]
    units = ["# Idx         Id" + "".join(f"{unit:>7}" for _, unit in names)]
    return [*head, *units, *show_rows(state, gpus)]


def show_rows(state: State, gpus: list[Row]) -> list[str]:
    """One row per running vGPU; dashes for a GPU without any, and for a MIG-backed vGPU."""
    count = 6 if state.branch >= _FIRST_SIX else 4
    lines = []
    for gpu in gpus:
        running = [vgpu for vgpu in state.vgpus_of(gpu) if "vm_uuid" in vgpu]
        for vgpu in running:
            values = [vgpu_util(state, vgpu, engine, "") for engine in ("sm", "mem", "enc", "dec")]
            values += ["0"] * (count - len(values))
            if "gpu_instance" in vgpu:
                values = ["-"] * count
            lines.append(_row(gpu["index"], vgpu["instance"], values))
        if not running:
            lines.append(_row(gpu["index"], "-", ["-"] * count))
    return lines


def _row(index: str, instance: str, values: list[str]) -> str:
    return f"{index:>5} {instance:>10}" + "".join(f"{value:>7}" for value in values)
