"""The work of many hosts at once: each is read and planned; then each that has something to do is locked, planned again, and changed."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING

from vgpumgr import errors
from vgpumgr.controller.engine.host_run import HostRun, task_result
from vgpumgr.controller.engine.step_count import StepCount
from vgpumgr.controller.hosts.fan_out import Watch, fan_out
from vgpumgr.controller.hosts.open_hosts import HOST_DEADLINE_S, OpenHosts
from vgpumgr.controller.results import FleetPlan, HostResult
from vgpumgr.core.reconcile import tasks
from vgpumgr.core.slot import detach
from vgpumgr.errors import Outcome

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from vgpumgr.controller.context import Context
    from vgpumgr.controller.hosts.fan_out import HostTimeout
    from vgpumgr.controller.results import TaskResult
    from vgpumgr.core.inventory import HostDeclaration
    from vgpumgr.core.model.view import HostView
    from vgpumgr.core.reconcile.host_plan import HostPlan
    from vgpumgr.core.reconcile.tasks import Author, Task
    from vgpumgr.errors import Success
    from vgpumgr.names import HostName


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetWork:
    """What is done on each host. `what` is shown to a run that waits for the host's lock. `plan` plans all of `todo`."""

    what: str
    todo: Callable[[HostView, HostDeclaration], Sequence[Task]]
    plan: Callable[[HostView, HostDeclaration, Author], HostPlan]


class FleetRun:
    """One run of some work: a thread for each host, and the sessions that are open meanwhile."""

    def __init__(self, context: Context, work: FleetWork, host_deadline_s: float = HOST_DEADLINE_S) -> None:
        self._context = context
        self._work = work
        self._host_deadline_s = host_deadline_s
        self._author = tasks.Author(by=context.by, at=context.now())
        self._open = OpenHosts(context)
        # The list of a host grows as its tasks end, so that a host that fails half way has them too.
        self._results: dict[HostName, list[TaskResult]] = {}
        self._stop = threading.Event()

    def plan(self, hosts: Sequence[HostDeclaration]) -> FleetPlan:
        """Read and plan every host. Changes nothing."""
        watch: Watch[HostPlan] = Watch(progress=self._context.reading)
        outcomes = fan_out(hosts, self._plan_host, self._host_timeout(stop=None), watch, timing=self._context.timing)
        return FleetPlan(
            plans=tuple(outcome.value for outcome in outcomes if outcome.value is not None),
            errors=tuple((outcome.host, outcome.error) for outcome in outcomes if outcome.error is not None),
            findings=self._context.inventory.findings,
            seconds={outcome.host: outcome.seconds for outcome in outcomes},
        )

    def apply(
        self, fleet: FleetPlan, hosts: Sequence[HostDeclaration], *, binds: bool = False
    ) -> tuple[HostResult, ...]:
        """Carry the plans out. A host without steps is not contacted again. `binds`: a host that has changed is skipped."""
        agreed = {plan.host: plan for plan in fleet.plans}
        todo = [host for host in hosts if host.name in agreed and agreed[host.name].changed]
        count = StepCount([agreed[host.name] for host in todo], self._context)
        watch: Watch[None] = Watch(progress=count.progress)
        outcomes = fan_out(
            todo,
            lambda host: self._apply_host(host, agreed[host.name], count, binds=binds),
            self._host_timeout(stop=self._stop),
            watch,
            timing=self._context.timing,
        )
        done = {
            outcome.host: HostResult(
                host=outcome.host,
                tasks=tuple(self._results.get(outcome.host, ())),
                error=outcome.error,
                seconds=fleet.seconds[outcome.host] + outcome.seconds,
            )
            for outcome in outcomes
        }
        return tuple(done.get(plan.host) or _as_planned(fleet, plan, Outcome.UNCHANGED) for plan in fleet.plans)

    def _host_timeout(self, stop: threading.Event | None) -> HostTimeout:
        return self._open.host_timeout(stop, self._host_deadline_s)

    def _plan_host(self, declaration: HostDeclaration) -> HostPlan:
        with self._open.session(declaration) as session:
            return self._work.plan(session.observe(saved=True), declaration, self._author)

    def _apply_host(self, declaration: HostDeclaration, agreed: HostPlan, count: StepCount, *, binds: bool) -> None:
        with self._open.session(declaration) as session:
            host = HostRun(session, self._author, agreed.takes_away, stepped=count.add)
            self._results[declaration.name] = host.results
            view = session.lock(self._work.what, saved=True)
            detach.guard_ledger(view)
            if binds and self._work.plan(view, declaration, self._author).fingerprint != agreed.fingerprint:
                raise errors.PlanOutdated(
                    f"{declaration.name} has changed since the plan was made",
                    hint="make a new plan with --out; nothing was changed on this host",
                )
            todo = self._work.todo(view, declaration)
            host.go(view, todo, stopped=lambda: self._stop.is_set() or self._open.is_left(declaration.name))


def untouched(fleet: FleetPlan) -> tuple[HostResult, ...]:
    """The hosts if nothing is carried out: what has steps would change."""
    return tuple(_as_planned(fleet, plan, Outcome.WOULD_CHANGE) for plan in fleet.plans)


def _as_planned(fleet: FleetPlan, plan: HostPlan, outcome: Success) -> HostResult:
    task_results = tuple(task_result(planned, outcome) for planned in plan.tasks)
    return HostResult(host=plan.host, tasks=task_results, error=None, seconds=fleet.seconds[plan.host])
