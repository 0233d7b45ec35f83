"""The jobs of one host, one after the other, inside its lock: each planned on what the ones before it left, done, and looked at."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vgpumgr import errors
from vgpumgr.controller.apply import apply
from vgpumgr.controller.journaling import Entry, entry_of, recorded
from vgpumgr.controller.results import UnitResult
from vgpumgr.controller.stale import judged
from vgpumgr.core.plan.plan import Plan
from vgpumgr.core.reconcile import reconciling
from vgpumgr.core.reconcile.worklist import Worklist

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from vgpumgr.controller.session import Session
    from vgpumgr.core.inventory import HostDeclaration
    from vgpumgr.core.model.observed import HostView
    from vgpumgr.core.plan.changes import Step
    from vgpumgr.core.reconcile.jobs import Job, Run
    from vgpumgr.core.reconcile.reconciling import Unit
    from vgpumgr.names import HostName


class HostRun:
    """One host's run. `results` grows as jobs end. `agreed` is all that may be taken away; None: whatever the jobs ask for."""

    def __init__(self, session: Session, declaration: HostDeclaration, run: Run, agreed: Sequence[Step] | None) -> None:
        self.results: list[UnitResult] = []
        self._session = session
        self._declaration = declaration
        self._run = run
        self._agreed = agreed

    def go(self, view: HostView, todo: Iterable[Job], *, stopped: Callable[[], bool]) -> HostView:
        """Do them all; the host as it is afterwards. Raises what ended the work before its end; one VM's failure is only its own."""
        gpus: set[str] = set()
        work = Worklist(todo)
        for job in work:
            if stopped():
                break
            unit, left = reconciling.plan_next(view, self._declaration, job, self._run)
            if unit.plan is not None and unit.plan.takes_away:
                # A VM may have been saved, or a snapshot made, since the host was read: other jobs can take minutes.
                view = self._session.with_saved(view)
                unit, left = reconciling.plan_next(view, self._declaration, job, self._run)
            if unit.plan is None or not unit.steps:
                work.tell(job, may_pass=unit.may_pass, changed=False)
                self._note(unit_result(unit, "unchanged"))
                continue
            gpus.update(unit.plan.gpus)
            error = self._do(unit)
            work.tell(
                job, may_pass=unit.may_pass, changed=error is None
            )  # what failed changed nothing, however often it is tried
            self._note(unit_result(unit, "done", error))
            if error is None:
                view = left  # cheaper than another look
            elif isinstance(error, (errors.Unreachable, errors.ProgramFailed, errors.LeaseLost)):
                raise error
            else:
                view = self._look()
        after = self._session.unlock(view, sorted(gpus))
        self._judge(after)
        return after

    def _note(self, result: UnitResult) -> None:
        """Keep a result; a job that came again has the last one that is not another refusal."""
        first = next((at for at, one in enumerate(self.results) if one.unit.job == result.unit.job), None)
        if first is None:
            self.results.append(result)
        elif result.unit.steps or result.error is None:
            self.results[first] = result

    def _look(self) -> HostView:
        return self._session.with_saved(self._session.observe())

    def _do(self, unit: Unit) -> errors.VgpumgrError | None:
        assert unit.plan is not None
        agreed = unit.plan.takes_away if self._agreed is None else self._agreed
        new = [step for step in unit.plan.takes_away if step not in agreed]
        if new:
            return errors.StalePlan(
                f"{self._declaration.name} changed since the plan was made: it would now also {new[0].verb}",
                hint="run the same command again: it plans afresh",
            )
        try:
            with recorded(self._session.context, _entry(unit, self._declaration.name)):
                apply(self._session, unit.plan)
        except errors.StalePlan as error:
            return judged(error, self._declaration.name, unit.steps, lambda: self._plan_again(unit))
        except errors.VgpumgrError as error:
            return error
        return None

    def _plan_again(self, unit: Unit) -> Sequence[Step]:
        return reconciling.plan_job(self._look(), self._declaration, unit.job, self._run).steps

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


def unit_result(unit: Unit, outcome: str, error: errors.VgpumgrError | None = None) -> UnitResult:
    """`outcome` is for a unit that has steps: one without is unchanged, a refused one has its error's."""
    failed = error or unit.refused
    if failed is not None:
        return UnitResult(unit=unit, outcome=failed.outcome, error=failed)
    return UnitResult(unit=unit, outcome=outcome if unit.steps else "unchanged", error=None)


def _entry(unit: Unit, host: HostName) -> Entry:
    """The journal's line of a unit: which job, and the causes of its drift."""
    return entry_of(
        unit.steps,
        verb=unit.job.verb,
        why="; ".join(dict.fromkeys((unit.job.why, *(row.cause for row in unit.drift)))),
        host=host,
        vm=unit.job.vm,
        vm_uuid=unit.plan.vm.uuid if isinstance(unit.plan, Plan) else None,
    )
