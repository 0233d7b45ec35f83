"""adopt: enter existing vGPUs of VMs into a host's ledger: all that can be proved, or those that the user names."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from vgpumgr.controller.engine.change import change_host
from vgpumgr.core.reconcile.adopt import AdoptPlan
from vgpumgr.core.report import listing

if TYPE_CHECKING:
    from vgpumgr.controller.context import Context
    from vgpumgr.controller.results import ChangeResult, Consent, Planned
    from vgpumgr.core.reconcile.tasks import Adopt


def adopt(context: Context, host: str, task: Adopt, consent: Consent[Planned[AdoptPlan]]) -> ChangeResult[AdoptPlan]:
    """Enter existing vGPUs into that host's ledger. Raises RequestError, RefusedPlan, HostError or ApplyError."""
    changed = change_host(context, host, task, consent, AdoptPlan, asks=False, name=host)
    slots = {(spec.vm, spec.slot) for spec in changed.planned.plan.adopted}
    return replace(changed, rows=tuple(row for row in listing.rows(changed.view) if (row.vm_uuid, row.slot) in slots))
