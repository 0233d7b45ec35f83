"""Reading only: what is on the hosts, one VM, and what attach would pass to libvirt."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vgpumgr import errors, templates
from vgpumgr.controller.fan_out import fan_out
from vgpumgr.controller.finding_vms import find_vm
from vgpumgr.controller.results import Fleet, VmReport
from vgpumgr.controller.session import open_session
from vgpumgr.core import domain_xml, listing, plan

if TYPE_CHECKING:
    from collections.abc import Sequence

    from vgpumgr.controller.context import Context
    from vgpumgr.core.inventory import HostDeclaration
    from vgpumgr.core.names import Slot
    from vgpumgr.core.observed import HostView


def observe_fleet(context: Context, hosts: Sequence[str] = ()) -> Fleet:
    """Read hosts (all where none is named) in bounded parallel. Raises UnknownHost before anything is read."""
    declarations = [context.inventory.host(name) for name in hosts] or list(context.inventory.hosts.values())

    def observe(declaration: HostDeclaration) -> HostView:
        with open_session(context, declaration) as session:
            return session.observe()

    context.progress(f"reading {declarations[0].name if len(declarations) == 1 else f'{len(declarations)} hosts'} …")
    outcomes = fan_out(declarations, observe)
    return Fleet(
        views=tuple(outcome.value for outcome in outcomes if outcome.value is not None),
        errors=tuple((outcome.host, outcome.error) for outcome in outcomes if outcome.error is not None),
    )


def show_vm(context: Context, vm: str, on: str | None) -> VmReport:
    """One VM with its claims and vGPUs. Raises UnknownVm, AmbiguousVm or HostError."""
    found = find_vm(context, vm, on)
    with found.session as session:
        view = session.observe()
    domain = plan.find_domain(view, found.uuid)
    return VmReport(
        view=view,
        domain=domain,
        slots=plan.slots_of(view, domain),
        rows=tuple(row for row in listing.rows(view) if row.vm == domain.name),
        findings=found.findings + tuple(item for item in listing.findings(view) if item.vm == domain.name),
    )


def render_slots(report: VmReport, slot: Slot | None) -> tuple[tuple[Slot, str], ...]:
    """(slot, hostdev XML) of a VM's claims, as libvirt is passed it. Raises UnknownSlot where there is none."""
    document = report.domain.claims
    found = [claim for claim in document.claims if slot in (None, claim.slot)] if document else []
    if not found:
        where = f" in slot {slot}" if slot else ""
        have = f"it has {', '.join(claim.slot for claim in document.claims)}" if document else "attach one first"
        raise errors.UnknownSlot(f"{report.domain.name} has no claim{where}", hint=have)
    return tuple(
        (claim.slot, templates.render_hostdev(domain_xml.wanted_hostdev(claim.slot, claim.binding))) for claim in found
    )
