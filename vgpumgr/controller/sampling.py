"""Reads GPU usage in rounds over many hosts, whose connections stay open between rounds.

A host that hangs does not delay the others: the round goes on without it, and it is not read until it has answered.
"""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING

from vgpumgr import errors
from vgpumgr.core.commands import command
from vgpumgr.core.usage import readings
from vgpumgr.core.usage.readings import Cursor, Round
from vgpumgr.link.deadlines import Bounded
from vgpumgr.wording import Own, say

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from types import TracebackType
    from typing import Self

    from vgpumgr.controller.context import Context
    from vgpumgr.core.inventory import HostDeclaration
    from vgpumgr.core.usage.readings import HostReading
    from vgpumgr.link.host import Host
    from vgpumgr.names import HostName

_WORKERS = 64


class Sampler:
    """Reads these hosts repeatedly. It is a context manager that closes the connections at its end.

    `cursors`: how far each host was read before. `round_timeout_s`: how long a round waits for a host; None: as long as
    the context says.
    """

    def __init__(
        self,
        context: Context,
        hosts: Sequence[HostDeclaration],
        cursors: Mapping[HostName, Cursor] | None = None,
        *,
        round_timeout_s: float | None = None,
    ) -> None:
        turns = threading.BoundedSemaphore(_WORKERS)
        self._hosts = [_Host(context, host, (cursors or {}).get(host.name, Cursor()), turns) for host in hosts]
        self._round_timeout_s = context.timing.round_timeout_s if round_timeout_s is None else round_timeout_s

    def round(self) -> tuple[Round, ...]:
        """Read all hosts once, a limited number at a time. Returns one Round per host, in order, even if it failed."""
        begun = time.time()
        until = time.monotonic() + self._round_timeout_s
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
    """One host: its connection, its cursor, and the current reading."""

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
        """Start to read. If an earlier reading is not done yet, that one counts for this round."""
        if self._running is None:
            self._running = Bounded(self._read, name=f"sample-{self._declaration.name}")

    def wait(self, seconds: float, begun: float) -> Round:
        """The reading's round, or one that reports the host as late if the reading is not done in time."""
        assert self._running is not None
        try:
            done = self._running.result(seconds)
        except TimeoutError:
            late = errors.HostDeadline(
                self._declaration.name,
                "run",
                say("no answer for {}; still waiting", Own(f"{time.time() - begun:.0f} s")),
                hint=say(
                    "the host hangs or is overloaded; `{}` shows at which stage",
                    command("discover", self._declaration.name),
                ),
            )
            return self._round(begun, time.time() - begun, failure=late)
        self._running = None
        return done

    def close(self) -> None:
        """Close the connection; the current reading soon fails."""
        self._closed = True
        link, self._link = self._link, None
        if link is None:
            return
        if self._running is not None and not self._running.done:
            link.abort()
        link.close()

    def _read(self) -> Round:
        begun, started = time.time(), time.monotonic()
        measured: tuple[readings.Measured, ...] = ()
        reading: HostReading | None = None
        error: errors.VgpumgrError | None = None
        try:
            with self._turns:
                reading, measured = self._take()
            if readings.unmeasured(reading, measured) and not self._closed:
                time.sleep(self._context.timing.sample_settle_s)
                with self._turns:
                    reading, more = self._take()
                measured += more
        except errors.VgpumgrError as failed:
            error, reading = failed, None
            self._drop(failed)
        except Exception as failed:  # noqa: BLE001 -- an unexpected error with one host is that host's failed round
            error, reading = errors.Unexpected.of(failed, host=self._declaration.name), None
            self._drop(error)
        return self._round(begun, time.monotonic() - started, reading, measured, failure=error)

    def _round(
        self,
        begun: float,
        seconds: float,
        reading: HostReading | None = None,
        measured: tuple[readings.Measured, ...] = (),
        *,
        failure: errors.VgpumgrError | None,
    ) -> Round:
        return Round(
            host=self._declaration.name,
            at=begun,
            seconds=seconds,
            reading=reading,
            measured=measured,
            cursor=self._cursor,
            error=None if failure is None else type(failure).__name__,
            failure=failure,
        )

    def _take(self) -> tuple[HostReading, tuple[readings.Measured, ...]]:
        link = self._link or self._connect()
        timing = self._context.timing
        wait_s = min(timing.sample_lock_wait_s, timing.lock_wait_s)
        reading = link.sample(since=self._cursor.since(), wait_s=wait_s)
        measured, self._cursor = readings.advance(self._cursor, reading)
        return reading, measured

    def _connect(self) -> Host:
        link = self._context.connect(self._declaration.endpoint)
        if self._closed:  # the end came during the connection attempt
            link.close()
            raise errors.Unreachable(self._declaration.name, "run", "no longer wanted")
        self._link = link
        return link

    def _drop(self, failed: errors.VgpumgrError) -> None:
        """Close the connection after a failure, so that the next round makes a new one; but not if the host is busy."""
        link = self._link
        if link is not None and not isinstance(failed, errors.Busy):
            self._link = None
            link.close()
