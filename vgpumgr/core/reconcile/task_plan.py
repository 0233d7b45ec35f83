"""One task of a host → its plan, or why it is refused."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vgpumgr import errors
from vgpumgr.core.gpu import cordon_plan, instance_plan
from vgpumgr.core.reconcile import adopt, gpu_settings, requests, slot_plan, starting
from vgpumgr.core.reconcile.planned import PlannedTask
from vgpumgr.core.reconcile.tasks import (
    Adopt,
    CancelReservation,
    ConvertSlot,
    EnsureSlot,
    FinishDetach,
    FreeInstances,
    KeepInstances,
    MoveSlot,
    PruneSlot,
    Reserve,
    ServeSlot,
    SetCordon,
    SetGpuMode,
    SetGpuScheduler,
    StartVm,
)
from vgpumgr.core.slot import reserving, to_come
from vgpumgr.wording import say, values

if TYPE_CHECKING:
    from vgpumgr.core.inventory import HostDeclaration
    from vgpumgr.core.model.view import HostView
    from vgpumgr.core.reconcile import tasks
    from vgpumgr.core.reconcile.tasks import Task


def plan_task(view: HostView, declared: HostDeclaration, task: Task, author: tasks.Author) -> PlannedTask:
    """Plan one task on a view. A refusal becomes part of the result, so that the other tasks go on."""
    planned = _plan_task(view, declared, task, author)
    if planned.refused is not None:
        _tell_where(task, planned.refused)
    return planned


def _tell_where(task: Task, error: errors.VgpumgrError) -> None:
    """Add the inventory's line to an error that only a corrected line ends. Lack of room is no such error."""
    match task:
        case EnsureSlot(declared=declared) if declared is not None:
            where = str(declared.where)
        case SetGpuScheduler(where=str(where)) | SetGpuMode(where=str(where)) | KeepInstances(where=str(where)):
            pass
        case _:
            return
    room_lacks = (
        isinstance(task, EnsureSlot)
        and isinstance(error, errors.NoCapacity)
        and not isinstance(error, errors.ProfileNotHere)
    )
    if not isinstance(error, errors.RequestError) or room_lacks or where in values(error.message):
        return
    error.message, error.what = say("{} ({})", error.message, where), say("{} ({})", error.what, where)
    if isinstance(error, errors.UnknownGpu) and error.details:
        error.hint = say("name one of these in {}", where)


def _plan_task(view: HostView, declared: HostDeclaration, task: Task, author: tasks.Author) -> PlannedTask:
    try:
        match task:
            case EnsureSlot():
                return slot_plan.plan_ensure(view, declared, task, author)
            case PruneSlot() | FinishDetach():
                return slot_plan.plan_freeing(view, task, author)
            case StartVm():
                return starting.plan_start(view, task)
            case SetGpuScheduler() | KeepInstances() | SetGpuMode():
                return gpu_settings.plan_setting(view, declared, task)
            case ServeSlot():
                return PlannedTask(task=task, plan=requests.plan_serve_slot(view, declared, task, author))
            case Adopt():
                request = adopt.AdoptRequest(vgpus=task.vgpus, by=author.by, at=author.at, policy=declared.policy)
                return PlannedTask(task=task, plan=adopt.plan_adopt(view, request))
            case SetCordon():
                about = cordon_plan.CordonRequest(
                    gpu_id=task.gpu_id, vf=task.vf, reason=task.reason, by=author.by, at=author.at, keep=task.keep
                )
                return PlannedTask(task=task, plan=cordon_plan.plan_cordon(view, about))
            case Reserve():
                room = to_come.with_room_kept(view, declared)
                plan = reserving.plan_reserve(room, task.request, by=author.by, at=author.at)
                return PlannedTask(task=task, plan=plan)
            case CancelReservation():
                return PlannedTask(task=task, plan=reserving.plan_cancel(view, task.name))
            case FreeInstances():
                return PlannedTask(task=task, plan=instance_plan.plan_giving_back(view, task.gpu_id))
            case MoveSlot():
                return PlannedTask(task=task, plan=requests.plan_move_slot(view, declared, task))
            case ConvertSlot():
                return PlannedTask(task=task, plan=requests.plan_convert_slot(view, declared, task, author))
    except errors.VgpumgrError as error:
        return PlannedTask(task=task, refused=error)
    except Exception as error:  # noqa: BLE001 -- one odd VM must not block the others
        return PlannedTask(task=task, refused=errors.Unexpected.of(error, about=task.subject))
