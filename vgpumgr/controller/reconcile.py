"""plan and reconcile: read every host, plan, guard, ask once, then reconcile host by host. A failure affects only its host.

Every host is planned again inside its lock. Removals in that plan which the user has not confirmed are not carried out.
"""

from __future__ import annotations

import threading
from contextlib import nullcontext
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from vgpumgr import errors
from vgpumgr.controller.engine import journaling
from vgpumgr.controller.engine.host_run import HostRun, task_result
from vgpumgr.controller.engine.step_count import StepCount
from vgpumgr.controller.hosts.fan_out import Watch, fan_out
from vgpumgr.controller.hosts.open_hosts import HOST_DEADLINE_S, OpenHosts
from vgpumgr.controller.results import FleetPlan, HostResult, ReconcileResult
from vgpumgr.core.plan import detach
from vgpumgr.core.reconcile import destroy_guard, host_plan, tasks
from vgpumgr.errors import Outcome, Success
from vgpumgr.store.only_one import only_one

if TYPE_CHECKING:
    from collections.abc import Sequence

    from vgpumgr.controller.context import Context
    from vgpumgr.controller.hosts.fan_out import HostTimeout
    from vgpumgr.controller.results import Consent, TaskResult
    from vgpumgr.core.inventory import HostDeclaration
    from vgpumgr.core.reconcile.host_plan import HostPlan
    from vgpumgr.names import HostName


@dataclass(frozen=True, slots=True, kw_only=True)
class ReconcileOptions:
    """`limit`: patterns of hosts, all if empty. `confirm_destroys`: the number of removals the user expects.

    `strict`: what waits for the end of a use is refused.
    """

    limit: tuple[str, ...] = ()
    strict: bool = False
    confirm_destroys: int | None = None
    host_deadline_s: float = HOST_DEADLINE_S


def reconcile(context: Context, options: ReconcileOptions, consent: Consent[FleetPlan]) -> ReconcileResult:
    """Reconcile the hosts with what was declared and bound. Raises UnknownHost, Declined, UsageError or PlanOutdated.

    Two runs on one controller exclude each other (AlreadyRunning); a run with `check` only reads and never waits.
    An error of one host or VM is in the result, never raised. So is the guard that refused all changes, since unreachable
    hosts must be reported next to it.
    """
    hosts = context.inventory.chosen(options.limit)
    with nullcontext() if consent.check or context.store is None else only_one(context.store, context.by):
        return _reconcile(context, hosts, options, consent)


def _reconcile(
    context: Context, hosts: Sequence[HostDeclaration], options: ReconcileOptions, consent: Consent[FleetPlan]
) -> ReconcileResult:
    workers = _Workers(context, options)
    context.say_reading(hosts)
    fleet = workers.plan(hosts)
    consent.show(fleet)
    if consent.kept is not None:
        consent.kept.guard(fleet.fingerprint, fleet.records)
    guard = _guard(fleet, options)
    if consent.check or guard is not None or not fleet.changed:
        hosts_now = tuple(_untouched(fleet, plan, Outcome.WOULD_CHANGE) for plan in fleet.plans)
        return ReconcileResult(fleet=fleet, hosts=_judged(hosts_now, options), guard=guard, check=consent.check)
    if fleet.takes_away:
        consent.ask(fleet)
    done = workers.apply(fleet, hosts, binds=consent.kept is not None)
    found = journaling.findings(context)
    return ReconcileResult(fleet=fleet, hosts=_judged(done, options), guard=None, check=False, findings=found)


def _judged(hosts: Sequence[HostResult], options: ReconcileOptions) -> tuple[HostResult, ...]:
    """The same results, where what only waits for the end of a use is no failure, unless that is what is asked."""
    if options.strict:
        return tuple(hosts)
    return tuple(replace(host, tasks=tuple(map(_waiting_or_not, host.tasks))) for host in hosts)


def _waiting_or_not(found: TaskResult) -> TaskResult:
    if found.planned.waits is None or found.error is not found.planned.refused:
        return found
    return replace(found, outcome=Outcome.WAITING, error=None)


def _guard(fleet: FleetPlan, options: ReconcileOptions) -> errors.TooManyDestroys | None:
    try:
        destroy_guard.guard_destroys(fleet.plans, confirmed=options.confirm_destroys)
    except errors.TooManyDestroys as error:
        return error
    return None


def _untouched(fleet: FleetPlan, plan: HostPlan, outcome: Success) -> HostResult:
    task_results = tuple(task_result(planned, outcome) for planned in plan.tasks)
    return HostResult(host=plan.host, tasks=task_results, error=None, seconds=fleet.seconds[plan.host])


class _Workers:
    """The parallel work, with a thread for each host, and the sessions open meanwhile."""

    def __init__(self, context: Context, options: ReconcileOptions) -> None:
        self._context = context
        self._options = options
        self._run = tasks.Author(by=context.by, at=context.now())
        self._open = OpenHosts(context)
        self._results: dict[
            HostName, list[TaskResult]
        ] = {}  # grows as tasks end, so that a host that fails half way has them too
        self._stop = threading.Event()

    def plan(self, hosts: Sequence[HostDeclaration]) -> FleetPlan:
        """Read and plan every host. Changes nothing."""
        watch: Watch[HostPlan] = Watch(progress=self._context.reading)
        outcomes = fan_out(hosts, self._plan_host, self._host_timeout(stop=None), watch)
        return FleetPlan(
            plans=tuple(outcome.value for outcome in outcomes if outcome.value is not None),
            errors=tuple((outcome.host, outcome.error) for outcome in outcomes if outcome.error is not None),
            findings=self._context.inventory.findings,
            seconds={outcome.host: outcome.seconds for outcome in outcomes},
        )

    def apply(self, fleet: FleetPlan, hosts: Sequence[HostDeclaration], *, binds: bool) -> tuple[HostResult, ...]:
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
        return tuple(done.get(plan.host) or _untouched(fleet, plan, Outcome.UNCHANGED) for plan in fleet.plans)

    def _host_timeout(self, stop: threading.Event | None) -> HostTimeout:
        return self._open.host_timeout(stop, self._options.host_deadline_s)

    def _plan_host(self, declaration: HostDeclaration) -> HostPlan:
        with self._open.session(declaration) as session:
            return host_plan.plan_host(session.observe(saved=True), declaration, self._run)

    def _apply_host(self, declaration: HostDeclaration, agreed: HostPlan, count: StepCount, *, binds: bool) -> None:
        with self._open.session(declaration) as session:
            host = HostRun(session, self._run, agreed.takes_away, stepped=count.add)
            self._results[declaration.name] = host.results
            view = session.lock("reconcile", saved=True)
            detach.guard_ledger(view)
            if binds and host_plan.plan_host(view, declaration, self._run).fingerprint != agreed.fingerprint:
                raise errors.PlanOutdated(
                    f"{declaration.name} has changed since the plan was made",
                    hint="make a new plan with --out; nothing was changed on this host",
                )
            work = tasks.of_host(view, declaration)
            host.go(view, work, stopped=lambda: self._stop.is_set() or self._open.is_left(declaration.name))
