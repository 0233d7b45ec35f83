"""One requested task on one host."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic

from vgpumgr.controller.engine import journaling
from vgpumgr.controller.engine.agreement import agree
from vgpumgr.controller.engine.allotment import Allotment
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


def change_host(
    context: Context,
    host: str,
    task: Task,
    consent: Consent[Planned[PlanT]],
    makes: type[PlanT],
    *,
    asks: bool,
    name: str,
) -> ChangeResult[PlanT]:
    """Do a task on the host of that name. Raises UnknownHost, and what change raises."""
    with open_session(context, context.inventory.host(host)) as session:
        return change(session, task, consent, makes, asks=asks, name=name)


def change(
    session: Session,
    task: Task,
    consent: Consent[Planned[PlanT]],
    makes: type[PlanT],
    *,
    asks: bool,
    name: str,
    findings: tuple[Finding, ...] = (),
) -> ChangeResult[PlanT]:
    """Do a task. `makes`: its plan's type. `asks`: the task needs confirmation. `findings`: from locating the host.

    `name`: the task's subject, which is shown to runs that wait for the host's lock. Raises the plan's refusal,
    PlanOutdated, Declined, HostError or ApplyError.
    """
    context = session.context
    work = Work(what=f"{task.verb} {name}", todo=lambda _view, _declared: (task,), saved=tasks.needs_saved(task))
    run = HostRun(session, work, tasks.Author(by=context.by, at=context.now()), alone=True)
    with Allotment(context) as allotment:
        session.allotted = allotment.of
        planning = _Planning(run, task, makes, findings, allotment)
        agreement = agree(context, consent, planning, asks=asks, whose="the host")
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
    task: Task
    makes: type[PlanT]
    findings: tuple[Finding, ...]
    allotment: Allotment

    def plan(self, *, lock: bool) -> Planned[PlanT]:
        """Read the host and plan the task. Raises the task's refusal."""

        def look() -> None:
            self.run.look(lock=lock)
            self.allotment.note(self.run)

        if lock:
            self.allotment.look(look, self.run.unlock)
        else:
            look()
        self.allotment.decide()
        view, declaration = self.run.view, self.run.session.declaration
        planned, _ = host_plan.plan_next(view, declaration, self.task, self.run.author)
        if planned.refused is not None:
            raise explained(planned.refused)
        assert isinstance(planned.plan, self.makes)
        return Planned(
            host=declaration.name,
            plan=planned.plan,
            fingerprint=plans.fingerprint(view, planned.plan),
            requested=_requested(self.task),
            findings=self.findings + planned.plan.findings,
        )

    def unlock(self) -> None:
        self.run.unlock()
        self.allotment.end_turn()


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
