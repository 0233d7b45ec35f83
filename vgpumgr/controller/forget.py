"""forget: what this controller knows of a VM or host that is gone. What still has something of ours is refused."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vgpumgr import errors
from vgpumgr.controller import report
from vgpumgr.controller.results import ForgetPlan, ForgetResult
from vgpumgr.core.commands import command
from vgpumgr.core.report import listing
from vgpumgr.errors import Outcome
from vgpumgr.store import place
from vgpumgr.store.sql import forgetting

if TYPE_CHECKING:
    from pathlib import Path

    from vgpumgr.controller.context import Context
    from vgpumgr.controller.results import Consent
    from vgpumgr.core.model.view import HostView
    from vgpumgr.store.sql.forgetting import Kind


def forget(context: Context, store: Path, name: str, consent: Consent[ForgetPlan]) -> ForgetResult:
    """Forget a host, if that is a host's name, else a VM, by name or UUID.

    Raises RefusedPlan where it still has something of ours, or is still declared; the error of a host that could not be read;
    Declined; StoreError.
    """
    samples = place.samples_beside(store)
    kind: Kind = "host" if name in context.inventory.hosts or forgetting.traces(store, samples, "host", name) else "vm"
    if kind == "host":
        _guard_host(context, name)
    else:
        _guard_vm(context, name)
    plan = ForgetPlan(kind=kind, name=name, traces=forgetting.traces(store, samples, kind, name))
    consent.show(plan)
    if not plan.traces:
        return ForgetResult(plan=plan, outcome=Outcome.UNCHANGED)
    if consent.check:
        return ForgetResult(plan=plan, outcome=Outcome.WOULD_CHANGE)
    if not consent.given:
        consent.ask(plan)
    forgetting.forget(store, samples, kind, name)
    return ForgetResult(plan=plan, outcome=Outcome.DONE)


def _guard_host(context: Context, name: str) -> None:
    """A host of the inventory is read and written again every night."""
    if name in context.inventory.hosts:
        raise errors.RefusedPlan(
            f"{name} is in the inventory ({context.inventory.host(name).where})",
            hint=f"`vgpumgr host purge {name}` removes what is ours there; then take it out of the inventory",
        )


def _guard_vm(context: Context, name: str) -> None:
    declared = [host for host in context.inventory.hosts.values() if any(vm == name for vm in host.vms)]
    if declared:
        raise errors.RefusedPlan(
            f"{name} is declared on {declared[0].name} ({declared[0].where})", hint="take it out of the inventory first"
        )
    fleet = report.look_over(context, (), lambda view: _has(view, name))
    for host, error in fleet.errors:
        raise errors.VmNotSeen(
            f"{host} could not be read, so it is unknown whether {name} has a vGPU there",
            details=[str(error)],
            hint="make it reachable, or take it out of the inventory",
        )
    for found in fleet.views:
        if found is not None:
            free = command("detach", name, options=("--all",))
            raise errors.RefusedPlan(f"{name} still has {found}", hint=f"`{free}` first")


def _has(view: HostView, name: str) -> str | None:
    """What the VM has there, in words."""
    for row in listing.rows(view):
        if name in (row.vm, row.vm_uuid):
            return f"{row.type_name or 'a vGPU'} on {view.snapshot.host} ({row.slot or 'no slot'}, {row.state})"
    return None
