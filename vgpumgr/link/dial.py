"""From a host's address to a TCP connection on which an SSH server has answered: the stages dns, tcp and banner.

It uses its own sockets, so that each stage has a separate deadline and message: a name server that does not answer must
not look like an SSH server that hangs.

Our own version line is sent at once, as RFC 4253 (4.2) allows: the server's part of the key exchange then comes right behind
its version, one round trip sooner.
"""

from __future__ import annotations

import contextlib
import select
import socket
import time
from typing import TYPE_CHECKING, NamedTuple

from vgpumgr.errors import HostDeadline, Unreachable
from vgpumgr.link.deadlines import Deadline, bounded, humanize

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

    from vgpumgr.core.model.endpoint import Endpoint
    from vgpumgr.link.deadlines import Deadlines

VERSION = "SSH-2.0-vgpumgr"
_LINE = f"{VERSION}\r\n".encode("ascii")
_PEEK_BYTES = 1024  # RFC 4253 4.2 allows lines before the version, but a kilobyte of them is not an SSH server
_DROPPED = "dropped before the banner: MaxStartups, or this address is blocked? see the host's sshd log"


class _Address(NamedTuple):
    family: int
    sockaddr: tuple[str | int, ...] | tuple[int, bytes]

    def __str__(self) -> str:
        return str(self.sockaddr[0])


class SshSocket(socket.socket):
    """A socket on which VERSION has been sent. paramiko sends it first, too: that is left out."""

    _at_start = True

    def send(self, data: ReadableBuffer, flags: int = 0, /) -> int:
        if not self._at_start:
            return super().send(data, flags)
        self._at_start = False
        if bytes(data) != _LINE:
            raise ConnectionError(f"not the version line: {bytes(data)[:120]!r}")
        return len(_LINE)


def dial(endpoint: Endpoint, deadlines: Deadlines) -> SshSocket:
    """A connected socket whose peer has sent its SSH version line, too (still unread). Raises Unreachable."""
    addresses = _resolve(endpoint, deadlines.dns)
    connected = _connect_first(endpoint, addresses, deadlines.tcp)
    try:
        _await_banner(endpoint, connected, deadlines.banner)
    except BaseException:
        connected.close()
        raise
    return connected


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
            f"no answer for {endpoint.address} within {humanize(timeout_s)}",
            hint="check the name servers (/etc/resolv.conf), or put the address into ansible_host",
        ) from error
    except (socket.gaierror, UnicodeError) as error:
        why = error.strerror if isinstance(error, socket.gaierror) else "not a valid name"
        raise Unreachable(
            endpoint.host,
            "dns",
            f"{endpoint.address}: {why}",
            hint="check ansible_host in the inventory, or the name server",
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
    details = [f"{address} port {endpoint.port}: {_reason(error)}" for address, error in failures]
    if only_slow:
        raise HostDeadline(
            endpoint.host,
            "tcp",
            f"{endpoint.address} port {endpoint.port} timed out after {humanize(timeout_s)}",
            hint="is the host up, and does a firewall let SSH through?",
            details=details,
        )
    _, last = failures[-1]
    if isinstance(last, ConnectionResetError | BrokenPipeError):
        # A reset during the handshake is a refusal; so this one came right after it, before we could look.
        raise Unreachable(endpoint.host, "banner", _reason(last), hint=_DROPPED) from last
    hint = "is sshd running on that host, and on that port?" if isinstance(last, ConnectionRefusedError) else None
    raise Unreachable(
        endpoint.host,
        "tcp",
        f"{endpoint.address} port {endpoint.port}: {_reason(last)}",
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
        connection.sendall(_LINE)
    except BaseException:
        connection.close()
        raise
    return connection


def _reason(error: OSError) -> str:
    if isinstance(error, TimeoutError):
        return "timed out"
    return (error.strerror or str(error)).lower()


def _await_banner(endpoint: Endpoint, connected: socket.socket, timeout_s: float) -> None:
    """Return once the version line has arrived. This only peeks: paramiko reads it."""
    deadline = Deadline(timeout_s)
    poll = select.poll()
    poll.register(connected, select.POLLIN | select.POLLRDHUP)
    seen = b""
    while not deadline.expired:
        events = poll.poll(deadline.remaining() * 1000)
        if not events:
            break
        try:
            seen = connected.recv(_PEEK_BYTES, socket.MSG_PEEK)
        except OSError as error:
            raise Unreachable(endpoint.host, "banner", f"{_reason(error)}", hint=_DROPPED) from error
        if seen.startswith(b"SSH-") or b"\nSSH-" in seen:
            return
        closed = bool(events[0][1] & (select.POLLRDHUP | select.POLLHUP | select.POLLERR)) or not seen
        if closed or len(seen) >= _PEEK_BYTES:
            raise _not_ssh(endpoint, seen, closed=closed)
        # Peeked bytes stay readable, so poll() returns at once; only here do we wait by a short sleep.
        time.sleep(min(0.02, deadline.remaining()))
    if seen:
        raise _not_ssh(endpoint, seen, closed=False)
    raise HostDeadline(
        endpoint.host,
        "banner",
        f"TCP connects, but no SSH banner within {humanize(timeout_s)}",
        hint="sshd there hangs or is overloaded, or another service listens on that port",
    )


def _not_ssh(endpoint: Endpoint, seen: bytes, *, closed: bool) -> Unreachable:
    if not seen:
        return Unreachable(endpoint.host, "banner", "the connection was closed", hint=_DROPPED)
    if closed:
        return Unreachable(endpoint.host, "banner", f"the connection was closed after {seen[:120]!r}", hint=_DROPPED)
    return Unreachable(
        endpoint.host,
        "banner",
        f"no SSH server on port {endpoint.port}: the first bytes were {seen[:120]!r}",
        hint="check ansible_port in the inventory",
    )
