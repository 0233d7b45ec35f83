"""The pump: this program's stdin and stdout joined to libvirt's socket, for hosts without virt-ssh-helper.

Each direction has one buffer, filled only while it is empty: a slow reader slows the other end, and nothing else. The pump
ends as soon as libvirt has ended and its bytes are delivered, or nobody reads any more. After the controller's end of input,
which is passed on, it runs a little longer, so that libvirt can answer earlier requests.
"""

import os
import select
import socket
import time
from typing import Dict, Optional

from .files import Root

SOCKETS = ("/run/libvirt/virtqemud-sock", "/run/libvirt/libvirt-sock")
GRACE_S = 5.0  # for libvirt to end after our end of input; a libvirtd that hangs never would

_CHUNK = 256 * 1024


def run_pump(root: Root, stdin: int, stdout: int) -> int:
    """Join the two and return the exit status. Raises OSError if libvirt's socket cannot be reached."""
    with connect(root) as libvirt:
        server = libvirt.fileno()
        for descriptor in (stdin, stdout, server):
            os.set_blocking(descriptor, False)
        there = _Way(stdin, server)
        back = _Way(server, stdout)
        _copy(libvirt, there, back)
    return 0


def connect(root: Root) -> socket.socket:
    """The modular daemon's socket if there is one, else libvirtd's, as virt-ssh-helper does."""
    paths = [root.path(path) for path in SOCKETS]
    path = next((each for each in paths if os.path.exists(each)), paths[-1])
    libvirt = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        libvirt.connect(path)
    except OSError as error:
        libvirt.close()
        raise OSError(error.errno, error.strerror, path) from error
    return libvirt


class _Way:
    """Bytes from one descriptor to another."""

    def __init__(self, source: int, sink: int) -> None:
        self.source = source
        self.sink = sink
        self.ended = False  # the source has nothing more
        self.broken = False  # the sink takes nothing more
        self.held = b""  # read, and not yet written

    @property
    def done(self) -> bool:
        return self.broken or (self.ended and not self.held)

    @property
    def waits_for(self) -> Optional[int]:
        """The descriptor that has to be ready next."""
        if self.done:
            return None
        return self.sink if self.held else self.source

    def go_on(self) -> None:
        """Move what can be moved without waiting."""
        try:
            if not self.held and not self.ended:
                self.held = os.read(self.source, _CHUNK)
                self.ended = not self.held
        except BlockingIOError:
            return
        except OSError:  # a connection that was reset has ended
            self.ended = True
        try:
            if self.held:
                self.held = self.held[os.write(self.sink, self.held) :]
        except BlockingIOError:
            return
        except OSError:
            self.broken = True


def _copy(libvirt: socket.socket, there: _Way, back: _Way) -> None:
    until: Optional[float] = None
    while not back.done:
        if there.done and until is None:
            until = time.monotonic() + GRACE_S
            _end_of_input(libvirt)
        left = None if until is None else until - time.monotonic()
        if left is not None and left <= 0:
            return
        poll = select.poll()
        for descriptor, events in _events(there, back).items():
            poll.register(descriptor, events)
        poll.poll(None if left is None else left * 1000)
        there.go_on()
        back.go_on()


def _events(*ways: _Way) -> Dict[int, int]:
    """The events to wait for on each descriptor; libvirt's socket, and sshd's, are both a source and a sink."""
    events: Dict[int, int] = {}
    for way in ways:
        if way.waits_for is not None:
            event = select.POLLOUT if way.held else select.POLLIN
            events[way.waits_for] = events.get(way.waits_for, 0) | event
    return events


def _end_of_input(libvirt: socket.socket) -> None:
    try:
        libvirt.shutdown(socket.SHUT_WR)
    except OSError:  # it has closed already; its earlier bytes must still be delivered
        return
