"""Undoes what a run did if a step failed half way, and nothing else: vGPUs that existed or may be in use stay."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vgpumgr import errors
from vgpumgr.core import step as plan_steps
from vgpumgr.core.model.claims import BOUND
from vgpumgr.wording import joined, say

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from vgpumgr.controller.engine.executor import Executor

_LIBVIRT = "libvirt"  # the stage of errors.Unreachable
GOES_ON = "the same command again continues from there"


def undo(
    executor: Executor, steps: Sequence[plan_steps.Step], done: list[plan_steps.Step], error: errors.VgpumgrError | None
) -> None:
    """Undo the finished steps, last first. `done`: a prefix of `steps`. `error`: the failure; None: an interrupt."""
    failed_step = steps[len(done)] if len(done) < len(steps) else None
    why = _why(error)
    unclear = _settle(executor, failed_step, error)
    if unclear is not None:
        back = _bring_back(executor, done)
        raise errors.PartialApply(say("{} (after {}); {}{}", why, verbs(done), unclear, back), hint=GOES_ON) from error
    if not done:
        return
    session = executor.session
    host = session.declaration.name
    if isinstance(error, errors.Unreachable) and error.stage == _LIBVIRT:
        _undo_without_libvirt(executor, failed_step, done, error)
        return
    as_it_is = _why_nothing_is_undone(host, steps, done, error)
    if as_it_is is not None:
        raise as_it_is from error
    session.context.progress(f"undoing {len(done)} of {len(steps)} steps on {host} …")
    undone, failed = _take_all_back(executor, done)
    if failed is not None:
        left = [row for row in done if row not in undone]
        takes_back = "" if left[-1].is_apart else ", vgpumgr detach removes it"
        raise errors.PartialApply(
            say("{}; undoing it failed too: {} (left: {})", why, failed.message, verbs(left)),
            details=error.details if error is not None else (),
            hint=GOES_ON + takes_back,
        ) from (error or failed)


def _take_all_back(
    executor: Executor, done: Sequence[plan_steps.Step]
) -> tuple[list[plan_steps.Step], errors.VgpumgrError | None]:
    """Undo steps, last first. Returns the undone steps and the first failure.

    A failure ends the undo, unless the failed step is apart from the others (`is_apart`).
    """
    undone: list[plan_steps.Step] = []
    failed: errors.VgpumgrError | None = None
    for step in reversed(done):
        if _was_there(step):
            continue
        second = _take_back(executor, step)
        if second is None:
            undone.append(step)
            continue
        failed = failed or second
        if not step.is_apart:
            break
    return undone, failed


def _settle(executor: Executor, failed: plan_steps.Step | None, error: errors.VgpumgrError | None) -> str | None:
    """Make sure that the failed step left nothing behind. Returns why that is uncertain; None if it is certain.

    libvirt keeps a claim in memory even if it could not write it to disk (seen on 9.0 with a read-only /etc/libvirt).
    So we write the previous claim again; that helps even if this write fails, too. An unexpected failure may have come
    before or after the action.
    """
    unwritten = isinstance(error, errors.HypervisorError) and error.code == errors.HypervisorError.SYSTEM_ERROR
    if failed is None or not (unwritten or isinstance(error, errors.Unexpected)):
        return None
    if isinstance(failed, plan_steps.ClaimStep):
        _try(lambda: executor.write_claims_again(failed.vm), failed)
        return None
    if unwritten:
        return None
    if isinstance(failed, (plan_steps.AttachHostdev, plan_steps.DetachHostdev)):
        second = _try(lambda: executor.take_back_hostdev(failed), failed)
    elif isinstance(failed, plan_steps.EvacuateVgpu) or (
        isinstance(failed, plan_steps.CreateVgpu) and not _was_there(failed)
    ):
        second = _take_back(executor, failed)
        if isinstance(second, errors.StalePlan):  # it had not been created, or not moved out
            return None
    else:
        return f"it is not known whether {failed.verb} was done"
    return say("it is not known whether {} was done: {}", failed.verb, second.message) if second else None


def _try(call: Callable[[], None], step: plan_steps.Step) -> errors.VgpumgrError | None:
    """Make one call of an undo and return its error, if any."""
    try:
        call()
    except errors.VgpumgrError as error:
        return error
    except Exception as error:  # noqa: BLE001 -- whatever cannot be undone must be reported
        return errors.Unexpected.of(error, about=step.verb)
    return None


def _take_back(executor: Executor, step: plan_steps.Step) -> errors.VgpumgrError | None:
    return _try(lambda: executor.execute(step.inverse()), step)


def _bring_back(executor: Executor, done: Sequence[plan_steps.Step]) -> str:
    """Re-create the vGPUs that were moved out and are not back yet; returns the outcome as text."""
    evacuations = [step for step in done if isinstance(step, plan_steps.EvacuateVgpu) and step.inverse() not in done]
    failed = [second for second in (_take_back(executor, step) for step in reversed(evacuations)) if second is not None]
    if failed:
        return say("; moving idle vGPUs back failed too: {}", joined("; ", (second.message for second in failed)))
    return "; the idle vGPUs that were moved out are back" if evacuations else ""


def _why(error: errors.VgpumgrError | None) -> str:
    return "interrupted" if error is None else error.message


def _why_nothing_is_undone(
    host: str, steps: Sequence[plan_steps.Step], done: Sequence[plan_steps.Step], error: errors.VgpumgrError | None
) -> errors.VgpumgrError | None:
    """The error to raise if the finished steps are to stay as they are; None if they are to be undone."""
    why = _why(error)
    match error:
        case errors.LeaseLost():
            return errors.LeaseLost(host, say("{} (after {})", error.what, verbs(done)), hint=GOES_ON)
        case errors.Unreachable() | errors.ProgramFailed():
            late = isinstance(error, errors.HostDeadline) and error.hint
            return errors.PartialApply(
                say("{} (after {} of {} steps: {})", why, len(done), len(steps), verbs(done)),
                hint=say("{}; then {}", late, GOES_ON) if late else f"nothing is lost: {GOES_ON}",
            )
        case errors.LedgerUnwritable(written=True):
            under_way = steps[len(done)].verb if len(done) < len(steps) else "the last step"
            return errors.PartialApply(
                say("{} ({} was done, after {})", why, under_way, verbs(done)),
                hint=say("{}; then {}", error.hint, GOES_ON),
            )
        case _ if any(step.is_final for step in done):
            return errors.PartialApply(say("{} (after {})", why, verbs(done)), hint=GOES_ON)
        case _:
            return None


def _undo_without_libvirt(
    executor: Executor, failed: plan_steps.Step | None, done: list[plan_steps.Step], error: errors.Unreachable
) -> None:
    """Remove the created vGPUs, unless a VM's definition may name one. The host program and its lock still work.

    libvirt may have carried out a call that it did not answer, or may do so later when it no longer hangs. A VM whose
    definition names a missing vGPU does not start. If the vGPU stays, the VM starts, and the next run finishes or
    frees the pending claim.
    """
    under_way = (failed,) if error.may_happen and failed is not None else ()
    named = any(_names_vgpu(step) for step in (*done, *under_way))
    why, undone = error.message, list[plan_steps.Step]()
    if under_way:
        why = say("{}; it is not known whether {} was done", why, verbs(under_way))
    for step in () if named else _made(done):
        second = _take_back(executor, step)
        if second is not None:
            why = say("{}; undoing {} failed too: {}", why, step.verb, second.message)
            break
        undone.append(step)
    left = [step for step in done if step not in undone]
    if not left:
        return
    undid = f"undone: {verbs(undone)}; " if undone else ""
    hint = say("{}; then {}", error.hint, GOES_ON) if error.hint else f"once libvirt answers, {GOES_ON}"
    stays = _claims_left(executor, left)
    raise errors.PartialApply(say("{} ({}left: {}{})", why, undid, verbs(left), stays), hint=hint) from error


def _made(done: Sequence[plan_steps.Step]) -> list[plan_steps.Step]:
    """The steps that made something on the host's hardware, the last first."""
    kinds = plan_steps.CreateVgpu | plan_steps.InstanceStep
    return [step for step in reversed(done) if isinstance(step, kinds) and not _was_there(step)]


def _claims_left(executor: Executor, left: Sequence[plan_steps.Step]) -> str:
    slots = {step.claim.slot for step in left if isinstance(step, plan_steps.PutClaim)}
    claims = [claim for document in executor.documents.values() if document for claim in document.claims]
    return "".join(f", the claim of slot {one.slot} stays {one.state}" for one in claims if one.slot in slots)


def _names_vgpu(step: plan_steps.Step) -> bool:
    """Whether a VM's definition may name a vGPU after the step: it added the device, or bound the claim."""
    if isinstance(step, plan_steps.PutClaim):
        return step.claim.state == BOUND
    return isinstance(step, plan_steps.AttachHostdev)


def _was_there(step: plan_steps.Step) -> bool:
    """Whether the step only changed the ledger, because an earlier run did the rest. That run's work is not undone.

    Nobody did anything else for a lazy vGPU: its entry is all there is, and the undo removes it.
    """
    kinds = plan_steps.VgpuStep | plan_steps.InstanceStep
    only_ledger = isinstance(step, kinds) and step.expect in (plan_steps.SAME, plan_steps.ABSENT)
    return only_ledger and not isinstance(step, plan_steps.DeferVgpu)


def verbs(steps: Sequence[plan_steps.Step]) -> str:
    """The verbs of the steps, separated by commas."""
    return ", ".join(step.verb for step in steps)
