"""What the last plan and reconcile found, for each run and for each host, as values for `export`."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from vgpumgr.core.inventory.report import Finding
from vgpumgr.names import HostName
from vgpumgr.wording import joined, say

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from vgpumgr.core.inventory.model import Inventory

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
    """A host as its last run found it. `reached`: it was read, and no error spoilt its run; else only `at` is known.

    `drift`: how many slots, modes, schedulers and layouts are out of sync, except `waiting` ones. `refused`: how many
    were refused or failed, by the error's class. `without_room`: how many slots wait for room, by what they ask for.
    `nvml_silent`: for at least one GPU, NVML does not say what runs on it. `fits`: how many more of a type fit, each
    type alone. `owners`: of each VM that has a vGPU and an owner.
    """

    host: str
    at: float
    reached: bool
    drift: int = 0
    waiting: int = 0
    nvml_silent: bool = False
    without_room: Mapping[str, int] = field(default_factory=dict)
    refused: Mapping[str, int] = field(default_factory=dict)
    findings: Mapping[str, int] = field(default_factory=dict)
    fits: Mapping[str, int] = field(default_factory=dict)
    owners: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class LastRuns:
    """All that is stored of runs."""

    runs: tuple[LastRun, ...] = ()
    hosts: tuple[PlannedHost, ...] = ()


NO_RUNS = LastRuns()


def without_site(inventory: Inventory, hosts: Iterable[PlannedHost]) -> tuple[Finding, ...]:
    """A finding if the last runs saw another inventory on hosts for which this inventory names no site."""
    labels = [
        one.host
        for one in hosts
        if ("other-site" in one.findings or "OtherController" in one.refused)
        and (declared := inventory.hosts.get(HostName(one.host))) is not None
        and declared.site is None
    ]
    if not labels:
        return ()
    text = say(
        "another inventory or controller declares vGPUs on {}, too, as the last plan or reconcile here found: "
        "give each inventory a vgpumgr_site of its own, or one removes what the other declares",
        joined(", ", labels),
    )
    return (Finding(where=None, text=text),)
