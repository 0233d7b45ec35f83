"""adopt: enter existing vGPUs of VMs into a host's ledger, either all that can be proved or those that the user names."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from vgpumgr.controller.engine.change import Change, carry_out
from vgpumgr.controller.hosts.session import open_session
from vgpumgr.core.reconcile import tasks
from vgpumgr.core.reconcile.adopt import AdoptPlan
from vgpumgr.core.report import listing

if TYPE_CHECKING:
    from vgpumgr.controller.context import Context
    from vgpumgr.controller.results import ChangeResult, Consent, Planned
    from vgpumgr.names import MdevUuid, PciAddress


@dataclass(frozen=True, slots=True, kw_only=True)
class AdoptOptions:
    """`host` is the inventory's name; `vgpus` are the vGPUs to adopt by name, none: all that can be proved."""

    host: str
    vgpus: tuple[MdevUuid | PciAddress, ...] = ()


def adopt(context: Context, options: AdoptOptions, consent: Consent[Planned[AdoptPlan]]) -> ChangeResult[AdoptPlan]:
    """Enter existing vGPUs. Raises RequestError, RefusedPlan, HostError or ApplyError."""
    declaration = context.inventory.host(options.host)
    with open_session(context, declaration) as session:
        changed = carry_out(
            Change(
                session=session,
                consent=consent,
                task=tasks.Adopt(vgpus=options.vgpus),
                makes=AdoptPlan,
                asks=False,
                name=declaration.name,
            )
        )
    slots = {(spec.vm, spec.slot) for spec in changed.planned.plan.adopted}
    return replace(changed, rows=tuple(row for row in listing.rows(changed.view) if (row.vm_uuid, row.slot) in slots))
