"""forget: delete what this controller stores about a gone VM or host. Refused while that has anything of ours."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from vgpumgr import errors, names
from vgpumgr.controller import report
from vgpumgr.controller.results import ForgetPlan, ForgetResult
from vgpumgr.core.commands import command
from vgpumgr.core.inventory.whose import VARIABLE
from vgpumgr.core.report import listing
from vgpumgr.errors import Outcome
from vgpumgr.names import VmName
from vgpumgr.store import place
from vgpumgr.store.sql import forgetting
from vgpumgr.wording import Command, say

if TYPE_CHECKING:
    from pathlib import Path

    from vgpumgr.controller.context import Context
    from vgpumgr.controller.results import Consent
    from vgpumgr.core.model.view import HostView
    from vgpumgr.store.sql.forgetting import Kind


def forget(context: Context, store: Path, name: str, consent: Consent[ForgetPlan]) -> ForgetResult:
    """Forget the host of that name, else the VM of that name or UUID.

    Raises RefusedPlan if the host or VM is declared or still has something of ours, VmNotSeen if a host could not be
    read, UsageError, Declined, or StoreError.
    """
    _guard_whole(context)
    samples = place.samples_beside(store)
    kind: Kind = "host" if name in context.inventory.hosts or forgetting.traces(store, samples, "host", name) else "vm"
    if kind == "host":
        _guard_host(context, name)
    else:
        name = names.as_uuid(name) or name
        _guard_vm(context, name)
    plan = ForgetPlan(kind=kind, name=name, traces=forgetting.traces(store, samples, kind, name))
    consent.show(plan)
    if not plan.traces:
        return ForgetResult(plan=plan, outcome=Outcome.UNCHANGED)
    if consent.check:
        return ForgetResult(plan=plan, outcome=Outcome.WOULD_CHANGE)
    if not consent.given:
        consent.ask(plan)
    gone = forgetting.forget(store, samples, kind, name)
    return ForgetResult(plan=replace(plan, traces=gone), outcome=Outcome.DONE)


def _guard_whole(context: Context) -> None:
    """Refuse a partial inventory: the hosts left out may have the VM."""
    whose = context.inventory.whose
    if whose.left_out and whose.named_by not in {None, VARIABLE}:
        raise errors.UsageError(
            say(
                "{} {} leaves out {} and others, where a VM may have a vGPU",
                whose.named_by,
                whose.group,
                whose.left_out[0],
            ),
            hint="forget looks at all hosts of the inventory: run it without that group",
        )


def _guard_host(context: Context, name: str) -> None:
    """Refuse a host of the inventory: the next run would store it again."""
    if name in context.inventory.hosts:
        raise errors.RefusedPlan(
            say("{} is in the inventory ({})", name, context.inventory.host(name).where),
            hint=say(
                "`{}` removes what is ours there; then take it out of the inventory",
                Command("vgpumgr", "host", "purge", name),
            ),
        )


def _guard_vm(context: Context, name: str) -> None:
    """Refuse a VM that is declared (also by its name if `name` is its UUID) or that has a vGPU on any host."""
    fleet = report.look_over(context, (), lambda view: (_has(view, name), _names(view, name)))
    known = {name}.union(*(called for _, called in fleet.views))
    for declared in context.inventory.hosts.values():
        for vm in known.intersection(declared.vms):
            raise errors.RefusedPlan(
                say("{} is declared on {} ({})", vm, declared.name, declared.vms[VmName(vm)].where),
                hint="take it out of the inventory first",
            )
    for host, error in fleet.errors:
        raise errors.VmNotSeen(
            say("{} could not be read, so it is unknown whether {} has a vGPU there", host, name),
            details=[error.message],
            hint="make it reachable, or take it out of the inventory",
        )
    for had, _ in fleet.views:
        if had is not None:
            free = command("detach", name, options=("--all",))
            raise errors.RefusedPlan(say("{} still has {}", name, had), hint=say("`{}` first", free))


def _names(view: HostView, uuid: str) -> set[str]:
    return {domain.name for domain in view.domains if domain.uuid == uuid}


def _has(view: HostView, name: str) -> str | None:
    """The VM's vGPU on the host, in words; None if it has none."""
    for row in listing.rows(view):
        if name in (row.vm, row.vm_uuid):
            return say(
                "{} on {} ({}, {})", row.type_name or "a vGPU", view.snapshot.host, row.slot or "no slot", row.state
            )
    return None
