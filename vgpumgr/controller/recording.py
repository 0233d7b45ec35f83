"""Stores the result of a plan or reconcile for `export`. If the store cannot be written, only metrics are missing."""

from __future__ import annotations

import contextlib
import time
from collections import Counter
from typing import TYPE_CHECKING

from vgpumgr.controller import environment
from vgpumgr.core.reconcile import who_waits
from vgpumgr.core.usage.runs import NO_RUNS, LastRun, PlannedHost
from vgpumgr.errors import AlreadyRunning, Declined, Outcome, StoreError, VgpumgrError
from vgpumgr.store import place
from vgpumgr.wording import say

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from vgpumgr.controller.results import FleetResult, HostResult
    from vgpumgr.core.model.view import Finding
    from vgpumgr.core.reconcile.host_plan import HostPlan
    from vgpumgr.core.usage.runs import Kind, LastRuns
    from vgpumgr.names import HostName

_AS_WANTED = (Outcome.DONE, Outcome.UNCHANGED, Outcome.WAITING)
_NO_RUN = (
    AlreadyRunning,
    Declined,
)  # another run is under way, or the user declined: neither is about the fleet


class Recording:
    """One run. `kind` None: it is not stored. `whole`: the run has the whole inventory, and counts as its kind's last.

        with Recording("reconcile", whole=True).begun() as recording:
            problem = recording.keep(result)

    A run that fails before it has a result (an unreadable inventory) is stored with its exit code.
    """

    def __init__(self, kind: Kind | None, *, whole: bool) -> None:
        self._kind = kind
        self._whole = whole
        self._at = time.time()
        self._started = time.monotonic()

    @contextlib.contextmanager
    def begun(self) -> Iterator[Recording]:
        """A block around the run, from the reading of the inventory to the end."""
        try:
            yield self
        except VgpumgrError as error:
            if self._whole and not isinstance(error, _NO_RUN):
                self._store((), error.exit_code, fleet=None)
            raise

    def keep(self, result: FleetResult) -> str | None:
        """Store the result. Returns the reason if that failed."""
        fleet = {host for host, _ in result.fleet.errors} | {plan.host for plan in result.fleet.plans}
        return self._store(_hosts(result, self._at), result.exit_code, fleet=fleet if self._whole else None)

    def _store(self, hosts: Iterable[PlannedHost], exit_code: int, *, fleet: set[HostName] | None) -> str | None:
        if self._kind is None:
            return None
        from vgpumgr.store.sql import runs

        seconds = time.monotonic() - self._started
        run = LastRun(kind=self._kind, at=self._at, seconds=seconds, exit_code=exit_code) if self._whole else None
        try:
            runs.put(place.samples_beside(environment.store_path()), run, hosts, fleet=fleet)
        except StoreError as error:
            return say("this run is not in the metrics: {}", error.message)
        return None


def last() -> LastRuns:
    """The last runs of this controller; none where the store cannot be read, since nothing depends on it."""
    path = place.samples_beside(environment.store_path())
    if not path.exists():
        return NO_RUNS
    from vgpumgr.store.sql import runs

    try:
        return runs.last(path)
    except StoreError:
        return NO_RUNS


def _hosts(result: FleetResult, at: float) -> Iterator[PlannedHost]:
    plans = {plan.host: plan for plan in result.fleet.plans}
    waiting = Counter(finding.host for finding in result.waiting)
    for host in result.hosts:
        if host.error is None:
            yield _reached(host, plans[host.host], at, waiting=waiting[host.host])
    for name in dict.fromkeys(name for name, _ in result.errors):
        yield PlannedHost(host=name, at=at, reached=False)


def _reached(host: HostResult, plan: HostPlan, at: float, *, waiting: int) -> PlannedHost:
    kinds: Iterable[Finding] = plan.findings
    return PlannedHost(
        host=host.host,
        at=at,
        reached=True,
        drift=sum(one.outcome not in _AS_WANTED for one in host.tasks),
        waiting=waiting,
        nvml_silent=plan.nvml_silent,
        without_room=dict(
            Counter(asked for one in host.tasks if (asked := who_waits.lacks_room(one.planned)) is not None)
        ),
        refused=dict(Counter(type(one.error).__name__ for one in host.tasks if one.error is not None)),
        findings=dict(Counter(finding.kind for finding in kinds)),
        fits=dict(plan.fits),
        owners=dict(plan.owners),
    )
