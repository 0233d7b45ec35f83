"""From a host's address to a TCP connection on which an SSH server has answered: the stages dns, tcp and banner.

It uses its own sockets, so that each stage has a separate deadline and message: a name server that does not answer must
not look like an SSH server that hangs.

Our own version line is sent at once, as RFC 4253 (4.2) allows: the server's part of the key exchange then follows
its version directly, one round trip sooner.
"""

from __future__ import annotations

import contextlib
import socket
import time
from typing import TYPE_CHECKING, NamedTuple

from vgpumgr.errors import HostDeadline, Unreachable
from vgpumgr.link import stages
from vgpumgr.link.deadlines import Deadline, bounded, humanize
from vgpumgr.link.host_text import clean
from vgpumgr.link.ssh.wire import LINE, PEEK_BYTES, SshSocket
from vgpumgr.wording import Own, say

if TYPE_CHECKING:
    from vgpumgr.core.model.endpoint import Endpoint
    from vgpumgr.link.ssh.wire import Wire
    from vgpumgr.timing import Deadlines

_DROPPED = (
    "dropped before the banner: MaxStartups, or is this address blocked (a firewall, fail2ban)? See the host's sshd log"
)
# What OpenSSH sends before it drops a connection: until 9.7 for MaxStartups, since then for both reasons.
_FULL = "raise MaxStartups in its sshd_config, or find out who else connects there"
_SAID_AT_DROP = {
    b"Exceeded MaxStartups": _FULL,
    b"Not allowed at this time": f"{_FULL}; or this address is blocked for a while after logins that failed (PerSourcePenalties)",
}


class _Address(NamedTuple):
    family: int
    sockaddr: tuple[str | int, ...] | tuple[int, bytes]

    def __str__(self) -> str:
        return str(self.sockaddr[0])


def dial(endpoint: Endpoint, deadlines: Deadlines) -> SshSocket:
    """A connected socket on which the peer's SSH version line has arrived, still unread. Raises Unreachable."""
    stages.enter(endpoint.host, "dns")
    addresses = _resolve(endpoint, deadlines.dns)
    stages.enter(endpoint.host, "tcp")
    wire = _connect_first(endpoint, addresses, deadlines.tcp)
    try:
        await_banner(endpoint, wire, deadlines.banner)
    except BaseException:
        wire.close()
        raise
    return wire


def _resolve(endpoint: Endpoint, timeout_s: float) -> list[_Address]:
    def look_up(flags: int = 0) -> list[_Address]:
        rows = socket.getaddrinfo(endpoint.address, endpoint.port, type=socket.SOCK_STREAM, flags=flags)
        return [_Address(family, sockaddr) for family, _, _, _, sockaddr in rows]

    with contextlib.suppress(socket.gaierror, UnicodeError):
        return look_up(socket.AI_NUMERICHOST)
    try:
        return bounded(look_up, timeout_s, name="dns")
    except TimeoutError as error:
        raise HostDeadline(
            endpoint.host,
            "dns",
            say("no answer for {} within {}", Own(endpoint.address), humanize(timeout_s)),
            hint="check the name servers (/etc/resolv.conf), or put the address into ansible_host",
        ) from error
    except (socket.gaierror, UnicodeError) as error:
        why = error.strerror if isinstance(error, socket.gaierror) else "not a valid name"
        raise Unreachable(
            endpoint.host,
            "dns",
            say("{}: {}", Own(endpoint.address), why),
            hint="check the address in the inventory (ansible_host, ProxyJump), or the name server",
        ) from error


def _connect_first(endpoint: Endpoint, addresses: list[_Address], timeout_s: float) -> SshSocket:
    """Connect to the first address that accepts; each gets a share of the remaining time."""
    deadline = Deadline(timeout_s)
    failures: list[tuple[_Address, OSError]] = []
    for position, address in enumerate(addresses):
        share = deadline.remaining() / (len(addresses) - position)
        try:
            return _connect(address, share)
        except OSError as error:
            failures.append((address, error))
    only_slow = all(isinstance(error, TimeoutError) for _, error in failures)
    port = Own(f"port {endpoint.port}")
    details = [say("{} {}: {}", Own(address), port, _reason(error)) for address, error in failures]
    if only_slow:
        raise HostDeadline(
            endpoint.host,
            "tcp",
            say("{} {} timed out after {}", Own(endpoint.address), port, humanize(timeout_s)),
            hint="is the host up, and does a firewall let SSH through?",
            details=details,
        )
    _, last = failures[-1]
    if isinstance(last, ConnectionResetError | BrokenPipeError):
        # A reset during TCP's handshake shows as a refusal, so this one came right after it, before we could look.
        raise Unreachable(endpoint.host, "banner", _reason(last), hint=_DROPPED) from last
    hint = "is sshd running on that host, and on that port?" if isinstance(last, ConnectionRefusedError) else None
    raise Unreachable(
        endpoint.host,
        "tcp",
        say("{} {}: {}", Own(endpoint.address), port, _reason(last)),
        hint=hint or "check the address, the route and the firewall",
        details=details if len(details) > 1 else (),
    ) from last


def _connect(address: _Address, timeout_s: float) -> SshSocket:
    connection = SshSocket(address.family, socket.SOCK_STREAM)
    try:
        connection.settimeout(max(timeout_s, 0.001))
        # Each request is one small line that waits for its answer: Nagle's algorithm would delay it.
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        connection.connect(address.sockaddr)
        connection.sendall(LINE)
    except BaseException:
        connection.close()
        raise
    return connection


def _reason(error: OSError) -> str:
    if isinstance(error, TimeoutError):
        return "timed out"
    return (error.strerror or str(error)).lower()


def await_banner(endpoint: Endpoint, wire: Wire, timeout_s: float) -> None:
    """Return once the version line has arrived. This only peeks: paramiko reads it."""
    stages.enter(endpoint.host, "banner")
    deadline = Deadline(timeout_s)
    data = b""
    while not deadline.expired:
        try:
            peek = wire.peek(deadline.remaining())
        except OSError as error:
            raise Unreachable(endpoint.host, "banner", f"{_reason(error)}", hint=_DROPPED) from error
        if peek is None:
            break
        data, is_closed = peek
        if data.startswith(b"SSH-") or b"\nSSH-" in data:
            return
        if is_closed or len(data) >= PEEK_BYTES:
            raise _not_ssh(endpoint, data, is_closed=is_closed)
        # Peeked bytes stay readable, so peek() may return at once; this short sleep is the only wait.
        time.sleep(min(0.02, deadline.remaining()))
    if data:
        raise _not_ssh(endpoint, data, is_closed=False)
    raise HostDeadline(
        endpoint.host,
        "banner",
        say("TCP connects, but no SSH banner within {}", humanize(timeout_s)),
        hint="sshd there hangs or is overloaded, or another service listens on that port",
    )


def _not_ssh(endpoint: Endpoint, data: bytes, *, is_closed: bool) -> Unreachable:
    if not data:
        return Unreachable(endpoint.host, "banner", "the connection was closed", hint=_DROPPED)
    if is_closed:
        hint = _SAID_AT_DROP.get(data.strip())
        if hint is not None:
            return Unreachable(endpoint.host, "banner", f"sshd drops the connection: {clean(data.decode())}", hint=hint)
        return Unreachable(endpoint.host, "banner", f"the connection was closed after {data[:120]!r}", hint=_DROPPED)
    return Unreachable(
        endpoint.host,
        "banner",
        say("no SSH server on {}: the first bytes were {}", Own(f"port {endpoint.port}"), repr(data[:120])),
        hint="check the port in the inventory",
    )
