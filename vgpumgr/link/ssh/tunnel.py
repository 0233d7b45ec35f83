"""A wire through a jump host: a channel of its connection."""

from __future__ import annotations

import contextlib
import threading
from typing import TYPE_CHECKING, Any, Protocol

from vgpumgr.link.deadlines import Bounded, bounded
from vgpumgr.link.ssh.wire import LINE, PEEK_BYTES, Peeked, instead_of_version

if TYPE_CHECKING:
    from collections.abc import Callable

    from vgpumgr.link.ssh.wire import Wire

_CLOSE_S = 1.0
_PULSE_S = 1.0
# RFC 4254 5.1
_OPEN_FAILURE = 92
_PROHIBITED = 1


class Carrier(Protocol):
    """The connection to the jump host, with what the connection through it needs."""

    pulse: Pulse
    wire: Wire

    @property
    def alive(self) -> bool: ...
    @property
    def is_far(self) -> bool: ...


class Channel(Protocol):
    """The methods of paramiko's channel that we use."""

    def recv(self, nbytes: int, /) -> bytes: ...
    def send(self, data: bytes, /) -> int: ...
    def sendall(self, data: bytes, /) -> None: ...
    def settimeout(self, timeout: float | None, /) -> None: ...
    def close(self) -> None: ...


class Tunnel:
    """A Wire. When it is closed, `ended` is called once: it no longer needs the jump host's connection."""

    def __init__(
        self, channel: Channel, carrier: Carrier, name: str, *, timeout_s: float, ended: Callable[[], None]
    ) -> None:
        self._channel = channel
        self._carrier = carrier
        self._name = name
        self._ended = [ended]
        self._read_ahead = b""
        self._at_start = True
        channel.settimeout(timeout_s)
        try:
            channel.sendall(LINE)
        except EOFError as error:  # paramiko's word for a connection that ends while it writes
            raise ConnectionError("the connection was lost") from error

    def recv(self, bufsize: int, /) -> bytes:
        if self._read_ahead:
            piece, self._read_ahead = self._read_ahead[:bufsize], self._read_ahead[bufsize:]
            return piece
        return self._channel.recv(bufsize)

    def send(self, data: bytes, /) -> int:
        if not self._at_start:
            return self._channel.send(data)
        self._at_start = False
        return instead_of_version(data)

    def settimeout(self, value: float | None, /) -> None:
        self._channel.settimeout(value)

    def peek(self, timeout_s: float) -> Peeked | None:
        self._channel.settimeout(max(timeout_s, 0.001))
        try:
            more = self._channel.recv(PEEK_BYTES)
        except TimeoutError:
            return None
        self._read_ahead += more
        return Peeked(self._read_ahead, closed=not more)

    def shut(self) -> None:
        # Closing sends a message to the jump host, and blocks if the jump host no longer reads.
        # At the very end of the process there are no new threads (RuntimeError).
        with contextlib.suppress(TimeoutError, EOFError, OSError, RuntimeError):
            bounded(self._channel.close, _CLOSE_S, name="tunnel-end")

    def close(self) -> None:
        with contextlib.suppress(IndexError):  # paramiko's thread closes it too
            callback = self._ended.pop()
            self.shut()
            callback()

    @property
    def _closed(self) -> bool:
        """Whether it is closed. paramiko reads this attribute of sockets."""
        return not self._ended

    @property
    def is_far(self) -> bool:
        return self._carrier.is_far  # the rest of the way is not known

    @property
    def broken_at(self) -> str | None:
        return None if self._carrier.alive else self._carrier.wire.broken_at or self._name

    def find_silent(self) -> str | None:
        if self._carrier.pulse.answers():
            return None
        return self.broken_at or self._carrier.wire.find_silent() or self._name


class Pulse:
    """Whether a server still answers: `ask` returns once it does. Threads that ask meanwhile share one question."""

    def __init__(self, ask: Callable[[], object]) -> None:
        self._ask = ask
        self._turn = threading.Lock()
        self._asked: Bounded[object] | None = None

    def answers(self) -> bool:
        with self._turn:
            if self._asked is None or self._asked.done:
                self._asked = Bounded(self._ask, name="pulse")
            question = self._asked
        return question.wait(_PULSE_S)


class TunnelRefused(Exception):
    """The jump host could not connect, or sshd forbids it (`is_allowed` False). The text is the server's."""

    def __init__(self, text: str, *, is_allowed: bool) -> None:
        super().__init__(text)
        self.is_allowed = is_allowed


class Refusals:
    """Why a server refused to open a channel, separately for each thread that requested one.

    paramiko keeps one reason for all threads, and only its number, not the server's text. So this class replaces a
    handler of the Transport, and its function that numbers channels.
    """

    def __init__(self, transport: Any) -> None:
        self._told: dict[int, TunnelRefused] = {}
        self._own = threading.local()
        handlers, number = transport._handler_table, transport._next_channel  # noqa: SLF001 -- there is no other way
        handle = handlers[_OPEN_FAILURE]

        def tell(message: Any) -> None:
            channel, code, text = message.get_int(), message.get_int(), message.get_text()
            self._told[channel] = TunnelRefused(text, is_allowed=code != _PROHIBITED)
            message.rewind()
            handle(message)

        def give_number() -> int:
            self._own.channel = channel = number()
            return int(channel)

        handlers[_OPEN_FAILURE] = tell
        transport._next_channel = give_number  # noqa: SLF001 -- likewise

    def begin(self) -> None:
        """To be called before this thread requests a channel."""
        self._own.channel = None

    def take(self) -> TunnelRefused | None:
        """The reason for this thread's channel; None if the server said nothing."""
        return self._told.pop(self._own.channel, None)


_FIRST = threading.Lock()


def refusals_of(transport: Any) -> Refusals:
    """The Refusals of that Transport, which all threads share."""
    with _FIRST:
        if not hasattr(transport, "vgpumgr_refusals"):
            transport.vgpumgr_refusals = Refusals(transport)
        refusals: Refusals = transport.vgpumgr_refusals
        return refusals
