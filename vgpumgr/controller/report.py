"""Read-only use cases: the hosts' vGPUs and GPUs, one VM, and the XML that attach would pass to libvirt."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Final

from vgpumgr import errors, names, templates
from vgpumgr.controller.hosts.fan_out import read_fleet
from vgpumgr.controller.hosts.locate import find_vm
from vgpumgr.controller.hosts.session import open_session
from vgpumgr.controller.lately import with_history
from vgpumgr.controller.results import HostFacts, HostVgpus, VgpuList, VmReport
from vgpumgr.core.commands import command
from vgpumgr.core.evidence import sharing
from vgpumgr.core.inventory import choice
from vgpumgr.core.model import domain_xml
from vgpumgr.core.model.owners import Amount
from vgpumgr.core.model.vgpu import OURS
from vgpumgr.core.policies import known
from vgpumgr.core.reconcile import tasks, who_waits, window
from vgpumgr.core.report import findings, listing
from vgpumgr.core.report.quota_room import QuotaRoom
from vgpumgr.core.slot import detach, plan, quotas, to_come
from vgpumgr.link.domain_query import DOMAINS
from vgpumgr.names import VmName
from vgpumgr.wording import Option, say

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from vgpumgr.controller.context import Context
    from vgpumgr.controller.results import Fleet, View
    from vgpumgr.core.evidence import restart
    from vgpumgr.core.inventory import HostDeclaration
    from vgpumgr.core.inventory.choice import Shown
    from vgpumgr.core.model.view import HostView
    from vgpumgr.core.policies.policy import Policy
    from vgpumgr.core.reconcile.who_waits import WaitingSlot
    from vgpumgr.names import OwnerName, Slot, VmUuid

ALL_POLICIES: Final = "all"


def observe_fleet(context: Context, hosts: Sequence[str] = ()) -> Fleet[HostView]:
    """Read hosts (all if none is named), a limited number at a time. Raises UnknownHost before anything is read."""
    return look_over(context, hosts, lambda view: view)


def look_for_room(
    context: Context, hosts: Sequence[str], keep: Callable[[HostView], View], owner: OwnerName | None = None
) -> Fleet[View]:
    """Read hosts as look_over does, but in the views for `keep` the room kept for others than `owner` is taken."""

    def newcomers(view: HostView) -> View:
        return keep(to_come.with_room_kept(view, context.inventory.hosts[view.snapshot.host], owner))

    return look_over(with_history(context), hosts, newcomers)


def list_vgpus(context: Context, texts: Sequence[str] = (), on: str | None = None) -> VgpuList:
    """The vGPUs of the VMs and hosts that `texts` name, of all if empty; `on` limits them to its hosts.

    Raises BadName and UnknownHost before anything is read.
    """
    meant = choice.choose(context.inventory, texts, on)
    shown = meant.shown
    fleet = look_over(context, [host.name for host in meant.hosts], lambda view: _vgpus(view, shown))
    vms = [vm for host in fleet.views for vm in host.vms]
    unknown = choice.unknown_vms(shown, context.inventory, vms, unread=len(fleet.errors))
    return VgpuList(fleet=fleet, named=tuple(one.text for one in shown.adds), unknown=unknown)


def look_over(
    context: Context,
    hosts: Sequence[str],
    keep: Callable[[HostView], View],
    *,
    doing: str = "reading",
) -> Fleet[View]:
    """Read hosts (all if none is named), and hold only what `keep` returns for each: views are large.

    Raises UnknownHost before anything is read.
    """

    def observe(declaration: HostDeclaration) -> tuple[View, errors.VgpumgrError | None]:
        try:
            with open_session(context, declaration) as session:
                view = session.observe(saved=True)
        except errors.Unreachable as error:
            if error.stage == "libvirt":  # the error stays the same; the hint adds what can be read meanwhile
                error.details += (say("`{}` shows its GPUs without libvirt", command("discover", declaration.name)),)
            raise
        return keep(view), detach.ledger_broken(view.snapshot)

    declarations = context.inventory.chosen(hosts)
    context.say_reading(declarations, doing)
    return read_fleet(declarations, observe, context)


def quota_room(context: Context, owner: OwnerName) -> QuotaRoom | None:
    """What is left of an owner's quota on all hosts, which are read for it; None if it has none.

    Raises UnknownName if the inventory knows no such owner, unless the VMs' definitions may.
    """
    inventory = context.inventory
    if owner not in inventory.quotas:
        known_owners = {*inventory.quotas, *(one for host in inventory.hosts.values() for one in host.owners.every)}
        known_owners |= {one.owner for host in inventory.hosts.values() for one in host.reservations}
        if owner not in known_owners and not any(host.owner_path for host in inventory.hosts.values()):
            near = names.nearest(owner, known_owners)
            raise errors.UnknownName(
                say("the inventory {} knows no owner {}", inventory.root, repr(owner)),
                hint=f"did you mean {near}?" if near else "`vgpumgr docs inventory` says where owners are named",
            )
        return None
    fleet = look_over(context, (), quotas.held)
    return QuotaRoom(
        owner=owner,
        quota=inventory.quotas[owner],
        used=Amount.of(one for rows in fleet.views for one in rows if one.owner == owner),
        unread=fleet.errors,
    )


def policies(context: Context, hosts: Sequence[str], name: str | None) -> tuple[Policy, ...]:
    """The policies to place by over these hosts. ALL_POLICIES: every built-in one. A name: that one, if a host has it.

    None: the hosts' own, if they all have the same, else the default. Raises PolicyFailed and UnknownHost.
    """
    declared = context.inventory.chosen(hosts)
    if name == ALL_POLICIES:
        return tuple(known.BUILT_IN.values())
    if name is None:
        own = {one.policy.name: one.policy for one in declared}
        return tuple(own.values()) if len(own) == 1 else (known.DEFAULT,)
    for one in declared[:-1]:
        with contextlib.suppress(errors.PolicyFailed):
            return (one.find_policy(name),)
    return (declared[-1].find_policy(name) if declared else known.find(name),)


def _vgpus(view: HostView, shown: Shown) -> HostVgpus:
    host = view.snapshot.host
    found = listing.rows(view)
    told = findings.of_host(view)
    if not shown.vms:
        return HostVgpus(host=host, rows=found, findings=told)
    return HostVgpus(
        host=host,
        rows=tuple(row for row in found if shown.shows(host, row.vm, row.vm_uuid)),
        findings=tuple(one for one in told if shown.shows(host, one.vm)),
        vms=(
            *((one.name, one.uuid) for one in view.domains),
            *((row.vm, row.vm_uuid) for row in found if row.vm and row.vm_uuid),
        ),
    )


def owners(context: Context, shown: Shown, on: str | None) -> tuple[VmName, ...]:
    """The names of the VMs of `shown` that have a vGPU of ours. Reads the hosts of `on`, or all.

    Raises UnknownVm if a pattern matches none, and VmNotSeen if a host could not be read: it may have more such VMs.
    """

    def keep(view: HostView) -> tuple[tuple[VmName, VmUuid | None], ...]:
        rows = (row for row in listing.rows(view) if row.vm is not None and row.origin == OURS)
        return tuple((VmName(row.vm or ""), row.vm_uuid) for row in rows)

    fleet = look_over(context, () if on is None else (on,), keep, doing="looking for the VMs on")
    if fleet.errors:
        unread = tuple(error for _, error in fleet.errors)
        some, them = (fleet.errors[0][0], "it") if len(unread) == 1 else (f"{len(unread)} hosts", "them")
        blind = errors.VmNotSeen(
            say("{} could not be read, so it is unknown which VMs are meant", some),
            details=[error.message for error in unread],
            hint=say("make {} reachable, name the VMs, or name the hosts to look on: {}", them, Option("--on")),
        )
        blind.unread = unread
        raise blind
    found = [vm for one in fleet.views for vm in one]
    for missed in shown.unmatched(found):
        raise errors.UnknownVm(
            f"no VM that has a vGPU of ours is called {missed.text!r}", hint="`vgpumgr list` shows which have one"
        )
    return tuple(
        sorted(
            {name for name, uuid in found if shown.adds_vm(name, uuid) and shown.keeps_vm(name, uuid)},
            key=names.slot_order,
        )
    )


def waiting_for_restart(context: Context, hosts: Sequence[str]) -> Fleet[tuple[restart.Waiting, ...]]:
    """The VMs whose vGPUs change at their next start, or that must be shut down before a declared change."""
    author = tasks.Author(by=context.by, at=context.now())

    def keep(view: HostView) -> tuple[restart.Waiting, ...]:
        return window.of_host(view, context.inventory.hosts[view.snapshot.host], author)

    return look_over(with_history(context), hosts, keep)


def waiting_for_room(context: Context, hosts: Sequence[str]) -> Fleet[tuple[WaitingSlot, ...]]:
    """The slots that wait for room on their VMs' hosts, each host's in the order in which reconcile serves them."""
    author = tasks.Author(by=context.by, at=context.now())

    def keep(view: HostView) -> tuple[WaitingSlot, ...]:
        return who_waits.of_host(view, context.inventory.hosts[view.snapshot.host], author)

    return look_over(with_history(context), hosts, keep)


def discover_fleet(context: Context, hosts: Sequence[str] = ()) -> Fleet[HostFacts]:
    """Read the hosts' GPUs, without needing libvirt: if it is down, the result has both facts and an error."""

    def read(declaration: HostDeclaration) -> tuple[HostFacts, errors.VgpumgrError | None]:
        with open_session(context, declaration) as session:
            observed = session.link.observe(DOMAINS, wait_s=context.timing.lock_wait_s)
        snapshot = observed.snapshot
        try:
            view = session.view_of(observed)
        except errors.HostError as error:
            return HostFacts(snapshot=snapshot, libvirt_version=None), error
        facts = HostFacts(snapshot=snapshot, libvirt_version=view.libvirt_version, shared=sharing.of_hardware(view))
        return facts, detach.ledger_broken(snapshot)

    declarations = context.inventory.chosen(hosts)
    context.say_reading(declarations)
    return read_fleet(declarations, read, context)


def show_vm(context: Context, vm: str, on: str | None) -> VmReport:
    """One VM with its claims and vGPUs. Raises UnknownVm, AmbiguousVm or HostError."""
    found = find_vm(context, vm, on)
    with found.session as session:
        view = session.observe(saved=True)
    domain = plan.find_domain(view, found.uuid)
    broken = detach.ledger_broken(view.snapshot)
    return VmReport(
        view=view,
        domain=domain,
        rows=tuple(row for row in listing.rows(view) if row.vm_uuid == domain.uuid),
        findings=found.findings + tuple(item for item in findings.of_host(view) if item.vm in (None, domain.name)),
        errors=() if broken is None else (broken,),
        unread=found.unread,
    )


def render_slots(report: VmReport, slot: Slot | None) -> tuple[tuple[Slot, str], ...]:
    """(slot, hostdev XML) of a VM's claims, as passed to libvirt. Raises UnknownSlot if there is none."""
    document = report.domain.claims
    found = [claim for claim in document.claims if slot in (None, claim.slot)] if document else []
    if not found:
        where = f" in slot {slot}" if slot else ""
        have = f"it has {', '.join(claim.slot for claim in document.claims)}" if document else "attach one first"
        raise errors.UnknownSlot(say("{} has no claim{}", report.domain.name, where), hint=have)
    return tuple(
        (claim.slot, templates.render_hostdev(domain_xml.expected_hostdev(claim.slot, claim.binding)))
        for claim in found
    )
