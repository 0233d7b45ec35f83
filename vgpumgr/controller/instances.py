"""gc: remove the GPU instances that hold no vGPU, on one host or on all."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from vgpumgr.controller.engine.host_run import Work
from vgpumgr.controller.engine.run import Run
from vgpumgr.core.reconcile import give_back as cached

if TYPE_CHECKING:
    from vgpumgr.controller.context import Context
    from vgpumgr.controller.results import Consent, FleetPlan, FleetResult


@dataclass(frozen=True, slots=True, kw_only=True)
class GcOptions:
    """`on` is the host's inventory name; None: every host. `gpu_id` None: all GPUs."""

    on: str | None = None
    gpu_id: str | None = None


def give_back(context: Context, options: GcOptions, consent: Consent[FleetPlan]) -> FleetResult:
    """Remove our cached instances. There is no prompt, because no vGPU is removed. Raises UnknownHost.

    An error of one host or GPU is in the result, never raised.
    """
    hosts = (context.inventory.host(options.on),) if options.on is not None else context.inventory.chosen(())
    work = Work(what="gc", todo=lambda view, _declared: cached.todo(view, options.gpu_id))
    run = Run(context)
    return run.carry_out(run.plan(hosts, work), work, consent, asks=False)
