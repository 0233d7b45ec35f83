"""What more hosts cost: 5 to 40 hosts of a lab, 1,000 names of these 40, and 1,000 to 10,000 hosts in memory.

    .venv/bin/python -m benchmarks.many_hosts_cost

The lab's hosts are small (a T4, three VMs, one vGPU), because they share the machine with the controller. Their real
sshd, libvirtd and host program answer each time, under each name. What is open at once is read from /proc. The night is
a reconcile that finds nothing to do: in the lab over SSH, in memory (memory_hosts.py) with everything above it. There
10,000 hosts are compared with 1,000: less than 1 is flat.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks import lab
from benchmarks.fleet_cost import write_spec
from benchmarks.measured import PROGRAM, Cost, Row, environment, in_turn, peak_mb, report, spent
from benchmarks.memory_hosts import MemoryHost, MemoryLink, Spent, inventory
from vgpumgr.cli.wiring import collect_seldom
from vgpumgr.controller.context import Context
from vgpumgr.controller.reconcile import ReconcileOptions, reconcile
from vgpumgr.controller.results import Consent, FleetPlan
from vgpumgr.core.driver import catalogue
from vgpumgr.names import HostName

if TYPE_CHECKING:
    from collections.abc import Sequence

    from vgpumgr.core.inventory import HostDeclaration, Inventory
    from vgpumgr.core.model.endpoint import Endpoint
    from vgpumgr.link.domain_query import DomainQuery
    from vgpumgr.link.host import Host, Observed

FEW, MANY, NAMES, ROUNDS = 5, 40, 1_000, 7
SMALL, LARGE, VMS = 1_000, 10_000, 4
MB, HOST_MS, SLOPE = 400, 25, 1.1


class Peaks(threading.Thread):
    """The most threads and open files of a process at once."""

    def __init__(self, pid: int) -> None:
        super().__init__(daemon=True)
        self.threads = self.files = 0
        self._process = Path("/proc", str(pid))

    def run(self) -> None:
        try:
            while True:
                self.threads = max(self.threads, len(list((self._process / "task").iterdir())))
                self.files = max(self.files, len(list((self._process / "fd").iterdir())))
                time.sleep(0.02)
        except OSError:
            return  # it has ended


def main() -> int:
    """Measure; exit 1 where an aim is missed."""
    with tempfile.TemporaryDirectory(prefix="vgpumgr-bench.") as folder:
        spec = Path(folder, "spec.yml")
        hosts = write_spec(spec, MANY, {"driver": 535, "boards": ["T4"]})
        with lab.up(str(spec)) as running:
            running.vgpumgr("reconcile", "--yes")
            rows = [*_slope(running, hosts), *_names(running, Path(folder, "names"))]
    return report([*rows, *_in_memory()])


def _slope(running: lab.Lab, hosts: Sequence[str]) -> list[Row]:
    night = {
        count: partial(running.vgpumgr, "reconcile", "--limit", ",".join(hosts[:count])) for count in (1, FEW, MANY)
    }
    cost = in_turn({str(count): work for count, work in night.items()}, ROUNDS)
    one, few, many = (cost[str(count)] for count in night)
    low_ms, high_ms = (many.cpu - few.cpu) / (MANY - FEW) * 1000, (few.cpu - one.cpu) / (FEW - 1) * 1000
    return [
        Row("night of 40 lab hosts: CPU for each from 5 to 40, from 1 to 5", low_ms, "ms", high_ms, most=HOST_MS),
        Row("night of 40 lab hosts: seconds for each of 40, of 5", many.wall / MANY, "s", few.wall / FEW),
        Row("night of 10,000 lab hosts, from that slope: CPU", low_ms * LARGE / 1000 / 60, "min"),
    ]


def _names(running: lab.Lab, folder: Path) -> list[Row]:
    """The rows about `list` of 1,000 names."""
    folder.mkdir()
    text = (running.layout.inventory / "hosts.yml").read_text(encoding="utf-8")
    ports = re.findall(r"ansible_port: (\d+)", text)
    _, _, variables = text.partition("\n  vars:\n")
    lines = [
        f"    name{number:04}: {{ansible_host: 127.0.0.1, ansible_port: {ports[number % len(ports)]}}}"
        for number in range(NAMES)
    ]
    (folder / "hosts.yml").write_text(
        "\n".join(["hypervisors:", "  vars:", variables.rstrip(), "  hosts:", *lines, ""]), encoding="utf-8"
    )
    peaks: list[Peaks] = []

    def begun(pid: int) -> None:
        peaks.append(Peaks(pid))
        peaks[0].start()

    cost = spent([PROGRAM, "-i", str(folder), "list"], running.environment, begun=begun)
    return [
        Row("list of 1,000 hosts: memory", cost.megabytes, "MB", most=MB),
        Row("list of 1,000 hosts: threads at once", peaks[0].threads, ""),
        Row("list of 1,000 hosts: open files at once", peaks[0].files, ""),
        Row("list of 1,000 hosts: CPU for a host, the start with them", cost.cpu / NAMES * 1000, "ms", most=HOST_MS),
        Row("list of 1,000 hosts: wall, all on this machine", cost.wall, "s"),
    ]


def _in_memory() -> list[Row]:
    small, large = _night(SMALL), _night(LARGE)
    return [
        Row(
            "night of 10,000 hosts in memory: CPU for each, of 1,000",
            large.cpu / LARGE * 1e3, "ms", small.cpu / SMALL * 1e3, most_ratio=SLOPE,
        ),
        Row(
            "night of 10,000 hosts in memory: memory for each from 1,000 on",
            (large.megabytes - small.megabytes) * 1024 / (LARGE - SMALL), "KB",
        ),
        Row("night of 10,000 hosts in memory: memory", large.megabytes, "MB", most=MB),
    ]  # fmt: skip


def _night(count: int) -> Cost:
    """The cost of `night` in a fresh process."""
    argv = [sys.executable, "-m", "benchmarks.many_hosts_cost", str(count)]
    process = subprocess.run(argv, env=environment(), stdout=subprocess.PIPE, check=True)
    return Cost(*json.loads(process.stdout))


class Named(MemoryLink):
    """A connection to the one host, under another name."""

    def __init__(self, at: MemoryHost, name: HostName) -> None:
        super().__init__(at)
        self.host = name

    def observe(self, query: DomainQuery | None = None, *, wait_s: float) -> Observed:
        answer = super().observe(query, wait_s=wait_s)
        return replace(answer, snapshot=replace(answer.snapshot, host=self.host))


def night(count: int) -> Cost:
    """A reconcile of that many hosts in this process that finds nothing to do, without the stand-ins' time."""
    pattern = MemoryHost("kvm00000", VMS, spent_by := Spent())
    one = inventory([pattern])
    made = reconcile(_context(pattern, one), ReconcileOptions(), _consent())
    assert not made.problems, made.problems
    names = [HostName(f"kvm{number:05}") for number in range(1, count + 1)]
    fleet = replace(one, hosts={name: _named(pattern.declaration, name) for name in names})
    collect_seldom()
    stood_in = spent_by.seconds
    began, began_cpu = time.perf_counter(), time.process_time()
    result = reconcile(_context(pattern, fleet), ReconcileOptions(), _consent())
    wall, cpu = time.perf_counter() - began, time.process_time() - began_cpu
    assert not result.problems, result.problems[0]
    assert not result.fleet.changed
    assert len(result.hosts) == count
    return Cost(wall, cpu - (spent_by.seconds - stood_in), peak_mb())


def _named(declared: HostDeclaration, name: HostName) -> HostDeclaration:
    return replace(declared, name=name, endpoint=replace(declared.endpoint, host=name))


def _context(pattern: MemoryHost, fleet: Inventory) -> Context:
    def reach(endpoint: Endpoint, *, writes: bool = False) -> Host:
        del writes
        return Named(pattern, endpoint.host)

    return Context(
        inventory=fleet,
        connect=reach,
        catalogue=catalogue.parse(""),
        by="bench@ctl1",
        now=lambda: "2026-11-22T01:00:00Z",
        progress=lambda _: None,
    )


def _consent() -> Consent[FleetPlan]:
    return Consent(check=False, show=lambda _: None, ask=lambda _: None)


if __name__ == "__main__":
    if sys.argv[1:]:
        print(json.dumps(night(int(sys.argv[1]))))
        sys.exit(0)
    sys.exit(main())
