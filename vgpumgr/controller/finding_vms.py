"""Where a VM is: on the host that the inventory declares it on, on --on HOST, or found by asking every host.

A VM that no host has any more may still be named by a host's ledger: what is to be freed is looked for there too.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from vgpumgr import errors
from vgpumgr.controller.fan_out import fan_out
from vgpumgr.controller.session import Session, open_session
from vgpumgr.core import names, plan
from vgpumgr.core.commands import command
from vgpumgr.core.observed import Finding

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from vgpumgr.controller.context import Context
    from vgpumgr.core.domains import DomainDocuments
    from vgpumgr.core.inventory import HostDeclaration
    from vgpumgr.core.names import VmUuid


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundVm:
    """The open session of the VM's host (the caller closes it), and what could not be asked on the way.

    `gone`: the host no longer has the VM, and only its ledger names it.
    """

    session: Session
    uuid: VmUuid
    name: str
    active: bool
    findings: tuple[Finding, ...] = ()
    gone: bool = False


def find_vm(context: Context, vm: str, on: str | None, *, or_gone: bool = False) -> FoundVm:
    """Find a VM by name or UUID; with `or_gone` also one that only a ledger still names.

    Raises UnknownVm, AmbiguousVm, UnknownHost or the HostError of its host.
    """
    hosts = _candidates(context, vm, on)
    if len(hosts) == 1:
        context.progress(f"reading {hosts[0].name} …")
        session = open_session(context, hosts[0])
        try:
            return _pick(session, vm, hosts[0], or_gone=or_gone)
        except BaseException:
            session.link.close()
            raise
    return _search(context, vm, hosts, or_gone=or_gone)


def _candidates(context: Context, vm: str, on: str | None) -> tuple[HostDeclaration, ...]:
    declared = context.inventory.host_of_vm(vm)
    if on is not None:
        host = context.inventory.host(on)
        if declared is not None and declared.name != host.name:
            raise errors.UsageError(
                f"{vm} is declared on {declared.name} ({declared.vms[names.parse_vm_name(vm)].where}), not on {host.name}",
                hint="leave --on out, or change the inventory",
            )
        return (host,)
    if declared is not None:
        return (declared,)
    hosts = tuple(context.inventory.hosts.values())
    if not hosts:
        raise errors.InventoryError(
            f"the inventory {context.inventory.root} has no hosts", hint="docs/inventory.md shows a small one"
        )
    return hosts


def _pick(session: Session, vm: str, host: HostDeclaration, *, or_gone: bool) -> FoundVm:
    domains = session.link.hypervisor().domains()
    found = _match(domains, vm)
    if found is None and or_gone:
        left = _left_on([session], vm)
        if left is not None:
            return left
    if found is None:
        declared = host.vms.get(names.VmName(vm))
        where = f" (declared at {declared.where})" if declared else ""
        raise errors.UnknownVm(
            f"{host.name} has no VM {vm!r}{where}", hint=_suggestion(vm, {domain.name for domain in domains})
        )
    return FoundVm(session=session, uuid=found.uuid, name=found.name, active=found.active)


def _match(domains: tuple[DomainDocuments, ...], vm: str) -> DomainDocuments | None:
    """By name first, as virsh does, then by UUID."""
    by_name = next((domain for domain in domains if domain.name == vm), None)
    return by_name or next((domain for domain in domains if domain.uuid == vm.lower()), None)


def _left_on(sessions: Sequence[Session], vm: str) -> FoundVm | None:
    """The VM of that name or UUID that only the ledger of one of these hosts names. Raises AmbiguousVm."""
    found = [
        FoundVm(session=session, uuid=one.uuid, name=one.name, active=False, gone=True)
        for session in sessions
        for one in plan.gone_vms(session.observe())
        if vm == one.name or vm.lower() == one.uuid
    ]
    if len(found) > 1:
        first = found[0]
        raise errors.AmbiguousVm(
            f"several VMs that are gone were called {vm}, or were on more than one host",
            details=[f"{one.uuid} on {one.session.declaration.name}" for one in found],
            hint=f"name one: `{command('detach', first.uuid, on=first.session.declaration.name)}`",
        )
    return found[0] if found else None


def _search(context: Context, vm: str, hosts: tuple[HostDeclaration, ...], *, or_gone: bool) -> FoundVm:
    context.progress(f"looking for {vm} on {len(hosts)} hosts …")

    def ask(host: HostDeclaration) -> tuple[Session, tuple[DomainDocuments, ...]]:
        session = open_session(context, host)
        try:
            return session, session.link.hypervisor().domains()
        except BaseException:
            session.link.close()
            raise

    outcomes = fan_out(hosts, ask)
    hits = [
        (outcome.value[0], found)
        for outcome in outcomes
        if outcome.value is not None and (found := _match(outcome.value[1], vm)) is not None
    ]
    unread = [outcome for outcome in outcomes if outcome.error is not None]
    sessions = [outcome.value[0] for outcome in outcomes if outcome.value is not None]
    kept = hits[0][0] if len(hits) == 1 else None
    try:
        if or_gone and not hits and not unread:  # it may have moved to a host that could not be asked
            left = _left_on(sessions, vm)
            if left is not None:
                kept = left.session
                return left
    finally:
        for session in sessions:
            if session is not kept:
                session.link.close()
    if len(hits) > 1:
        raise errors.AmbiguousVm(
            f"{vm} is on more than one host: {', '.join(session.declaration.name for session, _ in hits)}",
            hint=f"name one: --on {hits[0][0].declaration.name}",
        )
    if not hits:
        known = {domain.name for outcome in outcomes if outcome.value is not None for domain in outcome.value[1]}
        raise _unknown(vm, known, [str(outcome.error) for outcome in unread], len(hosts))
    session, found = hits[0]
    findings = tuple(
        Finding(
            kind="unreached",
            host=outcome.host,
            vm=None,
            slot=None,
            text=f"{outcome.error} (so it is not known whether it has a {vm} too)",
        )
        for outcome in unread
    )
    return FoundVm(session=session, uuid=found.uuid, name=found.name, active=found.active, findings=findings)


def _unknown(vm: str, known: Collection[str], unread: list[str], hosts: int) -> errors.VgpumgrError:
    if not unread:
        return errors.UnknownVm(f"none of {hosts} hosts has a VM {vm!r}", hint=_suggestion(vm, known))
    return errors.VmNotSeen(
        f"no VM {vm!r} on the {hosts - len(unread)} hosts that answered; {len(unread)} could not be asked",
        details=unread,
        hint="bring those hosts back, or name the VM's host with --on",
    )


def _suggestion(vm: str, known: Collection[str]) -> str:
    near = names.nearest(vm, known)
    return f"did you mean {near}?" if near else "`virsh list --all` on the host shows what it has"
