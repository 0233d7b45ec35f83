"""What the last plan and reconcile found, as values for `export`: of each run, and of each host."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Mapping

Kind = Literal["plan", "reconcile"]


@dataclass(frozen=True, slots=True, kw_only=True)
class LastRun:
    """The last run of a kind over the whole inventory. `at`: when it began, in seconds since the epoch."""

    kind: Kind
    at: float
    seconds: float
    exit_code: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedHost:
    """What the last run that was to read a host left there. `reached`: it was read, and nothing spoilt the host's whole run.

    `drift`: slots, modes, schedulers and layouts that are not in sync, those that wait (`waiting`) apart; `refused`: the errors among
    them, by class. `nvml_silent`: NVML does not say what runs on some GPU. Unless reached, only `at` is known.
    """

    host: str
    at: float
    reached: bool
    drift: int = 0
    waiting: int = 0
    nvml_silent: bool = False
    refused: Mapping[str, int] = field(default_factory=dict)
    findings: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class LastRuns:
    """All that is stored of runs."""

    runs: tuple[LastRun, ...] = ()
    hosts: tuple[PlannedHost, ...] = ()


NO_RUNS = LastRuns()
