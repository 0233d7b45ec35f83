"""One open host: facts and domains joined into a view, with or without the host's lock.

Core's model is imported only with the first answer: importing it earlier would delay the question to the host.
"""

from __future__ import annotations

import random
import time
from collections import Counter
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from vgpumgr import errors
from vgpumgr.link.domain_query import DOMAINS, DOMAINS_AND_SAVED, DomainQuery

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence
    from types import TracebackType
    from typing import Self

    from vgpumgr.controller.context import Context
    from vgpumgr.core.inventory import HostDeclaration
    from vgpumgr.core.model.domain_dumps import DomainDump, LibvirtDump
    from vgpumgr.core.model.domain_xml import Domain, SavedStates
    from vgpumgr.core.model.endpoint import Endpoint
    from vgpumgr.core.model.owners import Allowances
    from vgpumgr.core.model.view import HostView
    from vgpumgr.link.host import Host, Observed
    from vgpumgr.names import HostName, VmUuid

_CONNECTING = frozenset({"dns", "tcp", "banner", "kex"})
_DROPPED = frozenset({"banner"})  # sshd drops a connection while too many logins are under way, which passes soon


@dataclass(slots=True, kw_only=True)
class Session:
    """A connection to one host for one use case; closing it releases the lock, whatever happened.

    `unwritable`: why the host's ledger could not be written when its lock was taken; None if it could. `allotted`: what
    a host's plans may take of the owners' quotas (engine/allotment.py).
    """

    context: Context
    declaration: HostDeclaration
    link: Host
    unwritable: errors.LedgerUnwritable | None = None
    allotted: Callable[[HostName], Allowances | None] = lambda _: None
    _ahead: HostView | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.link.close()

    def read_ahead(self, lock: str | None) -> HostView:
        """Read everything before the VM is known, to save a request; the next `observe` or `lock` returns it.

        `lock` is the text for the lock's owner; None: without the lock.
        """
        self._ahead = self.observe(saved=True) if lock is None else self.lock(lock, saved=True)
        return self._ahead

    def observe(self, *, saved: bool = False) -> HostView:
        """Read everything under our exclusive lock if we hold it; else under the shared lock, released at once.

        `saved`: with every VM's managed-save image and snapshots, which can be restored.
        """
        if self._ahead is not None:
            return self._take_ahead()
        return self.view_of(self.link.observe(_query(saved=saved), wait_s=self.context.timing.lock_wait_s))

    def lock(self, what: str, *, saved: bool = False) -> HostView:
        """Take the exclusive lock, and read everything inside it. Raises Busy naming the owner."""
        if self._ahead is not None:
            return self._take_ahead()
        by, query = f"{self.context.by} {what}", _query(saved=saved)
        wait_s, silent_s = self.context.timing.lock_wait_s, self.context.timing.silent_wait_s
        try:
            locked = self.link.lock(query, by=by, wait_s=min(silent_s, wait_s))
        except errors.Busy as busy:
            if wait_s <= silent_s:
                raise
            self.context.progress(f"{busy.message}; waiting up to {wait_s:.0f} s …")
            locked = self.link.lock(query, by=by, wait_s=wait_s - silent_s)
        self.unwritable = locked.unwritable
        return self.view_of(locked)

    def unlock(self, before: HostView, gpus: Sequence[str] = (), vms: Collection[VmUuid] = ()) -> HostView:
        """Read the changed GPUs and VMs again, then release the lock. Returns `before`, updated by that reading."""
        part = self.link.unlock(gpus, DomainQuery(only=vms) if vms else None)
        found = part.libvirt.domains if vms else ()
        return replace(
            before,
            snapshot=before.snapshot.with_gpus(part.snapshot),
            domains=_with_read_again(before.domains, vms, found),
        )

    def with_saved_states(self, view: HostView) -> HostView:
        """The view with every VM's managed-save image and snapshots as they are now."""
        return replace(view, saved=_saved(self.link.domains(DomainQuery(domains=False, saved=True))))

    def _take_ahead(self) -> HostView:
        view, self._ahead = self._ahead, None
        assert view is not None
        return view

    def view_of(self, observed: Observed) -> HostView:
        """The view of what was observed, with the settings of the host's declaration.

        Raises HostError if libvirt did not answer.
        """
        from vgpumgr.core.inventory import settings
        from vgpumgr.core.model import domain_xml
        from vgpumgr.core.model.view import HostView

        owners, history = self.declaration.owners, self.context.history
        return HostView(
            snapshot=observed.snapshot,
            domains=tuple(domain_xml.read_domain(one, owners.path) for one in observed.libvirt.domains),
            saved=_saved(observed.libvirt),
            libvirt_version=observed.libvirt.version,
            excluded_vfs=self.declaration.excluded_vfs,
            even_if_it_will_not_start=self.declaration.even_if_it_will_not_start,
            lazy=self.declaration.lazy,
            fgpu_per_gpu=self.declaration.fgpu_per_gpu,
            policy=self.declaration.policy,
            find_policy=self.declaration.find_policy,
            usual=Counter(self.declaration.wishes) or (history.on(self.declaration.name) if history else {}),
            layouts=settings.layouts(observed.snapshot.gpus, self.declaration.of_gpus),
            owners=owners,
            quotas=self.context.inventory.quotas,
            allowances=self.allotted(self.declaration.name),
        )


def _query(*, saved: bool) -> DomainQuery:
    return DOMAINS_AND_SAVED if saved else DOMAINS


def _saved(found: LibvirtDump) -> Mapping[VmUuid, SavedStates] | None:
    from vgpumgr.core.model import domain_xml

    return None if found.saved is None else {dump.uuid: domain_xml.read_saved_states(dump) for dump in found.saved}


def _with_read_again(
    before: Sequence[Domain], vms: Collection[VmUuid], found: Sequence[DomainDump]
) -> tuple[Domain, ...]:
    from vgpumgr.core.model import domain_xml

    kept = [domain for domain in before if domain.uuid not in vms]
    return tuple(sorted([*kept, *map(domain_xml.read_domain, found)], key=lambda one: (one.name, one.uuid)))


def open_session(context: Context, declaration: HostDeclaration) -> Session:
    """Connect to a declared host. Raises HostError with the stage that failed.

    It connects once more after a moment if sshd dropped the connection. A login is never tried again.
    """
    return _open_session(context, declaration, again=_DROPPED)


def open_session_patiently(context: Context, declaration: HostDeclaration) -> Session:
    """Connect as open_session does, but try again after any passing failure before the login (an sshd restarts)."""
    return _open_session(context, declaration, again=_CONNECTING)


def _open_session(context: Context, declaration: HostDeclaration, *, again: Collection[str]) -> Session:
    return Session(context=context, declaration=declaration, link=reach(context, declaration.endpoint, again=again))


def reach(context: Context, endpoint: Endpoint, *, again: Collection[str] = _DROPPED) -> Host:
    """Connect to a host; try once more if it failed at one of the stages in `again`.

    A stage that ran into its deadline is not retried, since it has had its time. Nor is one that the user has to fix.
    """
    try:
        return context.connect(endpoint)
    except errors.Unreachable as error:
        if isinstance(error, errors.HostDeadline) or not error.transient or error.stage not in again:
            raise
    time.sleep(random.uniform(*context.timing.reconnect_s))  # noqa: S311 -- the delay is no secret
    return context.connect(endpoint)
