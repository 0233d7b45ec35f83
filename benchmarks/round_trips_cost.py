"""How often a command waits for the host: exchanges on the wire, and what the command takes over a slow line.

    .venv/bin/python -m benchmarks.round_trips_cost

A proxy before the host's sshd holds each piece back for half the round trip, in either direction. An exchange is a change of
direction, from the host to us, of the connection on which most happened; the time over a line of 150 ms says what they cost.
TCP's own handshake is not among them, since a proxy accepts at once; nor is its slow start, as the pieces pass whole.
"""

from __future__ import annotations

import queue
import re
import socket
import statistics
import sys
import threading
import time
from typing import TYPE_CHECKING

from benchmarks import lab, measured
from benchmarks.measured import Row

if TYPE_CHECKING:
    from pathlib import Path

SPEC, HOST, VM = "vendor-vfio", "kvm01", "vm01"
DELAY_S, ROUNDS = 0.150, 7
COMMANDS = (
    ("list", HOST),
    ("attach", VM, "--profile", "4Q", "--on", HOST),
    ("detach", VM, "--yes", "--on", HOST),
)
AIMS = {"list": 9, "attach": 15, "detach": 17}  # of the whole command, without TCP's own
SLOW_AIMS = {"attach": 4.0}  # seconds


class Line:
    """A slow line to one port of this machine, for one connection after the other. `exchanges`: of the last one."""

    def __init__(self, port: int, delay_s: float) -> None:
        self.exchanges = 0
        self._port = port
        self._delay_s = delay_s
        self._came_last: str | None = None
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        while True:
            ours, _ = self._listener.accept()
            theirs = socket.create_connection(("127.0.0.1", self._port))
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
                pieces.put((time.monotonic() + self._delay_s / 2, piece))
                if not piece:
                    return

        def write() -> None:
            while True:
                due, piece = pieces.get()
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


def _received(source: socket.socket) -> bytes:
    try:
        return source.recv(1 << 20)
    except OSError:
        return b""


def redirect(inventory: Path, port: int) -> int:
    """Write that port into the inventory, and return the one that was there for HOST."""
    file = inventory / "hosts.yml"
    text = file.read_text(encoding="utf-8")
    found = re.search(rf"({HOST}:\s+ansible_host: \S+\s+ansible_port: )(\d+)", text)
    assert found is not None, text
    file.write_text(text.replace(found[0], f"{found[1]}{port}"), encoding="utf-8")
    return int(found[2])


def trust(known_hosts: Path, port: int, slow: int) -> None:
    """The host's key holds on the slow line's port, too."""
    text = known_hosts.read_text(encoding="utf-8")
    more = [line.replace(f"]:{port} ", f"]:{slow} ") for line in text.splitlines() if f"]:{port} " in line]
    known_hosts.write_text(text + "\n".join([*more, ""]), encoding="utf-8")


def main() -> int:
    """Measure; exit 1 if a command needs more exchanges than the aim, or longer."""
    with lab.up(SPEC) as running:
        layout = running.layout
        port = redirect(layout.inventory, 0)
        lines = {delay: Line(port, delay) for delay in (0.0, DELAY_S)}
        for line in lines.values():
            trust(layout.known_hosts, port, line.port)
        seconds: dict[tuple[str, float], list[float]] = {}
        exchanges: dict[str, list[int]] = {}
        for delay, line in lines.items():
            redirect(layout.inventory, line.port)
            for number in range(ROUNDS + 1):
                for command in COMMANDS:
                    spent = running.vgpumgr(*command)
                    if number:  # the first round reads files from the disk
                        seconds.setdefault((command[0], delay), []).append(spent.wall)
                        exchanges.setdefault(command[0], []).append(line.exchanges)
        rows = []
        for verb, aim in AIMS.items():
            quick, slow = (statistics.median(seconds[verb, delay]) for delay in lines)
            rows += [
                Row(f"{verb}: exchanges", statistics.median(exchanges[verb]), "", most=aim),
                Row(
                    f"{verb} at {DELAY_S * 1000:.0f} ms, the same at once",
                    slow,
                    "s",
                    peer=quick,
                    most=SLOW_AIMS.get(verb),
                ),
            ]
    return measured.report(rows)


if __name__ == "__main__":
    sys.exit(main())
