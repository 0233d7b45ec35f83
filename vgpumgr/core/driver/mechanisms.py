"""The ways to divide a GPU among VMs, and what each provides, for comparison. Sources: docs/ways-to-divide.md."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

Key = Literal["best-effort", "equal-share", "fixed-share", "mixed-size", "mig", "mig-time-sliced", "whole-gpu"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Mechanism:
    """One way to divide a GPU. `memory_wall`: whether a VM is kept out of another's framebuffer.

    `series`: the series of its vGPU types, each with its licence. `live_migration` None: NVIDIA says nothing about it.
    """

    key: Key
    name: str
    memory_wall: str
    compute_guarantee: str
    fault_isolation: str
    live_migration: str | None
    series: str


_TIME_SLICED_FAULTS = "memory and faults; engines are shared"
_MIGRATES = "to an equal GPU"
_ALL_SERIES = "A B C Q"

MECHANISMS: Final[tuple[Mechanism, ...]] = (
    Mechanism(
        key="best-effort",
        name="time-sliced, best-effort",
        memory_wall="yes",
        compute_guarantee="none",
        fault_isolation=_TIME_SLICED_FAULTS,
        live_migration=_MIGRATES,
        series=_ALL_SERIES,
    ),
    Mechanism(
        key="equal-share",
        name="time-sliced, equal-share",
        memory_wall="yes",
        compute_guarantee="equal among running vGPUs",
        fault_isolation=_TIME_SLICED_FAULTS,
        live_migration=_MIGRATES,
        series=_ALL_SERIES,
    ),
    Mechanism(
        key="fixed-share",
        name="time-sliced, fixed-share",
        memory_wall="yes",
        compute_guarantee="a fixed part",
        fault_isolation=_TIME_SLICED_FAULTS,
        live_migration=_MIGRATES,
        series=_ALL_SERIES,
    ),
    Mechanism(
        key="mixed-size",
        name="time-sliced, mixed-size",
        memory_wall="yes",
        compute_guarantee="none, or equal-share",
        fault_isolation=_TIME_SLICED_FAULTS,
        live_migration=_MIGRATES,
        series=_ALL_SERIES,
    ),
    Mechanism(
        key="mig",
        name="MIG",
        memory_wall="yes, in hardware",
        compute_guarantee="its own part of the GPU",
        fault_isolation="memory, faults and engines",
        live_migration=None,
        series="C; on some boards A B Q",
    ),
    Mechanism(
        key="mig-time-sliced",
        name="MIG, time-sliced",
        memory_wall="yes, in hardware between instances",
        compute_guarantee="as time-sliced, in its own instance",
        fault_isolation="as MIG between instances, as time-sliced in one",
        live_migration=None,
        series=_ALL_SERIES,
    ),
    Mechanism(
        key="whole-gpu",
        name="whole GPU",
        memory_wall="yes, alone",
        compute_guarantee="all",
        fault_isolation="alone on the GPU",
        live_migration=_MIGRATES,
        series=_ALL_SERIES,
    ),
)
