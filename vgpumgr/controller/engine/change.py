"""One requested task on one host."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic

from vgpumgr.controller.engine import journaling
from vgpumgr.controller.engine.agreement import agree
from vgpumgr.controller.engine.host_run import HostRun, Work
from vgpumgr.controller.hosts.session import open_session
from vgpumgr.controller.results import ChangeResult, Planned, PlanT
from vgpumgr.core.driver.scheduler import describe_wish
from vgpumgr.core.explain.remedies import explained
from vgpumgr.core.reconcile import host_plan, tasks
from vgpumgr.core.reconcile.tasks import ServeSlot, SetGpuMode, SetGpuScheduler
from vgpumgr.core.slot import plan as plans
from vgpumgr.errors import Outcome

if TYPE_CHECKING:
    from vgpumgr.controller.context import Context
    from vgpumgr.controller.hosts.session import Session
    from vgpumgr.controller.results import Consent
    from vgpumgr.core.model.view import Finding
    from vgpumgr.core.reconcile.tasks import Task


@dataclass(frozen=True, slots=True, kw_only=True)
class Change(Generic[PlanT]):
    """The request. `makes`: the type of the task's plan. `asks`: it needs confirmation. `name` is its subject, as the host's lock names it."""

    task: Task
    makes: type[PlanT]
    asks: bool
    name: str


def change_host(
    context: Context, host: str, change: Change[PlanT], consent: Consent[Planned[PlanT]]
) -> ChangeResult[PlanT]:
    """Make the change on the host of that name. Raises UnknownHost, and what carry_out raises."""
    with open_session(context, context.inventory.host(host)) as session:
        return carry_out(session, change, consent)


def carry_out(
    session: Session, change: Change[PlanT], consent: Consent[Planned[PlanT]], findings: tuple[Finding, ...] = ()
) -> ChangeResult[PlanT]:
    """Make the change. `findings` were made on the way to the host.

    Raises the plan's refusal, PlanOutdated, Declined, HostError or ApplyError.
    """
    context, task = session.context, change.task
    work = Work(what=f"{task.verb} {change.name}", todo=lambda _view, _declared: (task,), saved=tasks.needs_saved(task))
    run = HostRun(session, work, tasks.Author(by=context.by, at=context.now()), alone=True)
    agreement = agree(context, consent, _Planning(run, change, findings), asks=change.asks, whose="the host")
    view = run.go() if agreement.outcome is None else run.view
    return ChangeResult(
        planned=agreement.plan,
        outcome=agreement.outcome or Outcome.DONE,
        findings=agreement.plan.findings + journaling.findings(context),
        view=view,
    )


@dataclass(frozen=True, slots=True)
class _Planning(Generic[PlanT]):
    run: HostRun
    change: Change[PlanT]
    findings: tuple[Finding, ...]

    def plan(self, *, lock: bool) -> Planned[PlanT]:
        """Raises the task's refusal."""
        view, declaration, task = self.run.look(lock=lock), self.run.session.declaration, self.change.task
        planned, _ = host_plan.plan_next(view, declaration, task, self.run.author)
        if planned.refused is not None:
            raise explained(planned.refused)
        assert isinstance(planned.plan, self.change.makes)
        return Planned(
            host=declaration.name,
            plan=planned.plan,
            fingerprint=plans.fingerprint(view, planned.plan),
            requested=_requested(task),
            findings=self.findings + planned.plan.findings,
        )

    def unlock(self) -> None:
        self.run.unlock()


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
