"""mode set and scheduler set for all GPUs of a board, on one host or on many."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from vgpumgr import errors
from vgpumgr.controller.engine.host_run import Work
from vgpumgr.controller.engine.run import Run
from vgpumgr.controller.gpu_setting import about_declaration
from vgpumgr.core.reconcile import host_plan
from vgpumgr.wording import say

if TYPE_CHECKING:
    from collections.abc import Sequence

    from vgpumgr.controller.context import Context
    from vgpumgr.controller.results import Consent, FleetPlan, FleetResult
    from vgpumgr.core.inventory import HostDeclaration
    from vgpumgr.core.model.snapshot import Gpu
    from vgpumgr.core.model.view import HostView
    from vgpumgr.core.reconcile.host_plan import HostPlan
    from vgpumgr.core.reconcile.tasks import Author, SetGpuMode, SetGpuScheduler, Task


@dataclass(frozen=True, slots=True, kw_only=True)
class BoardOptions:
    """`on`: a pattern of hosts. `board`: its code or name. `task`: what its GPUs get; the `gpu_id` does not matter."""

    on: str
    board: str
    task: SetGpuMode | SetGpuScheduler


def set_on_board(context: Context, options: BoardOptions, consent: Consent[FleetPlan]) -> FleetResult:
    """Carry out the task on every GPU of the board. Raises UnknownHost, and UnknownGpu if no host has such a GPU.

    An error of one host or GPU is in the result, never raised.
    """
    hosts = context.inventory.chosen((options.on,))

    def plan(view: HostView, declared: HostDeclaration, todo: Sequence[Task], author: Author) -> HostPlan:
        found = host_plan.plan_work(view, declared, todo, author)
        about = (one for gpu in _gpus(options, view) for one in about_declaration(declared, gpu, options.task))
        return replace(found, findings=(*found.findings, *about))

    work = Work(what=options.task.verb, todo=lambda view, _declared: _todo(options, view), plan=plan)
    run = Run(context)
    fleet = run.plan(hosts, work)
    if not fleet.errors and not any(one.tasks for one in fleet.plans):
        where = hosts[0].name if len(hosts) == 1 else f"these {len(hosts)} hosts"
        raise errors.UnknownGpu(
            say("no GPU of {} is a {}", where, options.board),
            hint="`vgpumgr discover` shows the GPUs with their boards",
        )
    return run.carry_out(fleet, work, consent, asks=True)


def _gpus(options: BoardOptions, view: HostView) -> tuple[Gpu, ...]:
    return tuple(gpu for gpu in view.snapshot.gpus if options.board in gpu.board_names)


def _todo(options: BoardOptions, view: HostView) -> tuple[SetGpuMode | SetGpuScheduler, ...]:
    return tuple(replace(options.task, gpu_id=gpu.pci) for gpu in _gpus(options, view))
