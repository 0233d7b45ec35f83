"""The pump between the controller's channel and libvirt's socket."""

from __future__ import annotations

import os
import socket
import threading
from typing import TYPE_CHECKING

import pytest

from vgpumgr.host import pump
from vgpumgr.host.files import Root

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


class Ends:
    """A running pump: the controller's two pipe ends, and libvirt's end of the socket."""

    def __init__(self, root: Path, server: socket.socket) -> None:
        self.stdin_read, self.to_pump = os.pipe()
        self.from_pump, self.stdout_write = os.pipe()
        self.status: list[int] = []
        self.thread = threading.Thread(target=self._run, args=(root,), daemon=True)
        self.thread.start()
        self.libvirt, _ = server.accept()
        self.libvirt.settimeout(20)

    def _run(self, root: Path) -> None:
        self.status.append(pump.run_pump(Root(root), self.stdin_read, self.stdout_write))
        os.close(self.stdin_read)
        os.close(self.stdout_write)

    def ended(self) -> bool:
        self.thread.join(20)
        return self.status == [0]

    def read_all(self) -> bytes:
        pieces = []
        while piece := os.read(self.from_pump, 1 << 20):
            pieces.append(piece)
        return b"".join(pieces)


@pytest.fixture
def ends(tmp_path: Path) -> Iterator[Ends]:
    (tmp_path / "run/libvirt").mkdir(parents=True)
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(tmp_path / "run/libvirt/libvirt-sock"))
        server.listen()
        both = Ends(tmp_path, server)
        yield both
        both.libvirt.close()
        for descriptor in (both.to_pump, both.from_pump):
            if descriptor >= 0:
                os.close(descriptor)


def hang_up(ends: Ends) -> None:
    os.close(ends.to_pump)
    ends.to_pump = -1


def test_bytes_go_both_ways_unchanged(ends: Ends) -> None:
    data = os.urandom(3_000_000)

    def ask() -> None:
        os.write(ends.to_pump, data)
        hang_up(ends)

    def answer() -> None:
        ends.libvirt.sendall(data)
        ends.libvirt.close()

    threading.Thread(target=ask, daemon=True).start()
    received = bytearray()
    while piece := ends.libvirt.recv(1 << 20):
        received += piece
    assert bytes(received) == data
    threading.Thread(target=answer, daemon=True).start()
    assert ends.read_all() == data
    assert ends.ended()


def test_after_the_controllers_end_libvirt_can_still_answer(ends: Ends) -> None:
    os.write(ends.to_pump, b"question")
    hang_up(ends)
    assert ends.libvirt.recv(100) == b"question"
    assert ends.libvirt.recv(100) == b""
    ends.libvirt.sendall(b"answer")
    ends.libvirt.close()
    assert ends.read_all() == b"answer"
    assert ends.ended()


def test_it_ends_with_libvirt_though_the_controller_says_nothing(ends: Ends) -> None:
    ends.libvirt.sendall(b"last words")
    ends.libvirt.close()
    assert ends.read_all() == b"last words"
    assert ends.ended()


def test_a_libvirt_that_hangs_does_not_keep_it(ends: Ends, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pump, "GRACE_S", 0.1)
    hang_up(ends)
    assert ends.ended()


def test_it_ends_when_nobody_reads(ends: Ends) -> None:
    os.close(ends.from_pump)
    ends.from_pump = -1
    ends.libvirt.sendall(b"x")
    assert ends.ended()


def test_the_modular_daemons_socket_comes_first(tmp_path: Path) -> None:
    folder = tmp_path / "run/libvirt"
    folder.mkdir(parents=True)
    with socket.socket(socket.AF_UNIX) as old, socket.socket(socket.AF_UNIX) as new:
        for server, name in ((old, "libvirt-sock"), (new, "virtqemud-sock")):
            server.bind(str(folder / name))
            server.listen()
        with pump.connect(Root(tmp_path)) as joined:
            assert joined.getpeername() == str(folder / "virtqemud-sock")


def test_a_host_without_libvirt_is_an_error_that_names_the_socket(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="libvirt-sock"):
        pump.connect(Root(tmp_path))
