"""Carry out exactly a plan's steps. A failure half way undoes what this run did, and nothing else."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from vgpumgr import errors
from vgpumgr.controller.engine.executor import Executor
from vgpumgr.controller.engine.undo import GOES_ON, undo, verbs
from vgpumgr.core import step as steps
from vgpumgr.link import moments
from vgpumgr.link.deadlines import Bounded

if TYPE_CHECKING:
    from vgpumgr.controller.hosts.session import Session
    from vgpumgr.core.slot.plan import AnyPlan

STEP_END_S = 180.0  # never reached: every wait below has a shorter limit
_BEGIN_S = 1.0
_MOMENT_S = 1.0
_PROGRAM = "program"  # the stage of errors.Unreachable


def apply(session: Session, plan: AnyPlan) -> None:
    """Do the steps in order. If one fails, undo the finished ones and raise its error; PartialApply if the undo fails.

    Raises LedgerUnwritable before the first step if a step would write a ledger that the host has reported unwritable.

    An undo never re-creates a destroyed vGPU; instead, the same command continues from there. After a Ctrl-C we still
    wait for the current step, because half a step cannot be undone; a second Ctrl-C leaves everything to the next run.
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
            error.details = (*error.details, "the steps before it are undone")
        raise
    except KeyboardInterrupt:
        run.stop()
        moments.tell(session.declaration.name, "interrupted", run.under_way)
        session.context.progress(
            f"interrupted: waiting for {run.under_way}, then undoing; interrupt again to leave it to the next run"
        )
        failed = run.settle()
        if any(step.is_final for step in run.done):
            also = f"; {failed}" if failed else ""
            session.context.progress(f"interrupted after {verbs(run.done)}{also}: {GOES_ON}")
        else:
            undo(executor, run.steps, run.done, failed)
        raise


def _guard_ledger_writable(session: Session, plan: AnyPlan) -> None:
    """Raises LedgerUnwritable (a full or read-only disk) before any step, if a step would write the ledger."""
    if session.unwritable is not None and any(step.writes_ledger for step in plan.steps):
        raise session.unwritable


def _lost_lease(session: Session, error: errors.VgpumgrError) -> errors.LeaseLost | None:
    """LeaseLost if the host cut the connection because our lease had ended (then it writes nothing more); else None."""
    if not isinstance(error, errors.Unreachable):
        return None
    # After a timeout, a short retry is enough: a connection that has ended reports so at once.
    silent = isinstance(error, errors.HostDeadline) and error.stage == _PROGRAM
    try:
        session.link.ping(*((_MOMENT_S,) if silent else ()))
    except errors.LeaseLost as lost:
        return lost
    except errors.HostError:
        return None
    return None


class _Run:
    """Runs the steps of a plan in a separate thread: a signal's exception can hit the main thread at any instruction,
    but we must know exactly what was done.

    `steps` are the plan's, with each refused step replaced by what was done instead. `done` is a prefix of them.
    """

    def __init__(self, executor: Executor) -> None:
        self.steps = list(executor.plan.steps)
        self.done: list[steps.Step] = []
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
                    instead = step.instead(refused.code) if isinstance(step, steps.GpuStep) else ()
                    if not instead:
                        raise
                    self._executor.tell(f"{refused.what}: moving idle vGPUs out for a moment")
                    self.steps[len(self.done) : len(self.done) + 1] = instead
                else:
                    self.done.append(step)
        except errors.VgpumgrError as error:
            self._failed = error
            raise
        except Exception as error:
            self._failed = errors.Unexpected.of(
                error, about=self.under_way, host=self._executor.session.declaration.name
            )
            raise self._failed from error
        finally:
            self._ended.set()

    def stop(self) -> None:
        """Begin no further step, and end a step that waits for a VM to stop."""
        self._stopped = True
        self._executor.interrupted.set()

    def settle(self) -> errors.VgpumgrError | None:
        """Wait for the current step and return its error, if any. From then on the executor waits for VMs again."""
        # If the thread has not begun by now, the interrupt came before it was started.
        if not self._begun.wait(_BEGIN_S) or self._ended.wait(STEP_END_S):
            self._executor.interrupted.clear()
        return self._failed
