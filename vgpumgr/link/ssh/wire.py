"""What carries one SSH connection: a TCP socket here; through a jump host, a channel of its connection (tunnel.py).

We have sent our version line before paramiko gets the socket. paramiko sends the same line first: that one is left
out.
"""

from __future__ import annotations

import contextlib
import select
import socket
import sys
from typing import TYPE_CHECKING, NamedTuple, Protocol

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

VERSION = "SSH-2.0-vgpumgr"
LINE = f"{VERSION}\r\n".encode("ascii")
PEEK_BYTES = 1024  # RFC 4253 4.2 allows lines before the version, but a kilobyte of them is not an SSH server
_QUICKACK: int | None = getattr(socket, "TCP_QUICKACK", None)  # Linux only
_MIN_RTT = slice(148, 152)  # of the kernel's struct tcp_info: tcpi_min_rtt, in microseconds
_FAR_US = 30_000


class Peeked(NamedTuple):
    """`seen`: the bytes that have arrived so far, which will be read again. `closed`: whether nothing more comes."""

    seen: bytes
    closed: bool


class Wire(Protocol):
    """A socket with the methods that paramiko needs (the first four) and those that we need."""

    def recv(self, bufsize: int, /) -> bytes: ...
    def send(self, data: bytes, /) -> int: ...
    def settimeout(self, value: float | None, /) -> None: ...
    def close(self) -> None: ...

    def peek(self, timeout_s: float) -> Peeked | None:
        """Wait until something has arrived, and return it without taking it.

        None if nothing arrived within `timeout_s`. Raises OSError.
        """

    def shut(self) -> None:
        """End the connection in both directions. That wakes threads that read or write. Never blocks for long."""

    @property
    def is_far(self) -> bool:
        """Whether a round trip costs more than starting the host program from its sources; False if that is unknown."""

    @property
    def broken_at(self) -> str | None:
        """The jump host whose loss has ended this connection; None if there is none."""

    def find_silent(self) -> str | None:
        """Find the jump host that no longer answers; None if all do. It takes a second or two: for after a timeout."""


class SshSocket(socket.socket):
    """A socket on which VERSION has been sent.

    It acknowledges data at once. Without a terminal sshd leaves Nagle's algorithm on: the second of two small packets
    waits for our acknowledgement of the first, which the kernel would delay by 40 ms. The first channel of each
    connection would wait like that, too, behind the server's list of host keys. The kernel forgets the option (tcp(7)),
    so it is set each time.
    """

    _at_start = True
    broken_at: str | None = None

    def recv(self, bufsize: int, flags: int = 0, /) -> bytes:
        data = super().recv(bufsize, flags)
        if _QUICKACK is not None:
            self.setsockopt(socket.IPPROTO_TCP, _QUICKACK, 1)
        return data

    def send(self, data: ReadableBuffer, flags: int = 0, /) -> int:
        if not self._at_start:
            return super().send(data, flags)
        self._at_start = False
        return instead_of_version(data)

    def peek(self, timeout_s: float) -> Peeked | None:
        poll = select.poll()
        poll.register(self, select.POLLIN | select.POLLRDHUP)
        events = poll.poll(timeout_s * 1000)
        if not events:
            return None
        data = self.recv(PEEK_BYTES, socket.MSG_PEEK)
        ended = select.POLLRDHUP | select.POLLHUP | select.POLLERR
        return Peeked(data, closed=bool(events[0][1] & ended) or not data)

    def find_silent(self) -> str | None:
        return None

    def shut(self) -> None:
        with contextlib.suppress(OSError):
            self.shutdown(socket.SHUT_RDWR)

    @property
    def is_far(self) -> bool:
        try:
            data = self.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _MIN_RTT.stop)
        except OSError:
            return False
        return len(data) == _MIN_RTT.stop and int.from_bytes(data[_MIN_RTT], sys.byteorder) > _FAR_US


def instead_of_version(data: ReadableBuffer) -> int:
    """Drop paramiko's first line, which has been sent already, and return its length.

    Raises ConnectionError if it is another line.
    """
    if bytes(data) != LINE:
        raise ConnectionError(f"not the version line: {bytes(data)[:120]!r}")
    return len(LINE)
