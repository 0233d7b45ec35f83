"""Carry out exactly a plan's steps; what fails half way takes back what this run did, and nothing else."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from vgpumgr import errors, templates
from vgpumgr.core import changes, claims
from vgpumgr.link.deadlines import Bounded

if TYPE_CHECKING:
    from vgpumgr.controller.session import Session
    from vgpumgr.core.plan import Plan
    from vgpumgr.host.protocol import Step as WireStep

STEP_DEADLINE_S = 20.0
STEP_END_S = 180.0  # never reached: every wait below has a shorter end of its own
logger = logging.getLogger(__name__)


def apply(session: Session, plan: Plan) -> None:
    """Do the steps in order. Raises what a step raised, once all that was done is undone; PartialApply where it could not be.

    A destroyed vGPU is never made again by an undo: the same command goes on from there instead.
    """
    executor = _Executor(session, plan)
    done: list[changes.Step] = []
    try:
        for step in plan.steps:
            _do(session, executor, step, done)
    except (errors.VgpumgrError, KeyboardInterrupt) as error:
        _undo(session, executor, done, error)
        raise


def _do(session: Session, executor: _Executor, step: changes.Step, done: list[changes.Step]) -> None:
    """One step, added to `done` once it is done. After a Ctrl-C it is still waited for: half a step cannot be undone."""
    running = Bounded(lambda: executor.execute(step), name=step.verb)
    try:
        running.result(STEP_END_S)
    except KeyboardInterrupt:
        session.context.progress(
            f"interrupted: waiting for {step.verb}, then undoing; once more leaves it to the next run"
        )
        running.result(STEP_END_S)
        done.append(step)
        raise
    done.append(step)


def _undo(session: Session, executor: _Executor, done: list[changes.Step], error: BaseException) -> None:
    if not done:
        return
    host = session.declaration.name
    if isinstance(error, (errors.Unreachable, errors.ProgramFailed, errors.LeaseLost)):
        raise errors.PartialApply(
            f"{error} (after {len(done)} of {len(executor.plan.steps)} steps: {_verbs(done)})",
            hint="nothing is lost: the same command again goes on from there",
        ) from error
    if any(changes.destroys(step) for step in done):
        raise errors.PartialApply(
            f"{error} (after {_verbs(done)})", hint="the same command again goes on from there"
        ) from error
    session.context.progress(f"undoing {len(done)} of {len(executor.plan.steps)} steps on {host} …")
    undone: list[changes.Step] = []
    for step in reversed(done):
        try:
            executor.execute(changes.inverse(step))
        except errors.VgpumgrError as second:
            left = [row for row in done if row not in undone]
            raise errors.PartialApply(
                f"{error}; undoing it failed too: {second} (left: {_verbs(left)})",
                hint="the same command again goes on from there, vgpumgr detach takes it back",
            ) from error
        undone.append(step)


def _verbs(steps: list[changes.Step]) -> str:
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
