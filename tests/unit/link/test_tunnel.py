"""The tunnel's own end: a socket without a file, which only this process may use."""

from __future__ import annotations

import contextlib
import queue
import socket
import subprocess
import sys
from typing import TYPE_CHECKING, cast

import pytest

from tests.unit.link.conftest import wait_for
from vgpumgr.link.tunnel import Tunnel

if TYPE_CHECKING:
    from collections.abc import Iterator

    from vgpumgr.link.ssh import SshConnection

# What anybody on the machine can do: find the name in /proc, connect, and listen for what libvirt's client would be told.
STRANGER = """
import socket, sys
one = socket.socket(socket.AF_UNIX)
one.settimeout(10)
one.connect(b"\\0" + sys.argv[1].encode().ljust(107, b"\\0"))
sys.exit(len(one.recv(100)))
"""


class FarEnd:
    """virt-ssh-helper and the SSH connection to it: what was sent, and what it says, one word."""

    def __init__(self) -> None:
        self.sent: queue.Queue[bytes] = queue.Queue()
        self.says: queue.Queue[bytes] = queue.Queue()

    def run(self, _command: str, **_: object) -> FarEnd:
        return self

    def send(self, data: bytes) -> None:
        self.sent.put(data)

    def receive(self) -> bytes:
        return self.says.get(timeout=10)

    def exit_status(self, _timeout_s: float) -> int:
        return 0

    def stderr(self) -> str:
        return ""


@pytest.fixture
def far() -> FarEnd:
    return FarEnd()


@pytest.fixture
def tunnel(far: FarEnd) -> Iterator[Tunnel]:
    one = Tunnel(cast("SshConnection", far), timeout_s=10)
    yield one
    far.says.put(b"")
    one.cut()
    wait_for(lambda: one.ended, 5)


@contextlib.contextmanager
def connected(tunnel: Tunnel) -> Iterator[socket.socket]:
    """As libvirt's client connects: with all bytes of sun_path."""
    with socket.socket(socket.AF_UNIX) as one:
        one.settimeout(10)
        one.connect(b"\0" + tunnel.path[1:].encode().ljust(107, b"\0"))
        yield one


def test_a_stranger_that_finds_the_name_is_hung_up_on_and_libvirt_comes_through(tunnel: Tunnel, far: FarEnd) -> None:
    done = subprocess.run([sys.executable, "-I", "-c", STRANGER, tunnel.path[1:]], check=False, timeout=30)
    assert done.returncode == 0, "it was told something"
    with connected(tunnel) as ours:
        ours.sendall(b"hello")
        assert far.sent.get(timeout=10) == b"hello"
        far.says.put(b"welcome")
        assert ours.recv(100) == b"welcome"


def test_once_libvirt_has_connected_the_name_is_gone(tunnel: Tunnel, far: FarEnd) -> None:
    with connected(tunnel) as ours:
        ours.sendall(b"hello")
        assert far.sent.get(timeout=10) == b"hello"
        with pytest.raises(ConnectionRefusedError), connected(tunnel):
            pass
