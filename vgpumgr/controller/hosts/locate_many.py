"""Locates many VMs: every host that may have one of them is queried once, and its session stays open for later work."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vgpumgr import errors
from vgpumgr.controller.hosts.fan_out import fan_out
from vgpumgr.controller.hosts.locate import answer_of, ask, candidates, gone_named, gone_of, settle, unread_of
from vgpumgr.core.model.view import Finding, GoneVm
from vgpumgr.wording import joined, say

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from vgpumgr.controller.context import Context
    from vgpumgr.controller.hosts.locate import Answer, FoundVm
    from vgpumgr.controller.hosts.open_hosts import OpenHosts
    from vgpumgr.controller.hosts.session import Session
    from vgpumgr.controller.results import Unread
    from vgpumgr.core.inventory import HostDeclaration
    from vgpumgr.names import HostName

_NAMED = 8  # the most VMs that a line names; if there are more, it gives their number


class ManyVms:
    """Call `ask` first, then `find` any number of times. The sessions belong to the OpenHosts."""

    def __init__(self, context: Context, opened: OpenHosts) -> None:
        self._context = context
        self._open = opened
        self._answers: dict[HostName, Answer] = {}
        self._named: frozenset[str] = frozenset()
        self._gone: dict[HostName, tuple[Session, tuple[GoneVm, ...]]] = {}

    def ask(self, named: Iterable[tuple[str, str | None]]) -> None:
        """Query the hosts that may have these VMs (name or UUID, and the host named for it). Raises InventoryError."""
        hosts: dict[HostName, HostDeclaration] = {}
        wanted = tuple(named)
        self._named = frozenset(vm for vm, _ in wanted)
        for vm, on in wanted:
            try:
                hosts.update((host.name, host) for host in candidates(self._context, vm, on))
            except errors.RequestError:
                continue  # `find` will report it
        asked = list(hosts.values())
        self._context.say_reading(asked)
        outcomes = fan_out(
            asked,
            lambda host: ask(host, self._open.connect(host), self._named),
            self._open.host_timeout(),
            timing=self._context.timing,
        )
        self._answers = {host.name: answer_of(host, outcome) for host, outcome in zip(asked, outcomes, strict=True)}

    def find(self, vm: str, on: str | None, *, or_gone: bool) -> FoundVm:
        """Find a VM on the queried hosts; with `or_gone`, also one that only a ledger names. Raises as find_vm does."""
        answers = [self._answers[host.name] for host in candidates(self._context, vm, on)]

        def gone() -> list[FoundVm]:
            return [one for answer in answers for one in self._gone_on(answer, vm)]

        return settle(vm, answers, gone=gone if or_gone else None)

    @property
    def unread(self) -> tuple[Unread, ...]:
        """The hosts that could not be queried."""
        return unread_of(self._answers.values())

    def not_asked(self, found: Sequence[FoundVm]) -> Iterator[Finding]:
        """For each unread host, one finding: it may have these VMs, too."""
        for host, error in self.unread:
            vms = dict.fromkeys(one.name for one in found if any(finding.host == host for finding in one.findings))
            if vms:
                which = joined(", ", vms) if len(vms) <= _NAMED else f"any of {len(vms)} VMs"
                text = say("{} (so it is unknown whether it also has {})", error.message, which)
                yield Finding(kind="unreached", host=host, text=text)

    def _gone_on(self, answer: Answer, vm: str) -> list[FoundVm]:
        """The VM, if this host's ledger names it. The ledger is read once, however many VMs are missing."""
        host = answer.host.name
        if host not in self._gone:
            session = answer.session or self._open.connect(answer.host)
            self._gone[host] = session, gone_of(session)
            if answer.session is None and not any(gone_named(*self._gone[host], one) for one in self._named):
                session.link.close()
        return gone_named(*self._gone[host], vm)
