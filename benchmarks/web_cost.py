"""What the Fleet page of `serve` costs: 500 VMs on 40 hosts, and 10,000 VMs on 1,000 hosts, that are there in memory.

    .venv/bin/python -m benchmarks.web_cost

Each VM has a vGPU. The server is a process of its own, and real from its socket to the shared looks at hosts; below
these are memory_hosts.py. The hosts were read before. `new` is a page whose document is made from these looks, as it
is once in `--keep`; `again` one whose document another viewer had a moment ago. The page is opened in Debian's
Chromium if `make test-browser` has installed what drives it, until load and two frames more; else these rows are
missing.
"""

from __future__ import annotations

import http.client
import os
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from benchmarks import memory_hosts
from benchmarks.measured import Row, environment, report
from tests.browser.forwarder import forwarding
from vgpumgr.cli.commands.answers import Answers
from vgpumgr.cli.settings import Settings
from vgpumgr.cli.wiring import collect_seldom
from vgpumgr.controller.context import Context
from vgpumgr.controller.reconcile import ReconcileOptions, reconcile
from vgpumgr.controller.results import Consent, FleetPlan
from vgpumgr.core.driver import catalogue
from vgpumgr.metrics import socket_place
from vgpumgr.web import app, server

if TYPE_CHECKING:
    from collections.abc import Iterator

SITES = {(40, 500): 1.0, (1000, 10_000): 3.0}
"""Hosts and VMs, and the aim for the page in Chromium, in seconds."""
ROUNDS = 3
BROWSER = Path(__file__).parents[1] / ".cache" / "browser" / "python"
_COMPLETE = """() => new Promise(done => requestAnimationFrame(() => requestAnimationFrame(
  () => done([performance.now() / 1000, document.querySelectorAll(".card").length]))))"""


class Got(NamedTuple):
    """An answer: seconds until its first byte, until its last, and how many bytes there were."""

    first: float
    whole: float
    size: int


def main() -> int:
    """Measure; exit 1 where an aim is missed."""
    rows: list[Row] = []
    for (hosts, vms), most in SITES.items():
        what = f"fleet of {vms:,} VMs on {hosts:,} hosts"
        with serving(hosts, vms) as path:
            get(path, "/api/v1/list")
            new = [get(path, f"/?since={number}h") for number in range(1, ROUNDS + 1)]
            again = [get(path, "/?since=1h") for _ in range(ROUNDS)]
            rows += [
                Row(f"{what}: new, first byte", statistics.median(one.first for one in new), "s"),
                Row(f"{what}: new, whole", statistics.median(one.whole for one in new), "s"),
                Row(f"{what}: again, first byte", statistics.median(one.first for one in again), "s"),
                Row(f"{what}: again, whole", statistics.median(one.whole for one in again), "s"),
                Row(f"{what}: size", again[0].size / 1e6, "MB"),
            ]
            if BROWSER.is_dir():
                rows.append(Row(f"{what}: complete in Chromium", in_chromium(path, 2 * hosts), "s", most=most))
    return report(rows)


def get(path: Path, target: str) -> Got:
    """Ask the server for one page."""
    connection = http.client.HTTPConnection("localhost", timeout=600)
    connection.sock = socket.socket(socket.AF_UNIX)
    connection.sock.connect(str(path))
    began = time.perf_counter()
    connection.request("GET", target)
    answer = connection.getresponse()
    first = time.perf_counter() - began
    text = answer.read()
    assert answer.status == 200, text[:500]
    connection.close()
    return Got(first, time.perf_counter() - began, len(text))


def in_chromium(path: Path, cards: int) -> float:
    """Seconds from the start of the navigation until the page is complete: the median."""
    sys.path.insert(0, str(BROWSER))
    from playwright.sync_api import sync_playwright  # noqa: PLC0415 -- only where it is installed

    times = []
    with forwarding(path) as port, sync_playwright() as driver, tempfile.TemporaryDirectory() as home:
        browser = driver.chromium.launch(executable_path="/usr/bin/chromium", env={**os.environ, "HOME": home})
        for _ in range(ROUNDS):
            page: Any = browser.new_page(viewport={"width": 1440, "height": 900})
            page.set_default_timeout(120_000)
            page.goto(f"http://127.0.0.1:{port}/?since=1h")
            seconds, shown = page.evaluate(_COMPLETE)
            assert shown == cards, shown
            times.append(seconds)
            page.close()
        browser.close()
    return float(statistics.median(times))


@contextmanager
def serving(hosts: int, vms: int) -> Iterator[Path]:
    """A server in a process of its own, on the socket of that path."""
    with tempfile.TemporaryDirectory(prefix="vgpumgr-bench.") as folder:
        path = Path(folder, "web.sock")
        environ = environment({"VGPUMGR_STORE": str(Path(folder, "store.sqlite"))})
        argv = [sys.executable, "-m", "benchmarks.web_cost", str(hosts), str(vms), str(path)]
        process = subprocess.Popen(argv, env=environ, stdout=subprocess.PIPE, text=True)
        assert process.stdout is not None
        try:
            assert process.stdout.readline() == "serving\n"
            yield path
        finally:
            process.terminate()
            process.wait(60)
            process.stdout.close()


def serve(hosts: int, vms: int, path: Path) -> None:
    """Serve a site whose VMs all have their vGPUs, until a signal ends it."""
    counts = [vms // hosts + (number < vms % hosts) for number in range(hosts)]
    spent = memory_hosts.Spent()
    machines = [memory_hosts.MemoryHost(f"kvm{number:04}", count, spent) for number, count in enumerate(counts)]
    by_name = {one.name: one for one in machines}
    context = Context(
        inventory=memory_hosts.inventory(machines),
        connect=lambda endpoint: memory_hosts.MemoryLink(by_name[endpoint.host]),
        catalogue=catalogue.parse(""),
        by="bench@ctl1",
        now=lambda: "2026-11-22T01:00:00Z",
        progress=lambda _: None,
    )
    consent: Consent[FleetPlan] = Consent(check=False, show=lambda _: None, ask=lambda _: None)
    made = reconcile(context, ReconcileOptions(), consent)
    assert not made.problems, made.problems[0]
    collect_seldom()
    with socket_place.listening(path) as listener:
        print("serving", flush=True)
        server.serve(listener, app.application(Answers(Settings(quiet=True), lambda: context, 3600.0)))


if __name__ == "__main__":
    if sys.argv[1:]:
        serve(int(sys.argv[1]), int(sys.argv[2]), Path(sys.argv[3]))
        sys.exit(0)
    sys.exit(main())
