"""Plans that give a GPU the mode, scheduler or GPU instances that are declared or requested for it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vgpumgr import errors
from vgpumgr.core.driver import modes as driver_modes
from vgpumgr.core.gpu import gpu_choice, instance_plan, mode_plan, modes
from vgpumgr.core.gpu import scheduler as scheduler_plan
from vgpumgr.core.inventory import settings
from vgpumgr.core.reconcile import drift as drifts
from vgpumgr.core.reconcile.planned import PlannedTask
from vgpumgr.core.reconcile.tasks import RECONCILE, KeepInstances, SetGpuMode, SetGpuScheduler
from vgpumgr.wording import say

if TYPE_CHECKING:
    from vgpumgr.core.inventory import HostDeclaration
    from vgpumgr.core.model.snapshot import Gpu
    from vgpumgr.core.model.view import HostView


def plan_setting(
    view: HostView, declared: HostDeclaration, task: SetGpuScheduler | SetGpuMode | KeepInstances
) -> PlannedTask:
    """The plan of a GPU's setting. Raises VgpumgrError if the setting is refused."""
    match task:
        case SetGpuScheduler():
            return _plan_scheduler(view, declared, task)
        case SetGpuMode():
            return _plan_mode(view, declared, task)
        case KeepInstances():
            return _plan_layout(view, declared, task)


def _plan_scheduler(view: HostView, declared: HostDeclaration, task: SetGpuScheduler) -> PlannedTask:
    """Set a declared scheduler without re-creating lost vGPUs: each VM's own task does that later.

    Raises InventoryError for a GPU that is declared both by its address and by its UUID: every run would set it twice.
    """
    gpu, gpu_uuid = gpu_choice.find(view.snapshot, task.gpu_id)
    request = scheduler_plan.SchedulerRequest(gpu_uuid=gpu_uuid, wish=task.wish, again=task.where is None)
    if task.where is not None:
        _guard_once(view, gpu, "scheduler", declared)
    plan = scheduler_plan.plan_scheduler(view, request)
    differs = plan.changed and task.where is not None
    return PlannedTask(task=task, plan=plan, drift=drifts.of_gpu(view, gpu, task.wish) if differs else ())


def _plan_mode(view: HostView, declared: HostDeclaration, task: SetGpuMode) -> PlannedTask:
    """Set a mode; a reconcile re-creates no lost vGPUs here. Raises InventoryError for a GPU that is declared twice."""
    gpu, gpu_uuid = gpu_choice.find(view.snapshot, task.gpu_id)
    if task.where is not None:
        _guard_once(view, gpu, "mode", declared)
    by_user = task.verb != RECONCILE
    # What needed the mode may have been freed by a task before this one.
    target = task.mode if not task.kept or gpu.mode is None else modes.ended(view, gpu)
    mode = target or gpu.mode or task.mode
    request = mode_plan.ModeRequest(gpu_uuid=gpu_uuid, mode=mode, again=by_user, reset=task.reset)
    plan = modes.plan_mode(view, request)
    differs = plan.changed and not by_user
    return PlannedTask(task=task, plan=plan, drift=drifts.of_mode(view, gpu, task.mode) if differs else ())


def _plan_layout(view: HostView, declared: HostDeclaration, task: KeepInstances) -> PlannedTask:
    """Make GPU instances. Raises InventoryError for a GPU declared twice, InUse before its declared MIG mode is set."""
    gpu, _ = gpu_choice.find(view.snapshot, task.gpu_id)
    _guard_once(view, gpu, "instances", declared)
    declaration = settings.deciding(gpu, declared.of_gpus, "mode")
    declared_mig = declaration is not None and driver_modes.of(declaration.mode).mig_backed
    if gpu.mode is not None and declared_mig and not gpu.rules.mig_backed:
        what = say("GPU {} of {} is not in MIG mode, which is declared for it", gpu.pci, view.snapshot.host)
        raise errors.InUse(what, until="its GPU is in MIG mode")
    plan = instance_plan.plan_layout(view, task.gpu_id, task.profiles)
    drift = drifts.of_layout(view, plan) if plan.changed else ()
    return PlannedTask(task=task, plan=plan, refused=plan.unmet, drift=drift)


def _guard_once(view: HostView, gpu: Gpu, setting: settings.Setting, declared: HostDeclaration) -> None:
    same = settings.all_deciding(gpu, declared.of_gpus, setting)
    if len(same) > 1:
        raise errors.InventoryError(
            say("the {} of GPU {} of {} is declared {} times", setting, gpu.pci, view.snapshot.host, len(same)),
            details=[say("{}: {}", item.where, item.name) for item in same],
            hint="keep one of them; vgpumgr_gpus takes a GPU's PCI address or its UUID, vgpumgr_boards a board's code or its name",
        )
