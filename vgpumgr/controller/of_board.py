"""mode set and scheduler set for all GPUs of a board, on one host or on many."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from vgpumgr import errors
from vgpumgr.controller import mode as modes
from vgpumgr.controller import scheduler as schedulers
from vgpumgr.controller.engine import fleet_run, journaling
from vgpumgr.controller.engine.fleet_run import FleetRun, FleetWork
from vgpumgr.controller.results import FleetResult
from vgpumgr.core.reconcile import host_plan
from vgpumgr.core.reconcile.tasks import SetGpuMode
from vgpumgr.core.slot import detach

if TYPE_CHECKING:
    from vgpumgr.controller.context import Context
    from vgpumgr.controller.results import Consent, FleetPlan
    from vgpumgr.core.inventory import HostDeclaration
    from vgpumgr.core.model.snapshot import Gpu
    from vgpumgr.core.model.view import Finding, HostView
    from vgpumgr.core.reconcile.host_plan import HostPlan
    from vgpumgr.core.reconcile.tasks import Author, SetGpuScheduler


@dataclass(frozen=True, slots=True, kw_only=True)
class BoardOptions:
    """`on`: a pattern of hosts. `board`: its code or its name. `task`: what each of its GPUs gets, with whatever `gpu_id`."""

    on: str
    board: str
    task: SetGpuMode | SetGpuScheduler


def set_on_board(context: Context, options: BoardOptions, consent: Consent[FleetPlan]) -> FleetResult:
    """Set it on every GPU of the board. Raises UnknownHost, and UnknownGpu if no host has such a GPU.

    An error of one host or GPU is in the result, never raised.
    """
    hosts = context.inventory.chosen((options.on,))

    def plan(view: HostView, declared: HostDeclaration, author: Author) -> HostPlan:
        """Raises LedgerBroken."""
        detach.guard_ledger(view)
        found, _ = host_plan.plan_work(view, declared, _todo(options, view), author)
        about = (one for gpu in _gpus(options, view) for one in _against_declaration(declared, gpu, options.task))
        return replace(found, findings=(*found.findings, *about))

    run = FleetRun(
        context, FleetWork(what=options.task.verb, todo=lambda view, _declared: _todo(options, view), plan=plan)
    )
    context.say_reading(hosts)
    fleet = run.plan(hosts)
    if not fleet.errors and not any(one.tasks for one in fleet.plans):
        where = hosts[0].name if len(hosts) == 1 else f"these {len(hosts)} hosts"
        raise errors.UnknownGpu(
            f"no GPU of {where} is a {options.board}", hint="`vgpumgr discover` shows the GPUs with their boards"
        )
    consent.show(fleet)
    if consent.check or not fleet.changed:
        return FleetResult(fleet=fleet, hosts=fleet_run.untouched(fleet), guard=None, check=consent.check)
    consent.ask(fleet)
    done = run.apply(fleet, hosts)
    return FleetResult(fleet=fleet, hosts=done, guard=None, check=False, findings=journaling.findings(context))


def _gpus(options: BoardOptions, view: HostView) -> tuple[Gpu, ...]:
    return tuple(gpu for gpu in view.snapshot.gpus if options.board in gpu.board_names)


def _todo(options: BoardOptions, view: HostView) -> tuple[SetGpuMode | SetGpuScheduler, ...]:
    return tuple(replace(options.task, gpu_id=gpu.pci) for gpu in _gpus(options, view))


def _against_declaration(
    declared: HostDeclaration, gpu: Gpu, task: SetGpuMode | SetGpuScheduler
) -> tuple[Finding, ...]:
    if isinstance(task, SetGpuMode):
        return modes.about_declaration(declared, gpu, task.mode)
    return schedulers.against_declaration(declared, gpu, task.wish)
