"""One command over hosts: a thread for each, and the sessions that are open meanwhile.

Some commands plan every host, and then lock, plan again and change each that has something to do (`plan`,
`carry_out`). requests.py does each host's part itself.
"""

from __future__ import annotations

import threading
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, TypeVar

from vgpumgr import errors
from vgpumgr.controller.engine import journaling
from vgpumgr.controller.engine.allotment import Allotment
from vgpumgr.controller.engine.host_run import HostRun, task_result
from vgpumgr.controller.engine.step_count import StepCount
from vgpumgr.controller.hosts.fan_out import Watch, fan_out
from vgpumgr.controller.hosts.open_hosts import HOST_DEADLINE_S, OpenHosts
from vgpumgr.controller.results import FleetPlan, FleetResult, HostResult
from vgpumgr.core.reconcile import tasks
from vgpumgr.errors import Outcome
from vgpumgr.wording import Option, say

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Sequence

    from vgpumgr.controller.context import Context, Progress
    from vgpumgr.controller.engine.host_run import Work
    from vgpumgr.controller.hosts.fan_out import Outcome as Ended
    from vgpumgr.controller.hosts.session import Session
    from vgpumgr.controller.results import Consent, TaskResult
    from vgpumgr.core.inventory import Finding, HostDeclaration
    from vgpumgr.core.reconcile.host_plan import HostPlan
    from vgpumgr.errors import Success, VgpumgrError
    from vgpumgr.names import HostName

Value = TypeVar("Value")


class Run:
    """One command over hosts. Everything that it writes has the same author and time.

    `host_deadline_s`: how long each host may take.
    """

    def __init__(self, context: Context, host_deadline_s: float = HOST_DEADLINE_S) -> None:
        self.opened = OpenHosts(context)
        self._context = context
        self._host_deadline_s = host_deadline_s
        self._author = tasks.Author(by=context.by, at=context.now())
        self._stop = threading.Event()
        self.allotment = Allotment(context)

    def on(self, session: Session, work: Work) -> HostRun:
        """The run on one host. No task begins there after a Ctrl-C, or once the host has taken too long."""
        host = session.declaration.name
        session.allotted = self.allotment.of
        return HostRun(session, work, self._author, stopped=lambda: self._stop.is_set() or self.opened.is_left(host))

    def each(
        self,
        hosts: Sequence[HostDeclaration],
        work: Callable[[HostDeclaration], Value],
        progress: Callable[[Progress], None] = lambda _: None,
        *,
        waits: bool = True,
    ) -> dict[HostName, Ended[Value]]:
        """Run `work` for every host, a limited number at a time.

        `progress` is called with how far the hosts are. `waits`: a Ctrl-C waits until the work has ended.
        """
        watch: Watch[Value] = Watch(progress=progress)
        timeout = self.opened.host_timeout(self._stop if waits else None, self._host_deadline_s)
        return {end.host: end for end in fan_out(hosts, work, timeout, watch, timing=self._context.timing)}

    def plan(self, hosts: Sequence[HostDeclaration], work: Work) -> FleetPlan:
        """Read and plan every host. Changes nothing."""

        def plan(declaration: HostDeclaration) -> HostPlan:
            with self.opened.session(declaration) as session:
                run = self.on(session, work)
                run.look()
                return self.plan_read(run)

        self._context.say_reading(hosts)
        ends = self.within_quotas(self.each(hosts, plan, self._context.reading, waits=False))
        return fleet_plan(ends.values(), self._context.inventory.findings)

    def plan_read(self, run: HostRun) -> HostPlan:
        """The plan of a host that was read. It keeps to the owners' quotas only if they were divided before."""
        self.allotment.note(run)
        return run.plan()

    def within_quotas(self, ends: dict[HostName, Ended[HostPlan]]) -> dict[HostName, Ended[HostPlan]]:
        """The hosts' plans. Those that give more to an owner with a quota are made again, within what is left of it."""
        again = self.allotment.decide([host for host, end in ends.items() if end.value is None])
        plans = {run.session.declaration.name: run.plan() for run in again}
        return {**ends, **{host: replace(ends[host], value=plan) for host, plan in plans.items()}}

    @contextmanager
    def counted_again(self) -> Iterator[None]:
        """A block in which this command has its turn, and the owners' quotas are divided again. It locks no host."""
        with self.allotment:
            self.allotment.count_again()
            yield

    def carry_out(
        self,
        fleet: FleetPlan,
        work: Work,
        consent: Consent[FleetPlan],
        *,
        asks: bool,
        guard: VgpumgrError | None = None,
    ) -> FleetResult:
        """Show the plan, ask if `asks`, and change each host that has steps to do. `guard`: why nothing may be done.

        Each host is planned again first; removals that were not in the plan shown are not carried out. An error of one
        host or task is in the result. Raises Declined, UsageError or PlanOutdated.
        """
        consent.show(fleet)
        if consent.kept is not None:
            consent.kept.guard(fleet.fingerprint, fleet.records)
        if consent.check or guard is not None or not fleet.changed:
            would_be = tuple(_as_planned(fleet, plan, Outcome.WOULD_CHANGE) for plan in fleet.plans)
            return FleetResult(fleet=fleet, hosts=would_be, guard=guard, check=consent.check)
        if asks:
            consent.ask(fleet)
        with self.counted_again():
            hosts = self._apply(fleet, work, binds=consent.kept is not None)
        return FleetResult(
            fleet=fleet, hosts=hosts, guard=None, check=False, findings=journaling.findings(self._context)
        )

    def _apply(self, fleet: FleetPlan, work: Work, *, binds: bool) -> tuple[HostResult, ...]:
        """Carry out the plans. A host without steps is not contacted again.

        `binds`: a host whose plan is no longer the same is skipped.
        """
        agreed = {plan.host: plan for plan in fleet.plans if plan.changed}
        count = StepCount(agreed.values(), self._context)
        # The list of a host grows as its tasks end, so that a host that fails half way has them too.
        results: dict[HostName, list[TaskResult]] = {}

        def apply(declaration: HostDeclaration) -> None:
            with self.opened.session(declaration) as session:
                run, plan = self.on(session, work), agreed[declaration.name]
                results[declaration.name] = run.results
                run.look(lock=True)
                if binds and run.plan().fingerprint != plan.fingerprint:
                    raise errors.PlanOutdated(
                        say("{} has changed since the plan was made", declaration.name),
                        hint=say("make a new plan with {}; nothing was changed on this host", Option("--out")),
                    )
                run.go(agreed=plan.takes_away, stepped=count.add)

        ends = self.each([self._context.inventory.hosts[host] for host in agreed], apply, count.progress)
        return tuple(
            HostResult(
                host=plan.host,
                tasks=tuple(results.get(plan.host, ())),
                error=ends[plan.host].error,
                seconds=fleet.seconds[plan.host] + ends[plan.host].seconds,
            )
            if plan.host in ends
            else _as_planned(fleet, plan, Outcome.UNCHANGED)
            for plan in fleet.plans
        )


def fleet_plan(ends: Collection[Ended[HostPlan]], findings: Iterable[Finding]) -> FleetPlan:
    """The plan of all hosts, put together from each host's plan or error."""
    return FleetPlan(
        plans=tuple(end.value for end in ends if end.value is not None),
        errors=tuple((end.host, end.error) for end in ends if end.error is not None),
        findings=tuple(findings),
        seconds={end.host: end.seconds for end in ends},
    )


def _as_planned(fleet: FleetPlan, plan: HostPlan, outcome: Success) -> HostResult:
    task_results = tuple(task_result(planned, outcome) for planned in plan.tasks)
    return HostResult(host=plan.host, tasks=task_results, error=None, seconds=fleet.seconds[plan.host])
