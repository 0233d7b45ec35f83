"""A slot without room waits if it would have room once a GPU is idle and gets its declared mode or scheduler."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from vgpumgr import errors
from vgpumgr.core import simulate
from vgpumgr.core.explain.remedies import explained
from vgpumgr.core.gpu import mode_plan, modes
from vgpumgr.core.gpu import scheduler as scheduler_plan
from vgpumgr.core.inventory import settings
from vgpumgr.names import GpuUuid

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from vgpumgr.core.inventory import HostDeclaration
    from vgpumgr.core.model.snapshot import Gpu
    from vgpumgr.core.model.view import HostView
    from vgpumgr.core.slot.plan import AnyPlan


def instead(
    view: HostView,
    declared: HostDeclaration,
    refused: errors.NoCapacity,
    served: Callable[[HostView], AnyPlan],
) -> errors.VgpumgrError:
    """InUse, with what the slot waits for, if `served` succeeds once a GPU has its declared setting; else `refused`."""
    for gpu, what, setting in _settings(view, declared):
        try:
            setting(view)
        except errors.InUse as busy:
            if busy.until is None or not _would_serve(view, setting, served):
                continue
            until = f"GPU {gpu.pci} can be given its {what}, once it is idle"
            hint = explained(refused).hint  # explained() finds no hint for an InUse
            return errors.InUse(refused.what, host=refused.host, details=refused.details, hint=hint, until=until)
        except errors.VgpumgrError:
            continue
    return refused


def _settings(view: HostView, declared: HostDeclaration) -> Iterator[tuple[Gpu, str, Callable[[HostView], AnyPlan]]]:
    """Each GPU's declared mode and scheduler, and how it is planned."""
    for gpu in sorted(view.snapshot.gpus, key=lambda item: item.pci):
        if gpu.uuid is None:
            continue
        uuid = GpuUuid(gpu.uuid)
        by_mode = settings.deciding(gpu, declared.of_gpus, "mode")
        if by_mode is not None and by_mode.mode is not None and by_mode.mode != gpu.mode:
            mode = mode_plan.ModeRequest(gpu_uuid=uuid, mode=by_mode.mode, again=False)
            yield gpu, f"declared {by_mode.mode} mode", partial(modes.plan_mode, request=mode)
        by_share = settings.deciding(gpu, declared.of_gpus, "scheduler")
        if by_share is not None and by_share.scheduler is not None:
            wish = scheduler_plan.SchedulerRequest(gpu_uuid=uuid, wish=by_share.scheduler.wish, again=False)
            what = f"declared scheduler {by_share.scheduler.wish.policy}"
            yield gpu, what, partial(scheduler_plan.plan_scheduler, request=wish)


def _would_serve(view: HostView, setting: Callable[[HostView], AnyPlan], served: Callable[[HostView], AnyPlan]) -> bool:
    idle = _as_if_idle(view)
    try:
        served(simulate.apply(idle, setting(idle).steps))
    except (errors.VgpumgrError, simulate.ImpossibleStepError):
        return False
    return True


def _as_if_idle(view: HostView) -> HostView:
    """The host as it would be with every VM off, and every process that has a vGPU gone."""
    snapshot = replace(view.snapshot, handles=(), qemus=(), active=())
    return replace(
        view, snapshot=snapshot, domains=tuple(replace(one, active=False, live=None) for one in view.domains)
    )
