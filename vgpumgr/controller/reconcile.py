"""plan and reconcile: read every host, plan, guard, ask once, reconcile each host. A failure affects only its host.

Every host is planned again inside its lock. Removals in that plan which the user has not confirmed are not carried out.
"""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from vgpumgr import errors
from vgpumgr.controller.engine.host_run import Work
from vgpumgr.controller.engine.run import Run
from vgpumgr.controller.hosts.open_hosts import HOST_DEADLINE_S
from vgpumgr.controller.lately import with_history
from vgpumgr.core.reconcile import destroy_guard, host_plan, recorded, starting, tasks
from vgpumgr.errors import Outcome
from vgpumgr.store.only_one import only_one

if TYPE_CHECKING:
    from collections.abc import Sequence

    from vgpumgr.controller.context import Context
    from vgpumgr.controller.results import Consent, FleetPlan, FleetResult, HostResult, TaskResult

_WORK: Final = Work(what="reconcile", todo=tasks.of_host, plan=host_plan.plan_reconcile)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReconcileOptions:
    """`limit`: patterns of hosts, all if empty. `confirm_destroys`: the most removals that the user expects.

    `strict`: a task that waits until something is idle counts as refused. `start`: start the VMs that are to start with
    their host, and could not. `record`: plans tell what is stored of them for the metrics.
    """

    limit: tuple[str, ...] = ()
    strict: bool = False
    start: bool = False
    record: bool = False
    confirm_destroys: int | None = None
    host_deadline_s: float = HOST_DEADLINE_S


def reconcile(context: Context, options: ReconcileOptions, consent: Consent[FleetPlan]) -> FleetResult:
    """Reconcile the hosts with what was declared and bound. Raises UnknownHost, Declined, UsageError or PlanOutdated.

    Two runs on one controller exclude each other (AlreadyRunning); a run with `check` only reads and never waits.
    An error of one host or VM is in the result, never raised. So is the guard's refusal of all changes, because
    unreachable hosts must be reported beside it.
    """
    hosts = context.inventory.chosen(options.limit)
    with nullcontext() if consent.check or context.store is None else only_one(context.store, context.by):
        run = Run(with_history(context), options.host_deadline_s)
        work = replace(
            _WORK,
            todo=starting.of_host if options.start else _WORK.todo,
            plan=recorded.plan_recorded if options.record else _WORK.plan,
        )
        fleet = run.plan(hosts, work)
        asks, guard = bool(fleet.takes_away), _guard(fleet, options)
        result = run.carry_out(fleet, work, consent, asks=asks, guard=guard)
    return replace(result, hosts=_judged(result.hosts, options))


def _judged(hosts: Sequence[HostResult], options: ReconcileOptions) -> tuple[HostResult, ...]:
    """The results; unless `strict`, a task that only waits until something is idle is no failure."""
    if options.strict:
        return tuple(hosts)
    return tuple(replace(host, tasks=tuple(map(_waiting_or_not, host.tasks))) for host in hosts)


def _waiting_or_not(found: TaskResult) -> TaskResult:
    refused, error = found.planned.refused, found.error
    if found.planned.waits is None or refused is None or error is None or str(error.what) != str(refused.what):
        return found
    return replace(found, outcome=Outcome.WAITING, error=None)


def _guard(fleet: FleetPlan, options: ReconcileOptions) -> errors.TooManyDestroys | None:
    try:
        destroy_guard.guard_destroys(fleet.plans, confirmed=options.confirm_destroys)
    except errors.TooManyDestroys as error:
        return error
    return None
