"""mode show and set: whether the GPUs of the hosts take vGPUs of one size or of several."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vgpumgr.controller.engine.change import change_host
from vgpumgr.controller.hosts.fan_out import read_fleet
from vgpumgr.controller.hosts.session import open_session
from vgpumgr.controller.results import ModeHost, ModeResult
from vgpumgr.core.driver import mig
from vgpumgr.core.gpu.mode_plan import ModePlan
from vgpumgr.core.inventory import settings
from vgpumgr.core.model.snapshot import MIG, MIXED_SIZE
from vgpumgr.core.model.view import Finding
from vgpumgr.core.report import modes

if TYPE_CHECKING:
    from collections.abc import Sequence

    from vgpumgr.controller.context import Context
    from vgpumgr.controller.results import Consent, Fleet, Planned
    from vgpumgr.core.inventory import HostDeclaration
    from vgpumgr.core.model.snapshot import Gpu, Mode
    from vgpumgr.core.reconcile.tasks import SetGpuMode


def show_modes(context: Context, hosts: Sequence[str] = ()) -> Fleet[ModeHost]:
    """Read hosts (all if none is named) in bounded parallel, without libvirt. Raises UnknownHost."""

    def read(declaration: HostDeclaration) -> tuple[ModeHost, None]:
        with open_session(context, declaration) as session:
            facts = session.link.observe(wait_s=context.timing.lock_wait_s).snapshot
        return ModeHost(host=declaration.name, rows=modes.rows(facts, declaration.of_gpus)), None

    return read_fleet(context.inventory.chosen(hosts), read, context)


def set_mode(context: Context, host: str, task: SetGpuMode, consent: Consent[Planned[ModePlan]]) -> ModeResult:
    """Set the mode of one GPU of the host of that name. Raises RequestError, RefusedPlan, HostError or ApplyError."""
    declaration = context.inventory.host(host)
    changed = change_host(context, host, task, consent, ModePlan, asks=True, name=task.gpu_id)
    gpu = changed.view.snapshot.gpu_by_uuid(changed.planned.plan.gpu_uuid)
    assert gpu is not None  # the plan found it there
    return ModeResult(
        planned=changed.planned,
        outcome=changed.outcome,
        findings=changed.findings + about_declaration(declaration, gpu, task.mode),
        row=modes.row_of(changed.view.snapshot, gpu, declaration.of_gpus),
    )


def about_declaration(declaration: HostDeclaration, gpu: Gpu, mode: Mode) -> tuple[Finding, ...]:
    """A mode that is not declared does not outlast a boot; one that is declared otherwise does not outlast a reconcile."""
    found = settings.deciding(gpu, declaration.of_gpus, "mode")
    declared = found.mode if found is not None else None
    if declared == mode:
        return ()
    if found is not None:
        text = f"the inventory declares {declared} for GPU {gpu.pci} ({found.origin}), and the next reconcile will restore that"
    elif mode == MIXED_SIZE or (mode == MIG and not mig.needs_reset(gpu.board_names)):
        text = (
            f"the mode of GPU {gpu.pci} lasts until the host's next boot, and reconcile restores it only for vGPUs that were made "
            f"in it; to keep it in any case, declare it: "
            f'vgpumgr_gpus: {{"{gpu.pci}": {{mode: {mode}}}}}'
        )
    else:
        return ()
    return (Finding(kind="declared", host=declaration.name, text=f"{declaration.name}: {text}"),)
