"""How often a command waits for the host: exchanges on the wire, and what the command takes over a slow line.

    .venv/bin/python -m benchmarks.round_trips_cost

A proxy before the host's sshd delays each piece by half the round trip, in either direction. An exchange is a change of
direction, from the host to us, on the connection with the most of them; the time over a 150 ms line shows their cost.
TCP's handshake is not counted, since a proxy accepts at once; nor is its slow start, as the pieces pass whole.
"""

from __future__ import annotations

import re
import statistics
import sys
from typing import TYPE_CHECKING

from benchmarks import lab, measured
from benchmarks.measured import Row
from tests.slow_line import Line

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


def redirect(inventory: Path, port: int) -> int:
    """Write that port into the inventory, and return the one that was there for HOST."""
    file = inventory / "hosts.yml"
    text = file.read_text(encoding="utf-8")
    match = re.search(rf"({HOST}:\s+ansible_host: \S+\s+ansible_port: )(\d+)", text)
    assert match is not None, text
    file.write_text(text.replace(match[0], f"{match[1]}{port}"), encoding="utf-8")
    return int(match[2])


def trust(known_hosts: Path, port: int, slow: int) -> None:
    """Make known_hosts accept the host's key on the slow line's port, too."""
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
                    cost = running.vgpumgr(*command)
                    if number:  # the first round reads files from the disk
                        seconds.setdefault((command[0], delay), []).append(cost.wall)
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
