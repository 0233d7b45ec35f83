"""One open host: facts and domains joined into a view, with or without the host's lock."""

from __future__ import annotations

import random
import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from vgpumgr import errors
from vgpumgr.core.model import domain_xml
from vgpumgr.core.model.view import HostView

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence
    from types import TracebackType
    from typing import Self

    from vgpumgr.controller.context import Context
    from vgpumgr.core.inventory import HostDeclaration
    from vgpumgr.core.model.domain_dumps import DomainDump
    from vgpumgr.core.model.domain_xml import Domain
    from vgpumgr.core.model.snapshot import HostSnapshot
    from vgpumgr.link.host import Host
    from vgpumgr.names import VmUuid

_CONNECTING = frozenset({"dns", "tcp", "banner", "kex"})
_JITTER_S = (0.3, 1.0)  # many hosts behind one gateway must not reconnect all at once
SILENT_WAIT_S = 2.0  # after this time the user is told which run a busy host waits for


@dataclass(slots=True, kw_only=True)
class Session:
    """A connection to one host for one use case; closing it releases the lock, whatever happened.

    `unwritable`: why the host's ledger could not be written when its lock was taken; None if it could.
    """

    context: Context
    declaration: HostDeclaration
    link: Host
    unwritable: errors.LedgerUnwritable | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.link.close()

    def observe(self) -> HostView:
        """Read everything, under the shared lock, which is released at once, or under our exclusive lock if we hold it."""
        return self._view(self.read_facts())

    def read_facts(self) -> HostSnapshot:
        """The facts from the host program alone, without libvirt. Changes nothing."""
        return self.link.observe(wait_s=self.context.lock_wait_s)

    def lock(self, what: str) -> HostView:
        """Take the exclusive lock, and read everything inside it. Raises Busy naming the owner."""
        by = f"{self.context.by} {what}"
        wait_s = self.context.lock_wait_s
        try:
            locked = self.link.lock(by=by, wait_s=min(SILENT_WAIT_S, wait_s))
        except errors.Busy as busy:
            if wait_s <= SILENT_WAIT_S:
                raise
            self.context.progress(f"{busy.message}; waiting up to {wait_s:.0f} s …")
            locked = self.link.lock(by=by, wait_s=wait_s - SILENT_WAIT_S)
        self.unwritable = locked.unwritable
        return self._view(locked.snapshot)

    def unlock(self, before: HostView, gpus: Sequence[str] = (), vms: Collection[VmUuid] = ()) -> HostView:
        """Read the GPUs and the VMs that were changed again, then release the lock."""
        found = self.link.locked_hypervisor().domains(vms) if vms else ()
        part = self.link.unlock(gpus)
        return replace(
            before, snapshot=before.snapshot.with_gpus(part), domains=_with_read_again(before.domains, vms, found)
        )

    def with_saved_states(self, view: HostView) -> HostView:
        """The view with every VM's managed-save image and snapshots, which can be restored. Takes two calls if there are none."""
        found = self.link.hypervisor().saved()
        return replace(view, saved={documents.uuid: domain_xml.read_saved_states(documents) for documents in found})

    def _view(self, facts: HostSnapshot) -> HostView:
        hypervisor = self.link.hypervisor()
        return HostView(
            snapshot=facts,
            domains=tuple(domain_xml.read_domain(documents) for documents in hypervisor.domains()),
            libvirt_version=hypervisor.version,
            excluded_vfs=self.declaration.excluded_vfs,
            even_if_it_will_not_start=self.declaration.even_if_it_will_not_start,
        )


def _with_read_again(
    before: Sequence[Domain], vms: Collection[VmUuid], found: Sequence[DomainDump]
) -> tuple[Domain, ...]:
    kept = [domain for domain in before if domain.uuid not in vms]
    return tuple(sorted([*kept, *map(domain_xml.read_domain, found)], key=lambda one: (one.name, one.uuid)))


def open_session(context: Context, declaration: HostDeclaration) -> Session:
    """Connect to a declared host. Raises HostError with the stage that failed."""
    return Session(context=context, declaration=declaration, link=context.connect(declaration.endpoint))


def open_session_patiently(context: Context, declaration: HostDeclaration) -> Session:
    """As open_session, but retries once after a moment if the connection was refused (an sshd that is restarting or full).

    A stage that ran into its deadline is not retried, since it has had its time, nor is a problem that the user has to fix.
    """
    try:
        return open_session(context, declaration)
    except errors.Unreachable as error:
        if isinstance(error, errors.HostDeadline) or not error.transient or error.stage not in _CONNECTING:
            raise
        time.sleep(random.uniform(*_JITTER_S))  # noqa: S311 -- the delay is no secret
    return open_session(context, declaration)
