"""The tasks of one host, one after the other, inside its lock. Each is planned on the result of the ones before it.

All changes are made here. attach, detach, adopt and `scheduler set` have one task and ask for confirmation of its plan
(change.py); Ansible's lists have many and never prompt (requests.py); reconcile has asked once for all hosts.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from vgpumgr import errors
from vgpumgr.controller.engine.apply import apply
from vgpumgr.controller.engine.journaling import Line, end_all, intent_of, recorded
from vgpumgr.controller.engine.stale import judged
from vgpumgr.controller.results import TaskResult
from vgpumgr.core.commands import command
from vgpumgr.core.explain.remedies import explained
from vgpumgr.core.reconcile import host_plan, task_plan, tasks
from vgpumgr.core.reconcile.queue import Queue
from vgpumgr.core.slot import detach

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from vgpumgr.controller.hosts.session import Session
    from vgpumgr.core.model.view import HostView
    from vgpumgr.core.reconcile.planned import PlannedTask
    from vgpumgr.core.reconcile.tasks import Author, Task
    from vgpumgr.core.slot.plan import AnyPlan
    from vgpumgr.core.step import Step
    from vgpumgr.names import HostName


class HostRun:
    """One host's run. `results` grows as tasks end. `agreed` is all that may be removed; None: whatever the tasks ask for.

    `alone`: there is one task, and its failure is raised at once, without another look at the host. `stepped` is told each task
    that was done.
    """

    def __init__(
        self,
        session: Session,
        author: Author,
        agreed: Sequence[Step] | None = None,
        *,
        alone: bool = False,
        stepped: Callable[[HostName, PlannedTask], None] = lambda _host, _planned: None,
    ) -> None:
        self.results: list[TaskResult] = []
        self._session = session
        self._host = session.declaration.name
        self._run = author
        self._agreed = agreed
        self._alone = alone
        self._stepped = stepped
        self._lines: list[tuple[Task, Line]] = []
        self._noted: dict[Task, int] = {}  # where each task's result is

    def read(self, todo: Sequence[Task]) -> HostView:
        """The host's present state, with everything that the tasks' plans need. Changes nothing. Raises LedgerBroken."""
        return _readable(self._session.observe(saved=_needs_saved(todo)))

    def lock(self, what: str, todo: Sequence[Task]) -> HostView:
        """The same inside the host's lock; a run that waits for the lock is shown `what`. Raises Busy, LedgerBroken."""
        return _readable(self._session.lock(what, saved=_needs_saved(todo)))

    def plan(self, view: HostView, task: Task) -> PlannedTask:
        """One task's plan there. Raises its refusal."""
        planned, _ = host_plan.plan_next(view, self._session.declaration, task, self._run)
        if planned.refused is not None:
            raise explained(planned.refused)
        return planned

    def go(self, view: HostView, todo: Sequence[Task], *, stopped: Callable[[], bool] = lambda: False) -> HostView:
        """Do all tasks, release the lock, and return the host's state.

        A task's failure is in its result. Raises the error that ended the work early, and NotConverged.
        """
        try:
            view, plans = self._go(view, todo, stopped)
            after, left = self._last_look(view, plans)
            ends = [
                (line, _not_converged(self._host, {task: left[task]}) if task in left else None)
                for task, line in self._lines
            ]
            self._lines.clear()
        except BaseException:
            ends = [(line, None) for _, line in self._lines]  # finished work remains, whatever ended the run
            raise
        finally:
            end_all(self._session.context, ends)
        if left:
            raise _not_converged(self._host, left)
        return after

    def _go(self, view: HostView, todo: Sequence[Task], stopped: Callable[[], bool]) -> tuple[HostView, list[AnyPlan]]:
        plans: list[AnyPlan] = []
        work = Queue(todo)
        for task in work:
            if stopped():
                break
            planned, left = host_plan.plan_next(view, self._session.declaration, task, self._run)
            if self._lines and planned.plan is not None and planned.plan.takes_away:
                # Other tasks can take minutes: a VM may have been saved since the host was read, or a snapshot made.
                view = self._session.with_saved_states(view)
                planned, left = host_plan.plan_next(view, self._session.declaration, task, self._run)
            if planned.plan is None or not planned.steps:
                work.tell(task, may_pass=planned.may_pass, changed=False)
                self._note(task_result(planned, errors.Outcome.UNCHANGED))
                continue
            plans.append(planned.plan)
            error = self._do(planned)
            # A failed task changed nothing, however often it is tried.
            work.tell(task, may_pass=planned.may_pass, changed=error is None)
            self._note(task_result(planned, errors.Outcome.DONE, error))
            if error is None and planned.plan.goes_on:
                view = self._session.observe(saved=True)
                work.put_first(task)
            elif error is None:
                view = left  # cheaper than reading the host again
            elif self._alone or isinstance(error, (errors.Unreachable, errors.ProgramFailed, errors.LeaseLost)):
                raise error
            else:
                view = self._session.observe(saved=True)
        return view, plans

    def _last_look(self, view: HostView, plans: Sequence[AnyPlan]) -> tuple[HostView, dict[Task, tuple[Step, ...]]]:
        """Release the lock and return the host's state. Steps that the finished tasks still have to do there are reported."""
        gpus, vms = {gpu for plan in plans for gpu in plan.gpus}, {vm for plan in plans for vm in plan.vms}
        try:
            after = self._session.unlock(view, sorted(gpus), sorted(vms))
            return after, self._residues(after)
        except errors.VgpumgrError:
            raise
        except Exception as error:
            about = "all steps were done, but then the final reading of the host"
            raise errors.Unexpected.of(error, about=about, host=self._host) from error

    def _note(self, result: TaskResult) -> None:
        """Keep a result; a repeated task keeps its last result that is not another refusal."""
        at = self._noted.setdefault(result.planned.task, len(self.results))
        if at == len(self.results):
            self.results.append(result)
        elif result.planned.steps or result.error is None:
            self.results[at] = result

    def _do(self, planned: PlannedTask) -> errors.VgpumgrError | None:
        assert planned.plan is not None
        agreed = planned.plan.takes_away if self._agreed is None else self._agreed
        new = [step for step in planned.plan.takes_away if step not in agreed]
        if new:
            return errors.StalePlan(
                f"{self._host} changed since the plan was made: it would now also {new[0].verb}",
                hint="run the same command again to make a new plan",
            )
        try:
            with recorded(self._session.context, intent_of(planned, self._host)) as line:
                apply(self._session, planned.plan)
        except errors.StalePlan as error:
            return judged(error, self._host, planned.steps, lambda: self._plan_again(planned.task))
        except errors.VgpumgrError as error:
            return error
        self._lines.append((planned.task, line))
        self._stepped(self._host, planned)
        return None

    def _plan_again(self, task: Task) -> Sequence[Step]:
        view = self.read((task,))
        return task_plan.plan_task(view, self._session.declaration, task, self._run).steps

    def _residues(self, after: HostView) -> dict[Task, tuple[Step, ...]]:
        found: dict[Task, tuple[Step, ...]] = {}
        for result in self.results:
            if result.outcome == errors.Outcome.DONE:
                task = result.planned.task
                steps = task_plan.plan_task(after, self._session.declaration, task, self._run).steps
                if steps:
                    found[task] = steps
        return found


def _needs_saved(todo: Sequence[Task]) -> bool:
    return any(tasks.needs_saved(task) for task in todo)


def _readable(view: HostView) -> HostView:
    detach.guard_ledger(view)
    return view


def task_result(planned: PlannedTask, outcome: errors.Success, error: errors.VgpumgrError | None = None) -> TaskResult:
    """`outcome` is for a planned task with steps: one without steps is unchanged, a refused one has its error's outcome."""
    failed = error or planned.refused
    if failed is not None:
        return TaskResult(planned=planned, outcome=failed.outcome, error=explained(failed))
    if planned.steps:
        return TaskResult(planned=planned, outcome=outcome, error=None)
    idle = errors.Outcome.UNCHANGED if planned.unverified is None else errors.Outcome.UNVERIFIED
    return TaskResult(planned=planned, outcome=idle, error=None)


def _not_converged(host: HostName, left: dict[Task, tuple[Step, ...]]) -> errors.NotConverged:
    return errors.NotConverged(
        f"all steps were done, but {', '.join(task.subject for task in left)} is not as planned",
        host=host,
        details=[f"still to do: {step.verb} ({task.subject})" for task, steps in left.items() for step in steps],
        hint=f"see `{command('list', host)}`; something else may be changing the host; run the same command again",
    )
