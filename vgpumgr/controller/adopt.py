"""adopt: enter into a host's ledger what is a VM's and not in it, all that can be proved or what a person names."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from vgpumgr.controller.change import Change, carry_out
from vgpumgr.controller.results import AdoptResult
from vgpumgr.controller.session import open_session
from vgpumgr.core.commands import command
from vgpumgr.core.reconcile import adopting
from vgpumgr.core.report import listing

if TYPE_CHECKING:
    from vgpumgr.controller.context import Context
    from vgpumgr.controller.results import Consent
    from vgpumgr.core.model.observed import HostView
    from vgpumgr.core.reconcile.adopting import AdoptPlan
    from vgpumgr.names import MdevUuid, PciAddress


@dataclass(frozen=True, slots=True, kw_only=True)
class AdoptOptions:
    """`host` is the inventory's name; `vgpus` what is taken by name, none: all that can be proved."""

    host: str
    vgpus: tuple[MdevUuid | PciAddress, ...] = ()


def adopt(context: Context, options: AdoptOptions, consent: Consent[AdoptPlan]) -> AdoptResult:
    """Enter vGPUs that are there. Raises RequestError, RefusedPlan, HostError or ApplyError."""
    declaration = context.inventory.host(options.host)
    at = context.now()
    with open_session(context, declaration) as session:

        def plan(view: HostView) -> AdoptPlan:
            request = adopting.AdoptRequest(vgpus=options.vgpus, by=context.by, at=at, policy=declaration.policy)
            return adopting.plan_adopt(view, request)

        changed = carry_out(
            Change(
                session=session,
                consent=consent,
                plan=plan,
                evidence=session.with_saved,
                asks=False,
                asked="adopt",
                verb="adopt",
                why=f"asked to adopt {', '.join(options.vgpus) or 'what is proved'}",
                name=declaration.name,
                look=command("list", declaration.name),
            )
        )
    slots = {(spec.vm, spec.slot) for spec in changed.planned.plan.adopted}
    return AdoptResult(
        planned=changed.planned,
        outcome=changed.outcome,
        findings=changed.findings,
        rows=tuple(row for row in listing.rows(changed.view) if (row.vm_uuid, row.slot) in slots),
    )
