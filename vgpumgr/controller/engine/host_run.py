"""The tasks of one host: done in turn inside its lock, each planned on the result of the ones before it.

All plans are carried out here. attach, detach, adopt and `scheduler set` have one task (change.py); commands for many
hosts are in run.py.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from vgpumgr import errors
from vgpumgr.controller.engine.apply import apply
from vgpumgr.controller.engine.journaling import Line, end_all, intent_of, recorded
from vgpumgr.controller.engine.stale import judged
from vgpumgr.controller.results import TaskResult
from vgpumgr.core import simulate
from vgpumgr.core.commands import command
from vgpumgr.core.explain.remedies import explained
from vgpumgr.core.reconcile import host_plan, task_plan, tasks
from vgpumgr.core.reconcile.queue import Queue
from vgpumgr.core.slot import detach, quotas
from vgpumgr.wording import joined, say

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from vgpumgr.controller.hosts.session import Session
    from vgpumgr.core.inventory import HostDeclaration
    from vgpumgr.core.model.owners import Allowances, Amount
    from vgpumgr.core.model.view import HostView
    from vgpumgr.core.reconcile.host_plan import HostPlan
    from vgpumgr.core.reconcile.planned import PlannedTask
    from vgpumgr.core.reconcile.tasks import Author, Task
    from vgpumgr.core.slot.plan import AnyPlan
    from vgpumgr.core.step import Step
    from vgpumgr.names import HostName, OwnerName

_ENDS_THE_RUN = (errors.Unreachable, errors.ProgramFailed, errors.LeaseLost)


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """What is done on a host. `what` is shown to a run that waits for the host's lock. `plan` plans all of `todo`.

    `saved`: plans may need the VMs' managed-save images and snapshots.
    """

    what: str
    todo: Callable[[HostView, HostDeclaration], Sequence[Task]]
    plan: Callable[[HostView, HostDeclaration, Sequence[Task], Author], HostPlan] = host_plan.plan_work
    saved: bool = True


class HostRun:
    """One host's run. `before` is the host as it was last read; None before the first reading.

    `results` grows as tasks end, so that a host that fails half way has them too. `alone`: there is one task, and its
    failure is raised at once, without another reading. `stopped` is asked before each task; True: no more task begins.
    """

    def __init__(
        self,
        session: Session,
        work: Work,
        author: Author,
        *,
        alone: bool = False,
        stopped: Callable[[], bool] = lambda: False,
    ) -> None:
        self.session = session
        self.author = author
        self.results: list[TaskResult] = []
        self.before: HostView | None = None
        self._host = session.declaration.name
        self._work = work
        self._alone = alone
        self._stopped = stopped
        self._agreed: Sequence[Step] | None = None
        self._stepped: Callable[[HostName, PlannedTask], None] = lambda _host, _planned: None
        self._lines: list[tuple[Task, Line]] = []
        self._noted: dict[Task, int] = {}  # where in `results` each task's result is

    def look(self, *, lock: bool = False) -> HostView:
        """Read the host; with `lock`, inside its lock, which is kept. Raises LedgerBroken, and Busy with `lock`."""
        saved = self._work.saved
        view = self.session.lock(self._work.what, saved=saved) if lock else self.session.observe(saved=saved)
        detach.guard_ledger(view)
        self.before = view
        return view

    @property
    def view(self) -> HostView:
        """The host as it was last read."""
        assert self.before is not None
        return self.before

    def plan(self) -> HostPlan:
        """The plan of all tasks of the host."""
        return self._work.plan(self.view, self.session.declaration, self._todo, self.author)

    def growth(self) -> dict[OwnerName, Amount]:
        """How much more of this host its plan gives to each owner with a quota."""
        return quotas.growth(self.view, simulate.apply(self.view, self.plan().steps)) if self.view.quotas else {}

    def allow(self, allowances: Allowances) -> None:
        """Set the allowances within which the host, as it was last read, is planned."""
        self.before = replace(self.view, allowances=allowances)

    def unlock(self) -> None:
        """Release the lock, since the user has to be asked."""
        self.session.unlock(self.view)

    def foretell(self, plan: HostPlan, outcome: errors.Success) -> HostView:
        """The host's state as the plan would leave it. Fills `results`; tasks with steps get `outcome`."""
        self.results = [task_result(planned, outcome) for planned in plan.tasks]
        return simulate.apply(self.view, plan.steps)

    def go(
        self,
        todo: Sequence[Task] | None = None,
        *,
        agreed: Sequence[Step] | None = None,
        stepped: Callable[[HostName, PlannedTask], None] = lambda _host, _planned: None,
    ) -> HostView:
        """Do all tasks, in the order of `todo` if there is one, release the lock, and return the host's state.

        `agreed`: the only removals allowed; None: all that the tasks need. `stepped` is called with each finished task.
        A task's failure is in its result. Raises the error that ended the work early, and NotConverged.
        """
        self._agreed, self._stepped = agreed, stepped
        try:
            view, plans = self._go(self.view, self._todo if todo is None else todo)
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
            end_all(self.session.context, ends)
        if left:
            raise _not_converged(self._host, left)
        return after

    @property
    def _todo(self) -> Sequence[Task]:
        return self._work.todo(self.view, self.session.declaration)

    def _go(self, view: HostView, todo: Sequence[Task]) -> tuple[HostView, list[AnyPlan]]:
        plans: list[AnyPlan] = []
        work = Queue(todo)
        for task in work:
            if self._stopped():
                break
            planned, left = host_plan.plan_next(view, self.session.declaration, task, self.author)
            if self._lines and planned.plan is not None and planned.plan.takes_away:
                # Other tasks can take minutes: a VM may have been saved since the host was read, or a snapshot made.
                view = self.session.with_saved_states(view)
                planned, left = host_plan.plan_next(view, self.session.declaration, task, self.author)
            if planned.plan is None or not planned.steps:
                work.tell(planned, changed=False)
                self._note(task_result(planned, errors.Outcome.UNCHANGED))
                continue
            plans.append(planned.plan)
            error = self._do(planned)
            # A failed task changed nothing, however often it is tried.
            work.tell(planned, changed=error is None)
            self._note(task_result(planned, errors.Outcome.DONE, error))
            if error is None and planned.plan.goes_on:
                view = self.session.observe(saved=True)
                work.put_first(task)
            elif error is None:
                view = left  # cheaper than reading the host again
            elif self._alone or isinstance(error, _ENDS_THE_RUN):
                raise error
            else:
                view = self.session.observe(saved=True)
        return self._note_waits(view, work, plans), plans

    def _note_waits(self, view: HostView, work: Queue, plans: list[AnyPlan]) -> HostView:
        """For each slot that found no room in the whole run, note since when it waits."""
        for planned in () if self._stopped() else work.notes:
            assert planned.plan is not None
            plans.append(planned.plan)
            error = self._do(planned)
            self._note(task_result(planned, errors.Outcome.DONE, error))
            if error is None:
                view = simulate.apply(view, planned.steps)
            elif isinstance(error, _ENDS_THE_RUN):
                raise error
            else:
                view = self.session.observe(saved=True)
        return view

    def _last_look(self, view: HostView, plans: Sequence[AnyPlan]) -> tuple[HostView, dict[Task, tuple[Step, ...]]]:
        """Release the lock. Returns the host's state, and the steps that finished tasks still lack."""
        gpus, vms = {gpu for plan in plans for gpu in plan.gpus}, {vm for plan in plans for vm in plan.vms}
        try:
            after = self.session.unlock(view, sorted(gpus), sorted(vms))
            return after, self._residues(after)
        except errors.VgpumgrError:
            raise
        except Exception as error:
            about = "all steps were done, but then the final reading of the host"
            raise errors.Unexpected.of(error, about=about, host=self._host) from error

    def _note(self, result: TaskResult) -> None:
        """Keep a result. A repeated task's result replaces its earlier one, unless the task was only refused again."""
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
                say("{} changed since the plan was made: it would now also {}", self._host, new[0].verb),
                hint="run the same command again to make a new plan",
            )
        try:
            with recorded(self.session.context, intent_of(planned, self._host)) as line:
                apply(self.session, planned.plan)
        except errors.StalePlan as error:
            return judged(error, self._host, planned.steps, lambda: self._plan_again(planned.task))
        except errors.VgpumgrError as error:
            return error
        self._lines.append((planned.task, line))
        self._stepped(self._host, planned)
        return None

    def _plan_again(self, task: Task) -> Sequence[Step]:
        view = self.session.observe(saved=tasks.needs_saved(task))
        detach.guard_ledger(view)
        return task_plan.plan_task(view, self.session.declaration, task, self.author).steps

    def _residues(self, after: HostView) -> dict[Task, tuple[Step, ...]]:
        found: dict[Task, tuple[Step, ...]] = {}
        for result in self.results:
            if result.outcome == errors.Outcome.DONE:
                task = result.planned.task
                steps = task_plan.plan_task(after, self.session.declaration, task, self.author).steps
                if steps:
                    found[task] = steps
        return found


def task_result(planned: PlannedTask, outcome: errors.Success, error: errors.VgpumgrError | None = None) -> TaskResult:
    """A task's result: its error's outcome if it has one, `outcome` if it has steps, else unchanged or unverified."""
    failed = error or planned.refused
    if failed is not None:
        return TaskResult(planned=planned, outcome=failed.outcome, error=explained(failed))
    if planned.steps:
        return TaskResult(planned=planned, outcome=outcome, error=None)
    idle = errors.Outcome.UNCHANGED if planned.unverified is None else errors.Outcome.UNVERIFIED
    return TaskResult(planned=planned, outcome=idle, error=None)


def _not_converged(host: HostName, left: dict[Task, tuple[Step, ...]]) -> errors.NotConverged:
    return errors.NotConverged(
        say("all steps were done, but {} is not as planned", joined(", ", (task.subject for task in left))),
        host=host,
        details=[
            say("still to do: {} ({})", step.verb, task.subject) for task, steps in left.items() for step in steps
        ],
        hint=say(
            "see `{}`; something else may be changing the host; run the same command again", command("list", host)
        ),
    )
