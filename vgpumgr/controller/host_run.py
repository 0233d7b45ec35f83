"""The jobs of one host, one after the other, inside its lock. Each is planned on the result of the ones before it.

All changes are made here. attach, detach, adopt and `scheduler set` have one job and ask for confirmation of its plan
(change.py); Ansible's lists have many and never prompt (wanted.py); reconcile has asked once for all hosts.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from vgpumgr import errors
from vgpumgr.controller.apply import apply
from vgpumgr.controller.journaling import Entry, Line, entry_of, recorded
from vgpumgr.controller.results import UnitResult
from vgpumgr.controller.stale import judged
from vgpumgr.core.commands import command
from vgpumgr.core.plan import detaching
from vgpumgr.core.plan.plan import Plan
from vgpumgr.core.reconcile import jobs, reconciling
from vgpumgr.core.reconcile.worklist import Worklist

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    from vgpumgr.controller.session import Session
    from vgpumgr.core.model.observed import HostView
    from vgpumgr.core.plan.changes import Step
    from vgpumgr.core.reconcile.jobs import Job, Run
    from vgpumgr.core.reconcile.reconciling import Unit
    from vgpumgr.names import HostName


class HostRun:
    """One host's run. `results` grows as jobs end. `agreed` is all that may be removed; None: whatever the jobs ask for.

    `alone`: there is one job, and its failure is raised at once, without another look at the host.
    """

    def __init__(
        self, session: Session, run: Run, agreed: Sequence[Step] | None = None, *, alone: bool = False
    ) -> None:
        self.results: list[UnitResult] = []
        self._session = session
        self._host = session.declaration.name
        self._run = run
        self._agreed = agreed
        self._alone = alone
        self._lines: list[tuple[Job, Line]] = []

    def read(self, todo: Sequence[Job]) -> HostView:
        """The host's present state, with everything that the jobs' plans need. Changes nothing. Raises LedgerBroken."""
        return self._whole(self._session.observe(), todo)

    def lock(self, what: str, todo: Sequence[Job]) -> HostView:
        """The same inside the host's lock; a run that waits for the lock is shown `what`. Raises Busy, LedgerBroken."""
        return self._whole(self._session.lock(what), todo)

    def plan(self, view: HostView, job: Job) -> Unit:
        """One job's plan there. Raises its refusal."""
        unit, _ = reconciling.plan_next(view, self._session.declaration, job, self._run)
        if unit.refused is not None:
            raise unit.refused
        return unit

    def go(self, view: HostView, todo: Sequence[Job], *, stopped: Callable[[], bool] = lambda: False) -> HostView:
        """Do all jobs, release the lock, and return the host's state.

        A job's failure is in its result. Raises the error that ended the work early, and NotConverged.
        """
        try:
            view, gpus = self._go(view, todo, stopped)
            after, left = self._last_look(view, gpus)
            for job, line in self._lines:
                line.end(_not_converged(self._host, {job: left[job]}) if job in left else None)
            self._lines.clear()
        finally:
            for _, line in self._lines:  # finished work remains, whatever ended the run
                line.end(None)
        if left:
            raise _not_converged(self._host, left)
        return after

    def _go(self, view: HostView, todo: Sequence[Job], stopped: Callable[[], bool]) -> tuple[HostView, set[str]]:
        gpus: set[str] = set()
        work = Worklist(todo)
        for job in work:
            if stopped():
                break
            unit, left = reconciling.plan_next(view, self._session.declaration, job, self._run)
            if self._lines and unit.plan is not None and unit.plan.takes_away:
                # Other jobs can take minutes: a VM may have been saved since the host was read, or a snapshot made.
                view = self._session.with_saved(view)
                unit, left = reconciling.plan_next(view, self._session.declaration, job, self._run)
            if unit.plan is None or not unit.steps:
                work.tell(job, may_pass=unit.may_pass, changed=False)
                self._note(unit_result(unit, errors.Outcome.UNCHANGED))
                continue
            gpus.update(unit.plan.gpus)
            error = self._do(unit)
            # A failed job changed nothing, however often it is tried.
            work.tell(job, may_pass=unit.may_pass, changed=error is None)
            self._note(unit_result(unit, errors.Outcome.DONE, error))
            if error is None:
                view = left  # cheaper than reading the host again
            elif self._alone or isinstance(error, (errors.Unreachable, errors.ProgramFailed, errors.LeaseLost)):
                raise error
            else:
                view = self._session.with_saved(self._session.observe())
        return view, gpus

    def _last_look(self, view: HostView, gpus: Collection[str]) -> tuple[HostView, dict[Job, tuple[Step, ...]]]:
        """Release the lock and return the host's state. Steps that the finished jobs still have to do there are reported."""
        try:
            after = self._session.unlock(view, sorted(gpus))
            return after, self._residues(after)
        except errors.VgpumgrError:
            raise
        except Exception as error:
            about = f"{self._host}: all steps were done, but then the final reading of the host"
            raise errors.Unexpected.of(error, about=about) from error

    def _whole(self, view: HostView, todo: Sequence[Job]) -> HostView:
        detaching.guard_ledger(view)
        needed = any(jobs.needs_saved(view, job) for job in todo)
        return self._session.with_saved(view) if needed else view

    def _note(self, result: UnitResult) -> None:
        """Keep a result; a repeated job keeps its last result that is not another refusal."""
        first = next((at for at, one in enumerate(self.results) if one.unit.job == result.unit.job), None)
        if first is None:
            self.results.append(result)
        elif result.unit.steps or result.error is None:
            self.results[first] = result

    def _do(self, unit: Unit) -> errors.VgpumgrError | None:
        assert unit.plan is not None
        agreed = unit.plan.takes_away if self._agreed is None else self._agreed
        new = [step for step in unit.plan.takes_away if step not in agreed]
        if new:
            return errors.StalePlan(
                f"{self._host} changed since the plan was made: it would now also {new[0].verb}",
                hint="run the same command again to make a new plan",
            )
        try:
            with recorded(self._session.context, _entry(unit, self._host)) as line:
                apply(self._session, unit.plan)
        except errors.StalePlan as error:
            return judged(error, self._host, unit.steps, lambda: self._plan_again(unit.job))
        except errors.VgpumgrError as error:
            return error
        self._lines.append((unit.job, line))
        return None

    def _plan_again(self, job: Job) -> Sequence[Step]:
        view = self._whole(self._session.observe(), (job,))
        return reconciling.plan_job(view, self._session.declaration, job, self._run).steps

    def _residues(self, after: HostView) -> dict[Job, tuple[Step, ...]]:
        found: dict[Job, tuple[Step, ...]] = {}
        for result in self.results:
            if result.outcome == errors.Outcome.DONE:
                job = result.unit.job
                steps = reconciling.plan_job(after, self._session.declaration, job, self._run).steps
                if steps:
                    found[job] = steps
        return found


def unit_result(unit: Unit, outcome: errors.Success, error: errors.VgpumgrError | None = None) -> UnitResult:
    """`outcome` is for a unit with steps: a unit without steps is unchanged, a refused one has its error's outcome."""
    failed = error or unit.refused
    if failed is not None:
        return UnitResult(unit=unit, outcome=failed.outcome, error=failed)
    return UnitResult(unit=unit, outcome=outcome if unit.steps else errors.Outcome.UNCHANGED, error=None)


def _not_converged(host: HostName, left: dict[Job, tuple[Step, ...]]) -> errors.NotConverged:
    return errors.NotConverged(
        f"{host}: all steps were done, but {', '.join(job.subject for job in left)} is not as planned",
        details=[f"still to do: {step.verb} ({job.subject})" for job, steps in left.items() for step in steps],
        hint=f"see `{command('list', host)}`; something else may be changing the host; run the same command again",
    )


def _entry(unit: Unit, host: HostName) -> Entry:
    """A unit's line in the journal: its job, and the causes of its drift."""
    return entry_of(
        unit.steps,
        verb=unit.job.verb,
        why="; ".join(dict.fromkeys((unit.job.why, *(row.cause for row in unit.drift)))),
        host=host,
        vm=unit.job.vm,
        vm_uuid=unit.plan.vm.uuid if isinstance(unit.plan, Plan) else None,
    )
