"""Locates a VM: on the host that the inventory declares it on, else on the hosts of --on, or by querying every host.

A VM that no host has any more can still be named by a host's ledger, so detach also searches the ledgers.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from vgpumgr import errors, names
from vgpumgr.controller.hosts.fan_out import Outcome, Watch, fan_out, watched
from vgpumgr.controller.hosts.session import Session, open_session
from vgpumgr.core.commands import command
from vgpumgr.wording import Option, joined, say

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Sequence

    from vgpumgr.controller.context import Context
    from vgpumgr.controller.results import Unread
    from vgpumgr.core.inventory import HostDeclaration
    from vgpumgr.core.model.view import Finding, GoneVm, HostView
    from vgpumgr.names import HostName, VmName, VmUuid

    Vms: TypeAlias = tuple[tuple[VmName, VmUuid], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundVm:
    """The open session of the VM's host, which the caller closes. `findings` and `unread`: hosts that did not answer.

    `gone`: the host no longer has the VM, and only its ledger names it.
    """

    session: Session
    uuid: VmUuid
    name: str
    findings: tuple[Finding, ...] = ()
    unread: tuple[Unread, ...] = ()
    gone: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """A host's answer when it is queried for its VMs: their names and UUIDs, or why it could not be queried.

    `session` is open if one of the wanted VMs is there. Otherwise it was closed at once, because one process cannot
    keep many hosts open (each takes 5 descriptors and 3 threads).
    """

    host: HostDeclaration
    session: Session | None
    vms: Vms
    error: errors.VgpumgrError | None


def find_vm(
    context: Context,
    vm: str,
    on: str | None,
    *,
    or_gone: bool = False,
    opened: Callable[[], None] = lambda: None,
    ahead: Callable[[Session], HostView] = lambda session: session.read_ahead(None),
) -> FoundVm:
    """Find a VM by name or UUID; with `or_gone`, also a VM that only a ledger still names.

    `opened` is called for each host whose session is open, before the host is queried. If there is only one candidate,
    it is not asked for names: `ahead` reads all that the caller needs.

    Raises UnknownVm, AmbiguousVm, UnknownHost, UsageError (--on is not the declared host), InventoryError or HostError.
    """
    hosts = candidates(context, vm, on)

    def reach(host: HostDeclaration) -> Session:
        session = open_session(context, host)
        opened()
        return session

    if len(hosts) == 1:
        context.progress(f"reading {hosts[0].name} …")
        with watched(hosts[0].name, context):
            answers: tuple[Answer, ...] = (_read(hosts[0], reach(hosts[0]), ahead),)
    else:
        context.progress(f"looking for {vm} on {len(hosts)} hosts …")
        watch: Watch[Answer] = Watch(progress=context.reading)
        outcomes = fan_out(hosts, lambda host: ask(host, reach(host), (vm,)), watch=watch, timing=context.timing)
        answers = tuple(map(answer_of, hosts, outcomes))
    left_open = [answer.session for answer in answers if answer.session is not None]
    kept: Session | None = None

    def gone() -> list[FoundVm]:
        ended = fan_out(hosts, lambda host: _gone_on(context, host, left_open, vm), timing=context.timing)
        failed = next((outcome.error for outcome in ended if outcome.error is not None), None)
        if failed is not None:
            raise failed
        return [one for outcome in ended for one in outcome.value or ()]

    try:
        found = settle(vm, answers, gone=gone if or_gone else None)
        kept = found.session
        return found
    finally:
        for session in left_open:
            if session is not kept:
                session.link.close()


def _gone_on(context: Context, host: HostDeclaration, left_open: list[Session], vm: str) -> list[FoundVm]:
    """The VM, if this host's ledger still names it. A new session is added to `left_open` then, else closed."""
    session = next((one for one in left_open if one.declaration.name == host.name), None)
    looked = session or open_session(context, host)
    found: list[FoundVm] = []
    try:
        found = gone_named(looked, gone_of(looked), vm)
    finally:
        if session is None and not found:
            looked.link.close()
    if session is None and found:
        left_open.append(looked)
    return found


def candidates(context: Context, vm: str, on: str | None) -> tuple[HostDeclaration, ...]:
    """The hosts that may have the VM. Raises UnknownHost, UsageError if another host declares it, or InventoryError."""
    declared = context.inventory.host_of_vm(vm)
    if on is not None:
        hosts = context.inventory.chosen((on,))
        if declared is not None and declared not in hosts:
            raise errors.UsageError(
                say(
                    "{} is declared on {} ({}), not on {}",
                    vm,
                    declared.name,
                    declared.vms[names.parse_vm_name(vm)].where,
                    on,
                ),
                hint=say("omit {}, or change the inventory", Option("--on")),
            )
        return hosts if declared is None else (declared,)
    return context.inventory.chosen(()) if declared is None else (declared,)


def _read(host: HostDeclaration, session: Session, ahead: Callable[[Session], HostView]) -> Answer:
    """The VMs of the only candidate, which stays open. If it does not answer, it is closed; raises HostError."""
    try:
        view = ahead(session)
    except BaseException:
        session.link.close()
        raise
    return Answer(host=host, session=session, vms=tuple((one.name, one.uuid) for one in view.domains), error=None)


def ask(host: HostDeclaration, session: Session, named: Collection[str]) -> Answer:
    """The VMs of an open host. It is closed if none of `named` is among them.

    If the host does not answer, it is closed and HostError is raised.
    """
    try:
        vms = session.link.names()
    except BaseException:
        session.link.close()
        raise
    if any(_match(vms, vm) is not None for vm in named):
        return Answer(host=host, session=session, vms=vms, error=None)
    session.link.close()
    return Answer(host=host, session=None, vms=vms, error=None)


def answer_of(host: HostDeclaration, outcome: Outcome[Answer]) -> Answer:
    """A host's answer, from its outcome of fan_out; a failed host has an Answer with the error."""
    return outcome.value or Answer(host=host, session=None, vms=(), error=outcome.error)


def gone_of(session: Session) -> tuple[GoneVm, ...]:
    """The VMs that only the ledger of an open host still names."""
    from vgpumgr.core.slot import plan

    return plan.gone_vms(session.observe())


def gone_named(session: Session, gone: Sequence[GoneVm], vm: str) -> list[FoundVm]:
    """The vanished VMs that have this name or UUID."""
    return [
        FoundVm(session=session, uuid=one.uuid, name=one.name, gone=True)
        for one in gone
        if vm == one.name or vm.lower() == one.uuid
    ]


def settle(vm: str, answers: Sequence[Answer], *, gone: Callable[[], Sequence[FoundVm]] | None) -> FoundVm:
    """Where a VM is, according to the candidate hosts. Closes nothing. Raises the same errors as find_vm.

    `gone` searches these hosts for a VM that only a ledger still names; None: such a VM does not count.
    """
    if len(answers) == 1 and answers[0].error is not None:
        raise answers[0].error
    hits = [
        (answer.session, found)
        for answer in answers
        if answer.session is not None and (found := _match(answer.vms, vm)) is not None
    ]
    unread = [answer for answer in answers if answer.error is not None]
    if len(hits) > 1:
        raise errors.AmbiguousVm(
            say("{} is on more than one host: {}", vm, joined(", ", (session.declaration.name for session, _ in hits))),
            hint=say("name one: {}", Option("--on", hits[0][0].declaration.name)),
        )
    if hits:
        session, (name, uuid) = hits[0]
        seen = tuple(_unread_finding(host, error, vm) for host, error in unread_of(unread))
        return FoundVm(session=session, uuid=uuid, name=name, findings=seen, unread=unread_of(unread))
    if gone is not None and not unread:  # otherwise it may have moved to a host that could not be queried
        left = _only_one(vm, gone())
        if left is not None:
            return left
    raise _unknown(vm, answers)


def unread_of(answers: Iterable[Answer]) -> tuple[Unread, ...]:
    """The hosts that could not be queried."""
    return tuple((answer.host.name, answer.error) for answer in answers if answer.error is not None)


def _unread_finding(host: HostName, error: errors.VgpumgrError, vm: str) -> Finding:
    text = say("{} (so it is unknown whether it also has {})", error.message, vm)
    from vgpumgr.core.model.view import Finding

    return Finding(kind="unreached", host=host, text=text)


def _match(vms: Vms, vm: str) -> tuple[VmName, VmUuid] | None:
    """The name and UUID of the VM. It is sought by name first, as virsh does, then by UUID; None if it is not there."""
    by_name = next((one for one in vms if one[0] == vm), None)
    return by_name or next((one for one in vms if one[1] == vm.lower()), None)


def _only_one(vm: str, found: Sequence[FoundVm]) -> FoundVm | None:
    """The one VM that was found in the ledgers; None if none was. Raises AmbiguousVm if there are several."""
    if len(found) > 1:
        first = found[0]
        raise errors.AmbiguousVm(
            say("several VMs called {} are gone, or one was on more than one host", vm),
            details=[say("{} on {}", one.uuid, one.session.declaration.name) for one in found],
            hint=say("name one: `{}`", command("detach", first.uuid, on=first.session.declaration.name)),
        )
    return found[0] if found else None


def _unknown(vm: str, answers: Sequence[Answer]) -> errors.VgpumgrError:
    known = {name for answer in answers for name, _ in answer.vms}
    if any(vm == answer.host.name for answer in answers):
        return errors.UnknownVm(
            say("{} is a host, not a VM", vm),
            hint=say("name one of its VMs: `{}` shows those that have vGPUs", command("list", vm)),
        )
    if len(answers) == 1:
        host = answers[0].host
        declared = host.vms.get(names.VmName(vm))
        where = say(" (declared at {})", declared.where) if declared else ""
        return errors.UnknownVm(say("{} has no VM '{}'{}", host.name, vm, where), hint=_suggestion(vm, known))
    unread = [answer.error for answer in answers if answer.error is not None]
    if not unread:
        return errors.UnknownVm(say("none of {} hosts has a VM '{}'", len(answers), vm), hint=_suggestion(vm, known))
    read = len(answers) - len(unread)
    found = errors.VmNotSeen(
        say(
            "no VM '{}' on the {} host{} that answered; {} could not be read",
            vm,
            read,
            "s" if read != 1 else "",
            len(unread),
        ),
        details=[error.message for error in unread],
        hint=say("make those hosts reachable, or name the VM's host with {}", Option("--on")),
    )
    found.unread = tuple(unread)
    return found


def _is_vgpu(text: str) -> bool:
    """Whether the text is a UUID or a PCI address, which names a vGPU rather than a VM."""
    from vgpumgr.core.reconcile import adopt

    try:
        adopt.parse_name(text)
    except errors.BadName:
        return False
    return True


def _suggestion(vm: str, known: Collection[str]) -> str:
    if _is_vgpu(vm):
        return say("to take over a foreign vGPU, adopt it first: `{}`", command("adopt", "HOST", options=(vm,)))
    from vgpumgr.core.inventory import choice

    if choice.is_wild(vm):
        return say("here a VM is meant by its name alone; `{}` shows several", command("list", vm))
    near = names.nearest(vm, known)
    return f"did you mean {near}?" if near else "`virsh list --all` on the host shows what it has"
