"""Carry out exactly a plan's steps; what fails half way takes back what this run did, and nothing else."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from vgpumgr import errors
from vgpumgr.controller.executor import Executor
from vgpumgr.controller.undo import GOES_ON, undo, verbs
from vgpumgr.core.plan import changes
from vgpumgr.link import moments
from vgpumgr.link.deadlines import Bounded

if TYPE_CHECKING:
    from vgpumgr.controller.session import Session
    from vgpumgr.core.plan.plan import AnyPlan

STEP_END_S = 180.0  # never reached: every wait below has a shorter end of its own
_BEGIN_S = 1.0
_MOMENT_S = 1.0
_PROGRAM = "program"  # the stage of errors.Unreachable


def apply(session: Session, plan: AnyPlan) -> None:
    """Do the steps in order. Raises what a step raised, once all that was done is undone; PartialApply where it could not be.

    Raises LedgerUnwritable before the first step, where a step would write the ledger and the host has said that it cannot.

    A destroyed vGPU is never made again by an undo: the same command goes on from there instead. After a Ctrl-C the step
    under way is still waited for, because half a step cannot be undone; a second one leaves all to the next run.
    """
    _guard_ledger_writable(session, plan)
    executor = Executor(session, plan)
    run = _Run(executor)
    try:
        Bounded(run.go, name="apply").result(threading.TIMEOUT_MAX)
    except errors.VgpumgrError as error:
        lost = _lost_lease(session, error)
        undo(executor, run.steps, run.done, lost or error)
        if lost is not None:
            raise lost from error
        if run.done:
            error.details = (*error.details, "what had been done before is undone")
        raise
    except KeyboardInterrupt:
        run.stop()
        moments.tell(session.declaration.name, "interrupted", run.under_way)
        session.context.progress(
            f"interrupted: waiting for {run.under_way}, then undoing; once more leaves it to the next run"
        )
        failed = run.settle()
        if any(isinstance(step, changes.DestroyVgpu) for step in run.done):
            also = f"; {failed}" if failed else ""
            session.context.progress(f"interrupted after {verbs(run.done)}{also}: {GOES_ON}")
        else:
            undo(executor, run.steps, run.done, failed)
        raise


def _guard_ledger_writable(session: Session, plan: AnyPlan) -> None:
    """A full or read-only disk is told before a VM's definition is touched."""
    if session.unwritable is not None and any(
        isinstance(step, changes.VgpuStep) or (isinstance(step, changes.SetScheduler) and step.around)
        for step in plan.steps
    ):
        raise session.unwritable


def _lost_lease(session: Session, error: errors.VgpumgrError) -> errors.LeaseLost | None:
    """Whether a connection that went is the lock's lease that ended: the host ends it then, so that nothing more is written."""
    if not isinstance(error, errors.Unreachable):
        return None
    # What has just not answered in its time is asked once more for a moment only: a connection that ended says so at once.
    silent = isinstance(error, errors.HostDeadline) and error.stage == _PROGRAM
    try:
        session.link.ping(*((_MOMENT_S,) if silent else ()))
    except errors.LeaseLost as lost:
        return lost
    except errors.HostError:
        return None
    return None


class _Run:
    """The steps of a plan, in a thread of their own: a signal's exception strikes the main thread only, at any instruction,
    and what was done must be known exactly.

    `steps`: the plan's, with what was done in the place of a refused one. `done` is how they begin.
    """

    def __init__(self, executor: Executor) -> None:
        self.steps = list(executor.plan.steps)
        self.done: list[changes.Step] = []
        self.under_way = "the first step"
        self._executor = executor
        self._failed: errors.VgpumgrError | None = None
        self._stopped = False
        self._begun = threading.Event()
        self._ended = threading.Event()

    def go(self) -> None:
        """Do the steps until one fails or `stop` is called."""
        self._begun.set()
        try:
            while len(self.done) < len(self.steps) and not self._stopped:
                step = self.steps[len(self.done)]
                self.under_way = step.verb
                try:
                    self._executor.execute(step)
                except errors.NvmlRefused as refused:
                    instead = changes.instead(step, refused.code)
                    if not instead:
                        raise
                    self._executor.tell(f"{refused.message}: idle vGPUs are moved out for a moment")
                    self.steps[len(self.done) : len(self.done) + 1] = instead
                else:
                    self.done.append(step)
        except errors.VgpumgrError as error:
            self._failed = error
            raise
        except Exception as error:
            self._failed = errors.Unexpected.of(
                error, about=f"{self._executor.session.declaration.name}: {self.under_way}"
            )
            raise self._failed from error
        finally:
            self._ended.set()

    def stop(self) -> None:
        """Begin no further step, and end one that waits for a VM's end."""
        self._stopped = True
        self._executor.interrupted.set()

    def settle(self) -> errors.VgpumgrError | None:
        """Wait for the end of the step under way; what made it fail, if it did. From then on the executor waits for VMs again."""
        # A thread that has not begun was interrupted out of its start.
        if not self._begun.wait(_BEGIN_S) or self._ended.wait(STEP_END_S):
            self._executor.interrupted.clear()
        return self._failed
