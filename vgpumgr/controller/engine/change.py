"""One requested task on one host: plan, show, ask; then lock, plan again, and leave the rest to HostRun."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic

from vgpumgr.controller.engine import journaling
from vgpumgr.controller.engine.host_run import HostRun
from vgpumgr.controller.results import ChangeResult, Planned, PlanT
from vgpumgr.core.driver.scheduler import describe_wish
from vgpumgr.core.reconcile.tasks import Author, ServeSlot, SetGpuMode, SetGpuScheduler
from vgpumgr.core.slot import plan as plans
from vgpumgr.errors import Outcome, Success

if TYPE_CHECKING:
    from vgpumgr.controller.hosts.session import Session
    from vgpumgr.controller.results import Consent
    from vgpumgr.core.model.view import Finding, HostView
    from vgpumgr.core.reconcile.tasks import Task


@dataclass(frozen=True, slots=True, kw_only=True)
class Change(Generic[PlanT]):
    """The request. `makes`: the type of the task's plan. `asks`: it needs confirmation.

    `name` is its subject, as the host's lock names it. `findings` were made on the way to the host.
    """

    session: Session
    consent: Consent[Planned[PlanT]]
    task: Task
    makes: type[PlanT]
    asks: bool
    name: str
    findings: tuple[Finding, ...] = ()


def carry_out(change: Change[PlanT]) -> ChangeResult[PlanT]:
    """Make the change. Raises the plan's refusal, PlanOutdated, Declined, HostError or ApplyError."""
    session, consent, todo = change.session, change.consent, (change.task,)
    host = HostRun(session, Author(by=session.context.by, at=session.context.now()), alone=True)
    shown: Planned[PlanT] | None = None
    if consent.reads_first(asks=change.asks):
        view = host.read(todo)
        shown = _planned(change, host, view)
        consent.show(shown)
        if consent.check or not shown.plan.changed:
            return _ended(change, shown, Outcome.WOULD_CHANGE if shown.plan.changed else Outcome.UNCHANGED, view)
        consent.ask(shown)
    what = f"{change.task.verb} {change.name}"
    view = host.lock(what, todo)
    now = _planned(change, host, view)
    while not (consent.given or _is_agreed(now, shown)):
        # The host is not locked while the user decides.
        session.unlock(view)
        consent.show(now)
        consent.ask(now)
        shown = now
        view = host.lock(what, todo)
        now = _planned(change, host, view)
    if shown is None:
        consent.show(now)
    elif now.plan.steps != shown.plan.steps:
        session.context.progress("the host changed in between; the plan is now:")
        consent.show(now)
    if not now.plan.changed:
        return _ended(change, now, Outcome.UNCHANGED, view)
    return _ended(change, now, Outcome.DONE, host.go(view, todo))


def _planned(change: Change[PlanT], host: HostRun, view: HostView) -> Planned[PlanT]:
    made = host.plan(view, change.task).plan
    assert isinstance(made, change.makes)
    fingerprint = plans.fingerprint(view, made)
    if change.consent.kept is not None:
        change.consent.kept.guard(fingerprint, [step.record() for step in made.steps])
    return Planned(
        host=change.session.declaration.name,
        plan=made,
        fingerprint=fingerprint,
        requested=_requested(change.task),
        findings=change.findings + made.findings,
    )


def _requested(task: Task) -> str | None:
    match task:
        case ServeSlot(request=request) if request.wish is not None:
            return request.asked
        case SetGpuScheduler():
            return describe_wish(task.wish)
        case SetGpuMode():
            return task.mode
        case _:
            return None


def _ended(change: Change[PlanT], planned: Planned[PlanT], outcome: Success, view: HostView) -> ChangeResult[PlanT]:
    findings = planned.findings + journaling.findings(change.session.context)
    return ChangeResult(planned=planned, outcome=outcome, findings=findings, view=view)


def _is_agreed(now: Planned[PlanT], shown: Planned[PlanT] | None) -> bool:
    """Whether everything that the plan removes was in the plan that the user confirmed."""
    agreed = shown.plan.takes_away if shown is not None else ()
    return all(step in agreed for step in now.plan.takes_away)
