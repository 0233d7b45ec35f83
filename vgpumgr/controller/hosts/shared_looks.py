"""One look at a host for all who want one at the same time, and for some seconds after it: what `serve` reads by.

A `Context` reaches hosts by its `connect`. The one of `SharedLooks` gives a host that was read a moment ago, so that
every use case that only reads works on it as it is. Nothing else knows of it.
"""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Generic, TypeVar

from vgpumgr import errors
from vgpumgr.controller.hosts.session import reach
from vgpumgr.link.domain_query import DOMAINS_AND_SAVED
from vgpumgr.link.host import Host

if TYPE_CHECKING:
    from collections.abc import Callable

    from vgpumgr.controller.context import Context
    from vgpumgr.core.model.domain_dumps import LibvirtDump
    from vgpumgr.core.model.endpoint import Endpoint
    from vgpumgr.link.domain_query import DomainQuery
    from vgpumgr.link.host import Observed
    from vgpumgr.names import VmName, VmUuid

Key = TypeVar("Key")
Value = TypeVar("Value")
Failure = TypeVar("Failure", bound=errors.VgpumgrError)


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept(Generic[Value]):
    """What making a value came to. `since`: the time from which it counts; `until`: when it is outdated.

    `made`: when it was ready. Who has waited for it takes it even if it is outdated by then.
    """

    value: Value | None
    error: errors.VgpumgrError | None
    since: float
    until: float
    made: float

    def get(self) -> Value:
        """The value. Raises the error that there is instead, a new one for each caller, who may add to it."""
        if self.error is not None:
            raise copied(self.error)
        assert self.value is not None
        return self.value


@dataclass(slots=True)
class _Entry(Generic[Value]):
    """`users`: how many callers hold it."""

    turn: threading.Lock = field(default_factory=threading.Lock)
    users: int = 0
    kept: Kept[Value] | None = None


class Shared(Generic[Key, Value]):
    """Values by key, each made by one caller while the others wait for it, and kept for `keep_s` seconds.

    An error is kept as well, and for as long as it took: who asks about a host that hangs does not wait each time.
    """

    def __init__(self, keep_s: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._keep_s = keep_s
        self._clock = clock
        self._turn = threading.Lock()
        self._entries: dict[Key, _Entry[Value]] = {}
        self._swept = clock()

    def get(self, key: Key, make: Callable[[], tuple[Value, float]]) -> Kept[Value]:
        """What is kept for that key. `make` returns a value with the time from which it counts, or raises."""
        came = self._clock()
        with self._turn:
            self._sweep(came)
            entry = self._entries.setdefault(key, _Entry())
            entry.users += 1
        try:
            with entry.turn:
                if entry.kept is None or max(entry.kept.until, entry.kept.made) <= came:
                    entry.kept = self._make(make)
                return entry.kept
        finally:
            with self._turn:
                entry.users -= 1

    def _make(self, make: Callable[[], tuple[Value, float]]) -> Kept[Value]:
        began = self._clock()
        try:
            value, since = make()
        except errors.VgpumgrError as error:
            now = self._clock()
            return Kept(value=None, error=error, since=now, until=now + max(self._keep_s, now - began), made=now)
        return Kept(value=value, error=None, since=since, until=since + self._keep_s, made=self._clock())

    def _sweep(self, now: float) -> None:
        """Forget what is outdated, so that only what is asked for takes memory."""
        if now - self._swept < self._keep_s:
            return
        self._swept = now
        self._entries = {
            key: entry for key, entry in self._entries.items() if entry.users or (entry.kept and entry.kept.until > now)
        }


def copied(error: Failure) -> Failure:
    """The same error for one more caller, who may add details to it and raise it."""
    result = type(error).__new__(type(error), *error.args)
    result.__dict__.update(error.__dict__)
    return result


class SharedLooks:
    """The looks at hosts that all users of its contexts share."""

    def __init__(self, keep_s: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._looks: Shared[Endpoint, Observed] = Shared(keep_s, clock)

    def context(self, context: Context, looked: Callable[[float], None]) -> Context:
        """The context with shared looks in place of connections. `looked` gets the time of each look that is used."""

        def connect(endpoint: Endpoint) -> Host:
            kept = self._looks.get(endpoint, lambda: self._look(context, endpoint))
            looked(kept.since)
            return _SeenHost(endpoint, kept.get())

        return replace(context, connect=connect)

    def _look(self, context: Context, endpoint: Endpoint) -> tuple[Observed, float]:
        with reach(context, endpoint) as link:
            return link.observe(DOMAINS_AND_SAVED, wait_s=context.timing.lock_wait_s), self._clock()


class _SeenHost(Host):
    """A host as it was seen. It answers from that, and cannot do anything else: it has no program there."""

    def __init__(self, endpoint: Endpoint, observed: Observed) -> None:
        self.host = endpoint.host
        self._observed = observed

    def observe(self, query: DomainQuery | None = None, *, wait_s: float) -> Observed:
        del query, wait_s
        read = self._observed.read
        return replace(self._observed, read=copied(read)) if isinstance(read, errors.HostError) else self._observed

    def domains(self, query: DomainQuery) -> LibvirtDump:
        return self.observe(query, wait_s=0).libvirt

    def names(self) -> tuple[tuple[VmName, VmUuid], ...]:
        return tuple((one.name, one.uuid) for one in self.domains(DOMAINS_AND_SAVED).domains)

    def close(self) -> None:
        """Nothing is open."""

    def abort(self) -> None:
        """Nothing is open."""
