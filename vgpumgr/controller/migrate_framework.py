"""migrate-framework: after another kernel or driver, give the VMs of hosts the same vGPUs, as these are made now."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vgpumgr.controller.engine.host_run import Work
from vgpumgr.controller.engine.run import Run
from vgpumgr.controller.lately import with_history
from vgpumgr.core.reconcile import migrating, tasks

if TYPE_CHECKING:
    from vgpumgr.controller.context import Context
    from vgpumgr.controller.results import Consent, FleetPlan, FleetResult


def migrate_framework(context: Context, hosts: tuple[str, ...], consent: Consent[FleetPlan]) -> FleetResult:
    """Migrate all slots of a host, or none if one is refused. `hosts`: patterns.

    Raises UnknownHost, Declined, UsageError or PlanOutdated; an error of one host or VM is in the result.
    """
    author = tasks.Author(by=context.by, at=context.now())
    work = Work(what="migrate-framework", todo=lambda view, declared: migrating.todo(view, declared, author))
    run = Run(with_history(context))
    fleet = run.plan(context.inventory.chosen(hosts), work)
    return run.carry_out(fleet, work, consent, asks=True)
