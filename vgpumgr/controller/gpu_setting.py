"""mode and scheduler, show and set: how the GPUs of the hosts are divided, and how they share their time."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, TypeVar

from vgpumgr.controller.engine.change import change_host
from vgpumgr.controller.hosts.fan_out import read_fleet
from vgpumgr.controller.hosts.session import open_session
from vgpumgr.controller.results import ModeHost, ModeResult, SchedulerHost, SchedulerResult
from vgpumgr.core.driver import modes as driver_modes
from vgpumgr.core.gpu.gpu_plan import GpuPlan
from vgpumgr.core.gpu.mode_plan import ModePlan
from vgpumgr.core.gpu.scheduler import SchedulerPlan
from vgpumgr.core.inventory import settings
from vgpumgr.core.model.view import Finding
from vgpumgr.core.reconcile.tasks import SetGpuMode, SetGpuScheduler
from vgpumgr.core.report import modes, schedulers
from vgpumgr.wording import say

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from vgpumgr.controller.context import Context
    from vgpumgr.controller.results import ChangeResult, Consent, Fleet, Planned, View
    from vgpumgr.core.inventory import HostDeclaration, OfGpus
    from vgpumgr.core.model.snapshot import Gpu, HostSnapshot

GpuPlanT = TypeVar("GpuPlanT", bound=GpuPlan)


def show_modes(context: Context, hosts: Sequence[str] = ()) -> Fleet[ModeHost]:
    """Read the modes of hosts (all if none is named), without libvirt. Raises UnknownHost."""
    return _show(context, hosts, lambda one, facts: ModeHost(host=one.name, rows=modes.rows(facts, one.of_gpus)))


def show_schedulers(context: Context, hosts: Sequence[str] = ()) -> Fleet[SchedulerHost]:
    """Read the schedulers of hosts (all if none is named), without libvirt. Raises UnknownHost."""

    def rows(declared: HostDeclaration, facts: HostSnapshot) -> SchedulerHost:
        found, findings = schedulers.rows(facts, declared.of_gpus)
        return SchedulerHost(host=declared.name, rows=found, findings=findings)

    return _show(context, hosts, rows)


def _show(context: Context, hosts: Sequence[str], rows: Callable[[HostDeclaration, HostSnapshot], View]) -> Fleet[View]:
    def read(declared: HostDeclaration) -> tuple[View, None]:
        with open_session(context, declared) as session:
            return rows(declared, session.link.observe(wait_s=context.timing.lock_wait_s).snapshot), None

    return read_fleet(context.inventory.chosen(hosts), read, context)


def set_mode(context: Context, host: str, task: SetGpuMode, consent: Consent[Planned[ModePlan]]) -> ModeResult:
    """Set the mode of one GPU of the host of that name. Raises RequestError, RefusedPlan, HostError or ApplyError."""
    declared, gpu, done = _set(context, host, task, consent, ModePlan)
    row = modes.row_of(done.view.snapshot, gpu, declared.of_gpus)
    return ModeResult(planned=done.planned, outcome=done.outcome, findings=done.findings, row=row)


def set_scheduler(
    context: Context, host: str, task: SetGpuScheduler, consent: Consent[Planned[SchedulerPlan]]
) -> SchedulerResult:
    """Set the scheduler of one GPU of that host. Raises RequestError, RefusedPlan, HostError or ApplyError."""
    declared, gpu, done = _set(context, host, task, consent, SchedulerPlan)
    row = schedulers.row_of(done.view.snapshot, gpu, declared.of_gpus)
    return SchedulerResult(planned=done.planned, outcome=done.outcome, findings=done.findings, row=row)


def _set(
    context: Context,
    host: str,
    task: SetGpuMode | SetGpuScheduler,
    consent: Consent[Planned[GpuPlanT]],
    makes: type[GpuPlanT],
) -> tuple[HostDeclaration, Gpu, ChangeResult[GpuPlanT]]:
    """Set a mode or a scheduler. Returns the host's declaration, the GPU afterwards, and the result."""
    declared = context.inventory.host(host)
    done = change_host(context, host, task, consent, makes, asks=True, name=task.gpu_id)
    gpu = next(gpu for gpu in done.view.snapshot.gpus if gpu.uuid == done.planned.plan.gpu.uuid)
    return declared, gpu, replace(done, findings=done.findings + about_declaration(declared, gpu, task))


def about_declaration(declared: HostDeclaration, gpu: Gpu, task: SetGpuMode | SetGpuScheduler) -> tuple[Finding, ...]:
    """A finding if the setting will not last: reconcile restores a declared one; an undeclared mode may end at boot."""
    found = settings.deciding(gpu, declared.of_gpus, "mode" if isinstance(task, SetGpuMode) else "scheduler")
    text: str | None = None
    if found is not None:
        otherwise = _otherwise(found, task)
        text = otherwise and say(
            "the inventory declares {} for GPU {} ({}), and the next reconcile will restore that",
            otherwise,
            gpu.pci,
            found.origin,
        )
    elif isinstance(task, SetGpuMode) and driver_modes.of(task.mode).ends_with_boot(gpu.board_names):
        text = (
            f"the mode of GPU {gpu.pci} lasts until the host's next boot, and reconcile restores it only for vGPUs that were made "
            f'in it; to keep it in any case, declare it: vgpumgr_gpus: {{"{gpu.pci}": {{mode: {task.mode}}}}}'
        )
    if text is None:
        return ()
    return (Finding(kind="declared", host=declared.name, text=say("{}: {}", declared.name, text)),)


def _otherwise(found: OfGpus, task: SetGpuMode | SetGpuScheduler) -> str | None:
    """The declared setting in words; None if it is the one that the task sets."""
    if isinstance(task, SetGpuMode):
        return None if found.mode == task.mode else found.mode
    return None if found.scheduler is None or found.scheduler.wish == task.wish else "another scheduler"
