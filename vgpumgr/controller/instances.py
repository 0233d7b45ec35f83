"""gc: give back the GPU instances that hold no vGPU, on one host or on all."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from vgpumgr.controller.engine import fleet_run, journaling
from vgpumgr.controller.engine.fleet_run import FleetRun, FleetWork
from vgpumgr.controller.results import FleetResult
from vgpumgr.core.reconcile import give_back as work
from vgpumgr.core.reconcile import host_plan
from vgpumgr.core.slot import detach

if TYPE_CHECKING:
    from vgpumgr.controller.context import Context
    from vgpumgr.controller.results import Consent, FleetPlan
    from vgpumgr.core.inventory import HostDeclaration
    from vgpumgr.core.model.view import HostView
    from vgpumgr.core.reconcile.host_plan import HostPlan
    from vgpumgr.core.reconcile.tasks import Author, FreeInstances


@dataclass(frozen=True, slots=True, kw_only=True)
class GcOptions:
    """`on` is the host's inventory name; None: every host. `gpu_id` None: all GPUs."""

    on: str | None = None
    gpu_id: str | None = None


def give_back(context: Context, options: GcOptions, consent: Consent[FleetPlan]) -> FleetResult:
    """Remove the cached instances of ours. That removes no vGPU, so nobody is asked. Raises UnknownHost.

    An error of one host or GPU is in the result, never raised.
    """
    hosts = (context.inventory.host(options.on),) if options.on is not None else context.inventory.chosen(())
    run = FleetRun(context, FleetWork(what="gc", todo=partial(_todo, options), plan=partial(_plan, options)))
    context.say_reading(hosts)
    fleet = run.plan(hosts)
    consent.show(fleet)
    if consent.check or not fleet.changed:
        return FleetResult(fleet=fleet, hosts=fleet_run.untouched(fleet), guard=None, check=consent.check)
    done = run.apply(fleet, hosts)
    return FleetResult(fleet=fleet, hosts=done, guard=None, check=False, findings=journaling.findings(context))


def _todo(options: GcOptions, view: HostView, _declared: HostDeclaration) -> tuple[FreeInstances, ...]:
    return work.todo(view, options.gpu_id)


def _plan(options: GcOptions, view: HostView, declared: HostDeclaration, author: Author) -> HostPlan:
    """Raises LedgerBroken."""
    detach.guard_ledger(view)
    plan, _ = host_plan.plan_work(view, declared, work.todo(view, options.gpu_id), author)
    return plan
