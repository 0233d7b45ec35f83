"""Connections through jump hosts. All hosts of this process behind a jump host share one connection to it.

That connection is dialled once, however many threads ask for it, and closed a little after the last of those hosts,
since another may follow. A failure is remembered for a while: thousands of hosts behind a jump host that is down, or
that refuses our key, must not each try it again (MaxStartups, PerSourcePenalties).
"""

from __future__ import annotations

import atexit
import functools
import threading
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from vgpumgr.core.model.endpoint import Endpoint
from vgpumgr.errors import AuthenticationFailed, HostDeadline, HostKeyRefused, Unreachable
from vgpumgr.link import stages
from vgpumgr.link.deadlines import Bounded, Deadline, humanize
from vgpumgr.link.ssh import client, dial
from vgpumgr.link.ssh.tunnel import Tunnel, TunnelRefused
from vgpumgr.names import HostName
from vgpumgr.wording import Own, say

if TYPE_CHECKING:
    from collections.abc import Callable

    from vgpumgr.link.ssh.client import SshConnection
    from vgpumgr.timing import Deadlines

    Connect = Callable[[Endpoint, Deadlines], SshConnection]

IDLE_S = 5.0
# How long a failure is returned to everyone: the first only briefly, since every host retries once.
_FIRST_S, _AGAIN_S, _FINAL_S = 0.25, 5.0, 60.0
_SETTLE_S = 0.3  # a lost connection closes its channels a moment before it is recognised as lost


@dataclass(slots=True, eq=False)
class _Shared:
    """The connection to one jump host, open or in progress. `failures`: how many attempts in a row failed before it."""

    failures: int
    users: int = 0
    made: Bounded[SshConnection] = field(init=False)
    forgotten: Deadline | None = None  # when its failure is forgotten
    closing: threading.Timer | None = None

    @property
    def is_over(self) -> bool:
        """Whether a new connection is needed."""
        if not self.made.done:
            return False
        return self.forgotten.expired if self.forgotten is not None else not self.made.result(0).alive


class Jumps:
    """All jump hosts of a process. `connect` opens a connection to one."""

    def __init__(self, connect: Connect, *, idle_s: float = IDLE_S) -> None:
        self._connect = connect
        self._idle_s = idle_s
        self._lock = threading.Lock()
        self._shared: dict[Endpoint, _Shared] = {}

    def borrow(self, jump: Endpoint, deadlines: Deadlines) -> tuple[SshConnection, Callable[[], None]]:
        """The jump host's connection, and a function that gives it back. Raises its error, or HostDeadline."""
        with self._lock:
            shared = self._shared.get(jump)
            if shared is None or shared.is_over:
                shared = self._shared[jump] = self._make(jump, deadlines, shared)
            shared.users += 1
            if shared.closing is not None:
                shared.closing.cancel()
                shared.closing = None
        give_back = functools.partial(self._give_back, jump, shared)
        stages = (deadlines.dns, deadlines.tcp, deadlines.banner, deadlines.kex, deadlines.auth)
        limit = sum(stages) * (1 + len(jump.jumps))
        try:
            return shared.made.result(limit), give_back
        except TimeoutError as error:
            give_back()
            raise HostDeadline(jump.host, "tcp", say("no connection to it within {}", humanize(limit))) from error
        except BaseException:
            give_back()
            raise

    def close(self) -> None:
        """Close all connections. Those that go through other jump hosts are closed first."""
        with self._lock:
            items = sorted(self._shared.items(), key=lambda item: -len(item[0].jumps))
            self._shared.clear()
        for _, shared in items:
            _close(shared)

    def _make(self, jump: Endpoint, deadlines: Deadlines, previous: _Shared | None) -> _Shared:
        has_failed = previous is not None and previous.forgotten is not None
        shared = _Shared(previous.failures + 1 if previous is not None and has_failed else 0, users=1)

        def make() -> SshConnection:
            try:
                return self._connect(jump, deadlines)
            except BaseException as error:
                final = isinstance(error, AuthenticationFailed | HostKeyRefused)
                shared.forgotten = Deadline(_FINAL_S if final else _AGAIN_S if shared.failures else _FIRST_S)
                raise
            finally:
                self._give_back(jump, shared)

        shared.made = Bounded(make, name="jump")
        return shared

    def _give_back(self, jump: Endpoint, shared: _Shared) -> None:
        with self._lock:
            shared.users -= 1
            if shared.users == 0 and shared.forgotten is None:
                shared.closing = threading.Timer(self._idle_s, self._close_idle, (jump, shared))
                shared.closing.daemon = True
                shared.closing.start()

    def _close_idle(self, jump: Endpoint, shared: _Shared) -> None:
        with self._lock:
            if shared.users:
                return
            if self._shared.get(jump) is shared:
                del self._shared[jump]
        _close(shared)


def _close(shared: _Shared) -> None:
    if shared.made.done and shared.forgotten is None:
        shared.made.result(0).close()


def open_connection(endpoint: Endpoint, deadlines: Deadlines) -> SshConnection:
    """Connect, check the host's key and log in (client.py), through the endpoint's jump hosts if it has any."""
    if not endpoint.jumps:
        return client.open_connection(endpoint, deadlines)
    tunnels: list[Tunnel] = []

    def connect(endpoint: Endpoint, deadlines: Deadlines) -> Tunnel:
        tunnel = _tunnel_to(endpoint, deadlines)
        tunnels.append(tunnel)
        try:
            dial.await_banner(endpoint, tunnel, deadlines.banner)
        except BaseException:
            tunnel.close()
            raise
        return tunnel

    try:
        return client.open_connection(endpoint, deadlines, connect)
    except HostDeadline as error:
        silent = next(filter(None, (tunnel.find_silent() for tunnel in tunnels)), None)
        if silent is None:
            raise
        raise HostDeadline(endpoint.host, error.stage, "it no longer answers", via=silent) from error
    except Unreachable as error:
        # A refusal of the host is its own; anything else may come from the loss of what carries it.
        loss = next(filter(None, map(_find_loss, tunnels)), None) if type(error) is Unreachable else None
        if loss is None:
            raise
        raise Unreachable(endpoint.host, error.stage, "the connection was lost", via=loss) from error


def _find_loss(tunnel: Tunnel) -> str | None:
    deadline = Deadline(_SETTLE_S)
    while tunnel.broken_at is None and not deadline.expired:
        time.sleep(0.01)
    return tunnel.broken_at


_JUMPS = Jumps(open_connection)


def _tunnel_to(endpoint: Endpoint, deadlines: Deadlines) -> Tunnel:
    *jumps, last = endpoint.jumps
    jump = Endpoint(
        host=HostName(last.name),
        address=last.address,
        port=last.port,
        user=last.user,
        key_file=last.key_file or endpoint.key_file,
        certificate=last.certificate if last.key_file else endpoint.certificate,
        known_hosts=last.known_hosts or endpoint.known_hosts,
        site_known_hosts=last.site_known_hosts or endpoint.site_known_hosts,
        agent=last.agent or endpoint.agent,
        host_keys=last.host_keys,
        jumps=tuple(jumps),
    )
    try:
        stages.enter(endpoint.host, f"via {last.name}")
        carrier, give_back = _JUMPS.borrow(jump, deadlines)
        stages.enter(endpoint.host, "tcp")
    except Unreachable as error:
        raise error.seen_from(endpoint.host, last.name) from error
    try:
        return _open_tunnel(endpoint, carrier, last.name, deadlines.tcp, give_back)
    except BaseException:
        give_back()
        raise


def _open_tunnel(
    endpoint: Endpoint, carrier: SshConnection, name: str, timeout_s: float, give_back: Callable[[], None]
) -> Tunnel:
    host, target = endpoint.host, say("{} {}", Own(endpoint.address), Own(f"port {endpoint.port}"))
    try:
        channel = carrier.open_tunnel(endpoint.address, endpoint.port, timeout_s)
        return Tunnel(channel, carrier, name, timeout_s=timeout_s, ended=give_back)
    except TimeoutError as error:
        if not carrier.pulse.answers():
            silent = carrier.wire.find_silent() or name
            raise HostDeadline(host, "tcp", "it no longer answers", via=silent) from error
        raise HostDeadline(
            host,
            "tcp",
            say("{}, from {}: timed out after {}", target, name, humanize(timeout_s)),
            hint=f"is the host up, and does a firewall between {name} and it let SSH through?",
        ) from error
    except TunnelRefused as error:
        if not error.is_allowed:
            raise Unreachable(
                host,
                "tcp",
                say("its sshd does not forward to {}", target),
                via=name,
                hint="AllowTcpForwarding yes (or local) and PermitOpen in its sshd_config; no `restrict` without "
                "`port-forwarding` for the key",
            ) from error
        raise Unreachable(
            host,
            "tcp",
            say("{}, from {}: {}", target, name, str(error).lower() or "it could not connect"),
            hint=f"is sshd running on that host and port, and does {name} reach it?",
        ) from error
    except OSError as error:
        raise Unreachable(host, "tcp", "the connection was lost", via=carrier.wire.broken_at or name) from error


atexit.register(_JUMPS.close)
