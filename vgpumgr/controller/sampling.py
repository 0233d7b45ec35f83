"""Reading who uses how much of the GPUs: rounds over many hosts, each with its connection kept open between them.

A host that hangs costs the others nothing: the round goes on without it, and it is not asked again before it has answered.
"""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING

from vgpumgr import errors
from vgpumgr.core.usage import sampling
from vgpumgr.core.usage.sampling import Cursor, Round
from vgpumgr.link.deadlines import Bounded

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from types import TracebackType
    from typing import Self

    from vgpumgr.controller.context import Context
    from vgpumgr.core.inventory import HostDeclaration
    from vgpumgr.core.usage.sampling import HostReading
    from vgpumgr.link.host import Host
    from vgpumgr.names import HostName

PATIENCE_S = 30.0
SETTLE_S = 2.0  # between a baseline and the reading that measures from it; the driver samples several times a second
LOCK_WAIT_S = 5.0  # a host that is being changed for longer has a gap
_WORKERS = 64


class Sampler:
    """Reads these hosts again and again; a context manager, which closes the connections.

    `cursors`: up to where they were read before. `patience_s`: how long a round waits for a host.
    """

    def __init__(
        self,
        context: Context,
        hosts: Sequence[HostDeclaration],
        cursors: Mapping[HostName, Cursor] | None = None,
        *,
        patience_s: float = PATIENCE_S,
    ) -> None:
        turns = threading.BoundedSemaphore(_WORKERS)
        self._hosts = [_Host(context, host, (cursors or {}).get(host.name, Cursor()), turns) for host in hosts]
        self._patience_s = patience_s

    def round(self) -> tuple[Round, ...]:
        """Read every host once, in bounded parallel, in their order. A host that fails, or is late, is a Round of its own."""
        begun = time.time()
        until = time.monotonic() + self._patience_s
        for host in self._hosts:
            host.begin()
        return tuple(host.wait(max(0.0, until - time.monotonic()), begun) for host in self._hosts)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for host in self._hosts:
            host.close()


class _Host:
    """One host: its connection, its cursor, and the reading that is under way."""

    def __init__(
        self, context: Context, declaration: HostDeclaration, cursor: Cursor, turns: threading.BoundedSemaphore
    ) -> None:
        self._context = context
        self._declaration = declaration
        self._cursor = cursor
        self._turns = turns
        self._link: Host | None = None
        self._running: Bounded[Round] | None = None
        self._closed = False

    def begin(self) -> None:
        """Start to read, unless an earlier reading is not done yet: then that is this round's."""
        if self._running is None:
            self._running = Bounded(self._read, name=f"sample-{self._declaration.name}")

    def wait(self, seconds: float, begun: float) -> Round:
        """The reading's round; one that says that the host is late where it is not done in time."""
        assert self._running is not None
        try:
            done = self._running.result(seconds)
        except TimeoutError:
            late = errors.HostDeadline(
                self._declaration.name,
                "run",
                f"no answer for {time.time() - begun:.0f} s, and still waited for",
                hint=f"the host hangs or is overloaded; `vgpumgr discover {self._declaration.name}` says at which stage",
            )
            return Round(
                host=self._declaration.name,
                at=begun,
                seconds=time.time() - begun,
                reading=None,
                measured=(),
                cursor=self._cursor,
                error=type(late).__name__,
                failure=late,
            )
        self._running = None
        return done

    def close(self) -> None:
        """Close the connection; a reading under way fails soon."""
        self._closed = True
        link, self._link = self._link, None
        if link is None:
            return
        if self._running is not None and not self._running.done:
            link.abort()
        link.close()

    def _read(self) -> Round:
        begun, started = time.time(), time.monotonic()
        measured: tuple[sampling.Measured, ...] = ()
        reading: HostReading | None = None
        error: errors.VgpumgrError | None = None
        try:
            with self._turns:
                reading, measured = self._take()
            if sampling.unmeasured(reading, measured) and not self._closed:
                time.sleep(SETTLE_S)
                with self._turns:
                    reading, more = self._take()
                measured += more
        except errors.VgpumgrError as failed:
            error, reading = failed, None
            self._drop(failed)
        except Exception as failed:  # noqa: BLE001 -- what is odd about one host is that host's failed round
            error, reading = errors.Unexpected.of(failed, about=self._declaration.name), None
            self._drop(error)
        return Round(
            host=self._declaration.name,
            at=begun,
            seconds=time.monotonic() - started,
            reading=reading,
            measured=measured,
            cursor=self._cursor,
            error=None if error is None else type(error).__name__,
            failure=error,
        )

    def _take(self) -> tuple[HostReading, tuple[sampling.Measured, ...]]:
        link = self._link or self._connect()
        wait_s = min(LOCK_WAIT_S, self._context.lock_wait_s)
        reading = link.sample(since=self._cursor.since(), wait_s=wait_s)
        measured, self._cursor = sampling.advance(self._cursor, reading)
        return reading, measured

    def _connect(self) -> Host:
        link = self._context.connect(self._declaration.endpoint, hypervisor=False)
        if self._closed:  # the end came while it was being reached
            link.close()
            raise errors.Unreachable(self._declaration.name, "run", "no longer wanted")
        self._link = link
        return link

    def _drop(self, failed: errors.VgpumgrError) -> None:
        """After a failure the next round begins with a new connection; a busy host's is as good as ever."""
        link = self._link
        if link is not None and not isinstance(failed, errors.Busy):
            self._link = None
            link.close()
