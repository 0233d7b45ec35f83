"""Carry out exactly a plan's steps; what fails half way takes back what this run did, and nothing else."""

from __future__ import annotations

import logging
import threading
from typing import TYPE_CHECKING

from vgpumgr import errors, templates
from vgpumgr.core import changes, claims
from vgpumgr.link.deadlines import Bounded

if TYPE_CHECKING:
    from collections.abc import Sequence

    from vgpumgr.controller.session import Session
    from vgpumgr.core.plan import Plan
    from vgpumgr.host.protocol import Step as WireStep

STEP_DEADLINE_S = 20.0
STEP_END_S = 180.0  # never reached: every wait below has a shorter end of its own
_BEGIN_S = 1.0
_LIBVIRT = "libvirt"  # the stage of errors.Unreachable
_GOES_ON = "the same command again goes on from there"
logger = logging.getLogger(__name__)


def apply(session: Session, plan: Plan) -> None:
    """Do the steps in order. Raises what a step raised, once all that was done is undone; PartialApply where it could not be.

    A destroyed vGPU is never made again by an undo: the same command goes on from there instead. After a Ctrl-C the step
    under way is still waited for, because half a step cannot be undone; a second one leaves all to the next run.
    """
    executor = _Executor(session, plan)
    run = _Run(executor)
    try:
        Bounded(run.go, name="apply").result(threading.TIMEOUT_MAX)
    except errors.VgpumgrError as error:
        _undo(executor, run.done, error)
        raise
    except KeyboardInterrupt:
        run.stop()
        session.context.progress(
            f"interrupted: waiting for {run.under_way}, then undoing; once more leaves it to the next run"
        )
        failed = run.settle()
        if any(changes.destroys(step) for step in run.done):
            session.context.progress(f"interrupted after {_verbs(run.done)}: {_GOES_ON}")
        else:
            _undo(executor, run.done, failed)
        raise


class _Run:
    """The steps of a plan, in a thread of their own: a signal's exception strikes the main thread only, at any instruction,
    and what was done must be known exactly.
    """

    def __init__(self, executor: _Executor) -> None:
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
            for step in self._executor.plan.steps:
                if self._stopped:
                    return
                self.under_way = step.verb
                self._executor.execute(step)
                self.done.append(step)
        except errors.VgpumgrError as error:
            self._failed = error
            raise
        finally:
            self._ended.set()

    def stop(self) -> None:
        """Begin no further step."""
        self._stopped = True

    def settle(self) -> errors.VgpumgrError | None:
        """Wait for the end of the step under way; what made it fail, if it did."""
        if self._begun.wait(_BEGIN_S):  # else the thread was interrupted out of its start
            self._ended.wait(STEP_END_S)
        return self._failed


def _undo(executor: _Executor, done: list[changes.Step], error: errors.VgpumgrError | None) -> None:
    """Take back what was done, last first. `error` is what went wrong, None after an interrupt."""
    if not done:
        return
    session = executor.session
    host, why = session.declaration.name, str(error or "interrupted")
    if isinstance(error, errors.LeaseLost):
        part = f"{why.removeprefix(f'{host}: ')} (after {_verbs(done)})"
        raise errors.LeaseLost(host, part, hint=_GOES_ON) from error
    if isinstance(error, errors.Unreachable) and error.stage == _LIBVIRT:
        _undo_without_libvirt(executor, done, error)
        return
    if isinstance(error, (errors.Unreachable, errors.ProgramFailed)):
        raise errors.PartialApply(
            f"{why} (after {len(done)} of {len(executor.plan.steps)} steps: {_verbs(done)})",
            hint=f"nothing is lost: {_GOES_ON}",
        ) from error
    if any(changes.destroys(step) for step in done):
        raise errors.PartialApply(f"{why} (after {_verbs(done)})", hint=_GOES_ON) from error
    session.context.progress(f"undoing {len(done)} of {len(executor.plan.steps)} steps on {host} …")
    undone: list[changes.Step] = []
    for step in reversed(done):
        try:
            executor.execute(changes.inverse(step))
        except errors.VgpumgrError as second:
            left = [row for row in done if row not in undone]
            raise errors.PartialApply(
                f"{why}; undoing it failed too: {second} (left: {_verbs(left)})",
                hint=f"{_GOES_ON}, vgpumgr detach takes it back",
            ) from (error or second)
        undone.append(step)


def _undo_without_libvirt(executor: _Executor, done: list[changes.Step], error: errors.Unreachable) -> None:
    """The host program and its lock are still there: vGPUs that were made are taken back, unless a definition may name one.

    A call without an answer may have been carried out, or be once a hanging libvirtd goes on. A VM whose definition names a
    vGPU that is gone does not start; with the vGPU left it does, and the pending claim lets the next run finish or free it.
    """
    under_way = executor.plan.steps[len(done) : len(done) + 1] if error.may_happen else ()
    named = any(isinstance(step, changes.AttachHostdev) for step in (*done, *under_way))
    why, undone = str(error), list[changes.Step]()
    if under_way:
        why += f"; it is not known whether {_verbs(under_way)} was done"
    made = [] if named else [step for step in reversed(done) if isinstance(step, changes.CreateVgpu)]
    for step in made:
        try:
            executor.execute(changes.inverse(step))
        except errors.VgpumgrError as second:
            why += f"; undoing {step.verb} failed too: {second}"
            break
        undone.append(step)
    left = [step for step in done if step not in undone]
    if not left:
        return
    undid = f"undone: {_verbs(undone)}; " if undone else ""
    slots = {step.claim.slot for step in left if isinstance(step, changes.PutClaim)}
    stays = "".join(
        f", the claim of slot {claim.slot} stays {claim.state}"
        for claim in executor.document.claims
        if claim.slot in slots
    )
    hint = f"{error.hint}; then {_GOES_ON}" if error.hint else f"once libvirt answers, {_GOES_ON}"
    raise errors.PartialApply(f"{why} ({undid}left: {_verbs(left)}{stays})", hint=hint) from error


def _verbs(steps: Sequence[changes.Step]) -> str:
    return ", ".join(step.verb for step in steps)


class _Executor:
    """Does one step at a time, keeping the claim document as it was last written."""

    def __init__(self, session: Session, plan: Plan) -> None:
        self.session = session
        self.plan = plan
        self.document = plan.vm.claims or claims.ClaimDocument(vm=plan.vm.uuid)

    def execute(self, step: changes.Step) -> None:
        logger.info("%s: %s %s", self.session.declaration.name, step.verb, changes.as_json(step))
        match step:
            case changes.PutClaim():
                self._write(self.document.put(step.claim))
            case changes.DropClaim():
                self._write(self.document.drop(step.before.slot))
            case changes.AttachHostdev():
                self.session.link.program.assert_fresh()
                self.session.link.hypervisor().attach_device(step.vm, templates.render_hostdev(step.device))
            case changes.DetachHostdev():
                self.session.link.program.assert_fresh()
                self.session.link.hypervisor().detach_device(step.vm, templates.render_hostdev(step.device))
            case changes.CreateVgpu() | changes.DestroyVgpu():
                self.session.link.program.execute(wire_step(step), deadline_s=STEP_DEADLINE_S)

    def _write(self, document: claims.ClaimDocument) -> None:
        text = templates.render_claims(document, stored=False) if document.claims else None
        self.session.link.program.assert_fresh()
        self.session.link.hypervisor().set_metadata(self.plan.vm.uuid, text, key=claims.KEY, uri=claims.NAMESPACE)
        self.document = document


def wire_step(step: changes.CreateVgpu | changes.DestroyVgpu) -> WireStep:
    """The step as the host program is told it."""
    vgpu = step.vgpu
    return {
        "verb": step.verb,
        "vm": vgpu.vm,
        "vm_name": vgpu.vm_name,
        "slot": vgpu.slot,
        "generation": vgpu.generation,
        "gpu": vgpu.gpu_uuid,
        "gpu_pci": vgpu.gpu,
        "vf": vgpu.vf_index,
        "parent": vgpu.parent,
        "uuid": vgpu.uuid,
        "type_id": vgpu.type_id,
        "type_name": vgpu.type_name,
        "placement_id": None,
        "mig": None,
        "expect": step.expect,
    }
