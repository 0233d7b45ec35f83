"""The host program, answering the controller's requests over its stdin and stdout.

`main` reads descriptor 0 directly. So the loader, which reads this program from its stdin, must use os.read, and must
not read beyond the program's last byte.
"""

import json
import os
import select
import signal
import sys
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Callable, NoReturn, Optional

from .facts.boot import boot_id
from .files import Root, Unknowns
from .protocol.session import BAD_REQUEST, EXIT_LEASE, LEASE_S, MAGIC, MAX_LINE_BYTES, PROTOCOL, Hello
from .refusal import PeerGone

if TYPE_CHECKING:
    from .server import Server

_CHUNK = 64 * 1024


def main() -> NoReturn:
    """The loader's entry point."""
    sys.exit(run())


def run(stdin: int = 0, stdout: int = 1) -> int:
    """Answer until the input ends. Returns the exit status."""
    end_on_signals()
    if stdout == 1:
        # Output of a library must not get between our lines.
        stdout = os.dup(1)
        os.dup2(2, 1)
    channel = Channel(stdin, stdout)
    return serve(lambda: _import_server(channel), channel)


def end_on_signals() -> None:
    """Let the kernel end us at once, and release the lock, even in the middle of a call into a driver."""
    for number in (signal.SIGHUP, signal.SIGPIPE, signal.SIGTERM, signal.SIGINT):
        signal.signal(number, signal.SIG_DFL)


def _import_server(channel: "Channel") -> "Server":
    from .facts.nvml import load_binding
    from .server import Server

    with suppress(Exception):  # the first request that needs it will say so
        load_binding()
    return Server(gone=channel.hung_up)


def greeting(root: Root) -> bytes:
    hello: Hello = {
        "protocol": PROTOCOL,
        "pid": os.getpid(),
        "euid": os.geteuid(),
        "python": ".".join(map(str, sys.version_info[:3])),
        "boot": boot_id(root, Unknowns()),
    }
    return (MAGIC + json.dumps(hello, separators=(",", ":")) + "\n").encode("ascii")


class Silence(Exception):
    """No line arrived, or none could be delivered, in time."""


class TooLong(Exception):
    """A line exceeded MAX_LINE_BYTES."""


class Channel:
    """Lines from one descriptor, answers to another, each with a deadline."""

    def __init__(self, stdin: int, stdout: int) -> None:
        self._in = stdin
        self._out = stdout
        self._buffer = bytearray()
        os.set_blocking(stdout, False)  # a controller that is stopped must not hold us, and our lock, in a write

    def hung_up(self, seconds: float) -> bool:
        """Wait up to `seconds`; True as soon as the other end has closed its side. Reads nothing."""
        poll = select.poll()
        poll.register(self._in, select.POLLRDHUP)
        return bool(poll.poll(seconds * 1000))

    def receive(self, within_s: Optional[float]) -> Optional[bytes]:
        """The next line, None at the end of input. Raises Silence, TooLong."""
        until = None if within_s is None else time.monotonic() + within_s
        offset = 0
        while True:
            end = self._buffer.find(b"\n", offset)
            if end >= 0:
                line = bytes(self._buffer[:end])
                del self._buffer[: end + 1]
                return line
            offset = len(self._buffer)
            if offset > MAX_LINE_BYTES:
                raise TooLong
            _wait(self._in, select.POLLIN, until)
            try:
                piece = os.read(self._in, _CHUNK)
            except BlockingIOError:
                continue
            if not piece:
                return None
            self._buffer += piece

    def send(self, line: bytes, within_s: float) -> None:
        """Deliver a line. Raises Silence, or OSError if nobody reads any more."""
        until = time.monotonic() + within_s
        rest = memoryview(line)
        while rest:
            try:
                rest = rest[os.write(self._out, rest) :]
            except BlockingIOError:
                _wait(self._out, select.POLLOUT, until)


def _wait(descriptor: int, event: int, until: Optional[float]) -> None:
    poll = select.poll()
    poll.register(descriptor, event)
    while True:
        remaining_s = None if until is None else max(0.0, until - time.monotonic())
        if poll.poll(None if remaining_s is None else remaining_s * 1000):
            return
        if remaining_s is not None and remaining_s <= 0:
            raise Silence


def serve(
    start: "Callable[[], Server]",
    channel: Channel,
    *,
    lease_s: float = LEASE_S,
    root: Optional[Root] = None,
) -> int:
    """Greet, start the server, answer line by line until the input ends, release the lock. Returns the exit status.

    The server is imported after the greeting is sent, while a distant controller's first request is on its way.
    A controller changes this host only through this program. So after the program has ended, a controller that was
    suspended past its lease can change nothing more.
    """
    try:
        channel.send(greeting(root or Root()), lease_s)
    except Silence:
        return EXIT_LEASE
    except ConnectionError:
        return 0
    server = start()
    try:
        while True:
            line = channel.receive(lease_s if server.locked else None)
            if line is None:
                return 0
            channel.send(server.answer(line), lease_s)
    except TooLong:
        refusal = {
            "id": None,
            "err": {"kind": BAD_REQUEST, "message": "the line is longer than {} bytes".format(MAX_LINE_BYTES)},
        }
        channel.send(json.dumps(refusal).encode("ascii") + b"\n", lease_s)
        return 1
    except Silence:
        return EXIT_LEASE
    except (PeerGone, BrokenPipeError, ConnectionError):
        return 0
    finally:
        server.close()
