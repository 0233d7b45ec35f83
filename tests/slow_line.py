"""A slow line to a port of this machine: a proxy that holds each piece back, loses some, and counts the exchanges.

What TCP loses comes a retransmission later, and everything behind it waits for that: so a loss is a stall of the whole direction.
"""

from __future__ import annotations

import contextlib
import queue
import random
import re
import socket
import threading
import time
from typing import TYPE_CHECKING

from tests.acceptance import inventories
from vgpumgr.lab import fleet

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.lab_fixtures import Lab

STALL_S = (0.2, 0.6)  # of Linux's retransmission timeout


class Line:
    """`exchanges`: changes of direction, from the host to us, on the last connection that was made: how often we waited for the host.

    Half of `round_trip_s` in either direction. `loss`: the share of pieces that is lost once. `stalls`: how many were.
    """

    def __init__(self, port: int, round_trip_s: float = 0.0, *, loss: float = 0.0, seed: int = 1) -> None:
        self.exchanges = 0
        self.stalls = 0
        self._port = port
        self._delay_s = round_trip_s / 2
        self._loss = loss
        self._random = random.Random(seed)
        self._came_last: str | None = None
        self._sockets: list[socket.socket] = []
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        threading.Thread(target=self._serve, daemon=True).start()

    def close(self) -> None:
        for one in (self._listener, *self._sockets):
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
            one.close()

    def _serve(self) -> None:
        while True:
            try:
                ours, _ = self._listener.accept()
            except OSError:
                return
            theirs = socket.create_connection(("127.0.0.1", self._port))
            self._sockets += [ours, theirs]
            self.exchanges, self._came_last = 0, None
            for end in (ours, theirs):
                end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._carry(ours, theirs, "up")
            self._carry(theirs, ours, "down")

    def _carry(self, source: socket.socket, target: socket.socket, way: str) -> None:
        pieces: queue.Queue[tuple[float, bytes]] = queue.Queue()

        def read() -> None:
            while True:
                piece = _received(source)
                pieces.put((time.monotonic() + self._delay_s, piece))
                if not piece:
                    return

        def write() -> None:
            while True:
                due, piece = pieces.get()
                if self._random.random() < self._loss:
                    self.stalls += 1
                    due += self._random.uniform(*STALL_S)
                time.sleep(max(0.0, due - time.monotonic()))
                if way == "up" and self._came_last == "down":
                    self.exchanges += 1
                self._came_last = way
                try:
                    if not piece:
                        target.shutdown(socket.SHUT_WR)
                        return
                    target.sendall(piece)
                except OSError:
                    return

        for work in (read, write):
            threading.Thread(target=work, daemon=True).start()


@contextlib.contextmanager
def before(lab: Lab, host: str, folder: Path, *, round_trip_s: float, loss: float = 0.0) -> Iterator[tuple[Path, Line]]:
    """Such a line before a host of the lab: an inventory in that folder that goes by it, and the line."""
    port = fleet.read(lab.layout).host(host).port
    assert port is not None
    line = Line(port, round_trip_s, loss=loss)
    inventory = inventories.copy(lab, folder)
    hosts = inventory / "hosts.yml"
    text = hosts.read_text(encoding="utf-8").replace(f"ansible_port: {port}", f"ansible_port: {line.port}")
    known = lab.layout.known_hosts.read_text(encoding="utf-8")
    (folder / "known_hosts").write_text(known.replace(f"]:{port} ", f"]:{line.port} "), encoding="utf-8")
    text = re.sub(r"UserKnownHostsFile=[^\s'\"]+", f"UserKnownHostsFile={folder}/known_hosts", text)
    hosts.write_text(text, encoding="utf-8")
    try:
        yield inventory, line
    finally:
        line.close()


def _received(source: socket.socket) -> bytes:
    try:
        return source.recv(1 << 20)
    except OSError:
        return b""
