"""scheduler show and set: how the GPUs of the hosts share their time."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vgpumgr.controller.engine.change import change_host
from vgpumgr.controller.hosts.fan_out import read_fleet
from vgpumgr.controller.hosts.session import open_session
from vgpumgr.controller.results import HostFacts, SchedulerHost, SchedulerResult
from vgpumgr.core.gpu.scheduler import GpuPlan
from vgpumgr.core.inventory import settings
from vgpumgr.core.model.view import Finding
from vgpumgr.core.report import schedulers

if TYPE_CHECKING:
    from collections.abc import Sequence

    from vgpumgr.controller.context import Context
    from vgpumgr.controller.results import Consent, Fleet, Planned
    from vgpumgr.core.driver.scheduler import SchedulerWish
    from vgpumgr.core.inventory import HostDeclaration
    from vgpumgr.core.model.snapshot import Gpu
    from vgpumgr.core.reconcile.tasks import SetGpuScheduler


def show_schedulers(context: Context, hosts: Sequence[str] = ()) -> Fleet[SchedulerHost]:
    """Read hosts (all if none is named) in bounded parallel, without libvirt. Raises UnknownHost."""

    def read(declaration: HostDeclaration) -> tuple[SchedulerHost, None]:
        with open_session(context, declaration) as session:
            facts = session.link.observe(wait_s=context.timing.lock_wait_s).snapshot
        view = HostFacts(snapshot=facts, libvirt_version=None)
        rows, findings = schedulers.rows(view, declaration.of_gpus)
        return SchedulerHost(host=declaration.name, rows=rows, findings=findings), None

    return read_fleet(context.inventory.chosen(hosts), read, context)


def set_scheduler(
    context: Context, host: str, task: SetGpuScheduler, consent: Consent[Planned[GpuPlan]]
) -> SchedulerResult:
    """Set the policy of one GPU of the host of that name. Raises RequestError, RefusedPlan, HostError or ApplyError."""
    declaration = context.inventory.host(host)
    changed = change_host(context, host, task, consent, GpuPlan, asks=True, name=task.gpu_id)
    gpu = changed.view.snapshot.gpu_by_uuid(changed.planned.plan.gpu_uuid)
    assert gpu is not None  # the plan found it there
    return SchedulerResult(
        planned=changed.planned,
        outcome=changed.outcome,
        findings=changed.findings + against_declaration(declaration, gpu, task.wish),
        row=schedulers.row_of(changed.view, gpu, declaration.of_gpus),
    )


def against_declaration(declaration: HostDeclaration, gpu: Gpu, wish: SchedulerWish) -> tuple[Finding, ...]:
    """A setting made by hand on a GPU whose scheduler is declared does not last."""
    found = settings.deciding(gpu, declaration.of_gpus, "scheduler")
    if found is None or found.scheduler is None or found.scheduler.wish == wish:
        return ()
    text = (
        f"{declaration.name}: the inventory declares another scheduler for GPU {gpu.pci} ({found.origin}), "
        "and the next reconcile will restore that"
    )
    return (Finding(kind="declared", host=declaration.name, text=text),)
