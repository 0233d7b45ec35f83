"""plan and reconcile: read every host, plan, guard, ask once, then bring host by host in line. What fails stays where it is.

Every host is planned again inside its lock. What that plan takes away beyond what a person said yes to is left undone.
"""

from __future__ import annotations

import fnmatch
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING

from vgpumgr import errors
from vgpumgr.controller import journaling
from vgpumgr.controller.apply import apply
from vgpumgr.controller.fan_out import Patience, fan_out
from vgpumgr.controller.journaling import Entry, entry_of, recorded
from vgpumgr.controller.results import FleetPlan, HostResult, ReconcileResult, UnitResult
from vgpumgr.controller.session import open_session_patiently
from vgpumgr.core import detaching, guards, jobs, reconciling, simulate
from vgpumgr.core.plan import Plan
from vgpumgr.core.worklist import Worklist

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from vgpumgr.controller.context import Context
    from vgpumgr.controller.results import FleetConsent
    from vgpumgr.controller.session import Session
    from vgpumgr.core.changes import Step
    from vgpumgr.core.inventory import HostDeclaration, Inventory
    from vgpumgr.core.names import HostName
    from vgpumgr.core.observed import HostView
    from vgpumgr.core.reconciling import HostPlan, Unit

HOST_DEADLINE_S = 300.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ReconcileOptions:
    """`limit`: names or shell patterns of hosts, all where empty. `confirm_destroys`: how many a person expects to go."""

    limit: tuple[str, ...] = ()
    confirm_destroys: int | None = None
    host_deadline_s: float = HOST_DEADLINE_S


def reconcile(context: Context, options: ReconcileOptions, consent: FleetConsent) -> ReconcileResult:
    """Bring the hosts to what was declared and bound. Raises UnknownHost, Declined or UsageError.

    What went wrong with one host or one VM is in the result, never raised; and so is the guard that let nothing be changed,
    since a dead host counts beside it.
    """
    hosts = choose_hosts(context.inventory, options.limit)
    workers = _Workers(context, options)
    context.progress(f"reading {hosts[0].name if len(hosts) == 1 else f'{len(hosts)} hosts'} …")
    fleet = workers.plan(hosts)
    consent.show(fleet)
    guard = _guard(fleet, options)
    if consent.check or guard is not None or not fleet.changed:
        hosts_now = tuple(_untouched(fleet, plan, "would_change") for plan in fleet.plans)
        return ReconcileResult(fleet=fleet, hosts=hosts_now, guard=guard, check=consent.check)
    if fleet.takes_away:
        consent.ask(fleet)
    done = workers.apply(fleet, hosts)
    return ReconcileResult(fleet=fleet, hosts=done, guard=None, check=False, findings=journaling.findings(context))


def choose_hosts(inventory: Inventory, limit: Sequence[str]) -> tuple[HostDeclaration, ...]:
    """The hosts that a limit names, in the inventory's order. Raises UnknownHost, InventoryError where there is none."""
    if not inventory.hosts:
        raise errors.InventoryError(
            f"the inventory {inventory.root} has no hosts", hint="docs/inventory.md shows a small one"
        )
    if not limit:
        return tuple(inventory.hosts.values())
    for pattern in limit:
        if not fnmatch.filter(inventory.hosts, pattern):
            inventory.host(pattern)  # raises, with the nearest name
    return tuple(
        host for name, host in inventory.hosts.items() if any(fnmatch.fnmatchcase(name, pattern) for pattern in limit)
    )


def _guard(fleet: FleetPlan, options: ReconcileOptions) -> errors.TooManyDestroys | None:
    try:
        guards.guard_destroys(fleet.plans, confirmed=options.confirm_destroys)
    except errors.TooManyDestroys as error:
        return error
    return None


def _untouched(fleet: FleetPlan, plan: HostPlan, outcome: str) -> HostResult:
    units = tuple(_unit_result(unit, outcome) for unit in plan.units)
    return HostResult(host=plan.host, units=units, error=None, seconds=fleet.seconds[plan.host])


def _unit_result(unit: Unit, outcome: str, error: errors.VgpumgrError | None = None) -> UnitResult:
    """`outcome` is for a unit that has steps: one without is unchanged, a refused one has its error's."""
    failed = error or unit.refused
    if failed is not None:
        return UnitResult(unit=unit, outcome=failed.outcome, error=failed)
    return UnitResult(unit=unit, outcome=outcome if unit.steps else "unchanged", error=None)


def _entry(unit: Unit, host: HostName) -> Entry:
    """The journal's line of a unit: which job, and the causes of its drift."""
    return entry_of(
        unit.steps,
        verb="reconcile",
        why="; ".join(dict.fromkeys((unit.job.why, *(row.cause for row in unit.drift)))),
        host=host,
        vm=unit.job.vm,
        vm_uuid=unit.plan.vm.uuid if isinstance(unit.plan, Plan) else None,
    )


class _Workers:
    """What runs beside one another, a thread for each host, and what is open meanwhile."""

    def __init__(self, context: Context, options: ReconcileOptions) -> None:
        self._context = context
        self._options = options
        self._run = reconciling.Run(by=context.by, at=context.now())
        self._open: dict[HostName, Session] = {}
        self._results: dict[
            HostName, list[UnitResult]
        ] = {}  # grows as jobs end: a host that fails half way has them too
        self._left: set[HostName] = set()
        self._stop = threading.Event()

    def plan(self, hosts: Sequence[HostDeclaration]) -> FleetPlan:
        """Read and plan every host. Changes nothing."""
        outcomes = fan_out(hosts, self._plan_host, self._patience(stop=None))
        return FleetPlan(
            plans=tuple(outcome.value for outcome in outcomes if outcome.value is not None),
            errors=tuple((outcome.host, outcome.error) for outcome in outcomes if outcome.error is not None),
            findings=self._context.inventory.findings,
            seconds={outcome.host: outcome.seconds for outcome in outcomes},
        )

    def apply(self, fleet: FleetPlan, hosts: Sequence[HostDeclaration]) -> tuple[HostResult, ...]:
        """Carry the plans out. A host without steps is not reached again."""
        agreed = {plan.host: plan for plan in fleet.plans}
        todo = [host for host in hosts if host.name in agreed and agreed[host.name].changed]
        outcomes = fan_out(
            todo, lambda host: self._apply_host(host, agreed[host.name].takes_away), self._patience(stop=self._stop)
        )
        done = {
            outcome.host: HostResult(
                host=outcome.host,
                units=tuple(self._results.get(outcome.host, ())),
                error=outcome.error,
                seconds=fleet.seconds[outcome.host] + outcome.seconds,
            )
            for outcome in outcomes
        }
        return tuple(done.get(plan.host) or _untouched(fleet, plan, "unchanged") for plan in fleet.plans)

    def _patience(self, stop: threading.Event | None) -> Patience:
        return Patience(
            seconds=self._options.host_deadline_s, abort=self._abort, tell=self._context.progress, stop=stop
        )

    def _abort(self, host: HostName) -> None:
        self._left.add(host)
        session = self._open.get(host)
        if session is not None:
            session.link.abort()

    def _connect(self, declaration: HostDeclaration) -> Session:
        session = open_session_patiently(self._context, declaration)
        self._open[declaration.name] = session
        if declaration.name in self._left:  # its time ended while it was being reached
            session.link.abort()
        return session

    def _plan_host(self, declaration: HostDeclaration) -> HostPlan:
        with self._connect(declaration) as session:
            return reconciling.plan_host(session.with_saved(session.observe()), declaration, self._run)

    def _apply_host(self, declaration: HostDeclaration, agreed: Sequence[Step]) -> None:
        with self._connect(declaration) as session:
            view = session.with_saved(session.lock("reconcile"))
            detaching.guard_ledger(view)
            host = _HostRun(session, declaration, self._run, agreed)
            self._results[declaration.name] = host.results
            host.go(view, stopped=lambda: self._stop.is_set() or declaration.name in self._left)


class _HostRun:
    """The jobs of one host, one after the other, inside its lock."""

    def __init__(
        self, session: Session, declaration: HostDeclaration, run: reconciling.Run, agreed: Sequence[Step]
    ) -> None:
        self.results: list[UnitResult] = []
        self._session = session
        self._declaration = declaration
        self._run = run
        self._agreed = agreed

    def go(self, view: HostView, *, stopped: Callable[[], bool]) -> None:
        """Do them all. Raises what ended the work before its end; one VM's failure is only its own."""
        gpus: set[str] = set()
        work = Worklist(jobs.of_host(view, self._declaration))
        for job in work:
            if stopped():
                break
            unit = reconciling.plan_job(view, self._declaration, job, self._run)
            if unit.plan is None or not unit.steps:
                work.tell(job, no_room=unit.no_room, changed=False)
                self._note(_unit_result(unit, "unchanged"))
                continue
            gpus.update(unit.plan.gpus)
            error = self._do(unit)
            work.tell(job, no_room=unit.no_room, changed=error is None)  # what failed made no room, however often
            self._note(_unit_result(unit, "done", error))
            if error is None:
                view = self._after(view, unit)
            elif isinstance(error, (errors.Unreachable, errors.ProgramFailed, errors.LeaseLost)):
                raise error
            else:
                view = self._look()
        self._judge(self._session.unlock(view, sorted(gpus)))

    def _note(self, result: UnitResult) -> None:
        """Keep a result; a job that came again has the last one that is not another refusal."""
        first = next((at for at, one in enumerate(self.results) if one.unit.job == result.unit.job), None)
        if first is None:
            self.results.append(result)
        elif result.unit.steps or result.error is None:
            self.results[first] = result

    def _after(self, view: HostView, unit: Unit) -> HostView:
        """What the next job is planned on; cheaper than another look, which it costs where the host did what our rules do not know."""
        try:
            return simulate.apply(view, unit.steps)
        except simulate.ImpossibleStepError:
            return self._look()

    def _look(self) -> HostView:
        return self._session.with_saved(self._session.observe())

    def _do(self, unit: Unit) -> errors.VgpumgrError | None:
        assert unit.plan is not None
        new = [step for step in unit.plan.takes_away if step not in self._agreed]
        if new:
            return errors.StalePlan(
                f"{self._declaration.name} changed since the plan was made: it would now also {new[0].verb}",
                hint="run the same command again: it plans afresh",
            )
        try:
            with recorded(self._session.context, _entry(unit, self._declaration.name)):
                apply(self._session, unit.plan)
        except errors.VgpumgrError as error:
            return error
        return None

    def _judge(self, after: HostView) -> None:
        """What was done must be there: the plans of the jobs that were done are empty now. Raises NotConverged."""
        left = [
            f"{step.verb} ({result.unit.job.subject})"
            for result in self.results
            if result.outcome == "done"
            for step in reconciling.plan_job(after, self._declaration, result.unit.job, self._run).steps
        ]
        if left:
            raise errors.NotConverged(
                f"{self._declaration.name}: all steps were done, and it is not as planned",
                details=[f"still to do: {line}" for line in left],
                hint="somebody else may be changing it; the same command again looks afresh",
            )
