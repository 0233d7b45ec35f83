"""What a large fleet's inventory costs: read, and read and planned without any host; beside `ansible-inventory --list`.

    .venv/bin/python -m benchmarks.inventory_cost

10,000 hosts declare 40,000 VMs (large_inventory.py). `Read` is what every command does first, in a fresh process.
`Planned` adds core's plan of each host, from a state in memory: two A40 with 32 VFs each, one host in fifty without a
vGPU, the others as declared. Making that state is not counted. Growth is the time per host of 10,000 beside that of
1,000. Ansible reads the same files with 1,000 hosts: all of them take it minutes, and more than in proportion.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks import large_inventory
from benchmarks.measured import PROGRAM, Row, environment, in_turn, peak_mb, report, spent
from tests.unit.core import builders
from vgpumgr.cli.wiring import collect_seldom
from vgpumgr.core.reconcile import host_plan, tasks
from vgpumgr.inventory_files import reader
from vgpumgr.names import VmName

if TYPE_CHECKING:
    from collections.abc import Callable

    from vgpumgr.core.inventory import HostDeclaration
    from vgpumgr.core.model.view import HostView

SMALL, LARGE = 1_000, 10_000
ROUNDS = 3
NEW_ONE_IN = 50
CHECK_S, PLAN_S, PLAN_MB, SLOPE = 4.0, 6.0, 300, 1.1


def main() -> int:
    """Measure; exit 1 where an aim is missed."""
    with tempfile.TemporaryDirectory(prefix="vgpumgr-bench.") as folder:
        small, large = Path(folder, "small"), Path(folder, "large")
        large_inventory.write(small, SMALL)
        large_inventory.write(large, LARGE)
        check = in_turn(
            {
                "ours": partial(spent, [PROGRAM, "inventory", "check", "-i", str(large)]),
                "ours, small": partial(spent, [PROGRAM, "inventory", "check", "-i", str(small)]),
                "ansible, small": partial(
                    spent, [str(Path(PROGRAM).with_name("ansible-inventory")), "--list", "-i", str(small)]
                ),
            },
            ROUNDS,
        )
        planned = {path: _least(path) for path in (small, large)}
    theirs, ours = check["ansible, small"], check["ours"]
    one, each = (planned[path]["cpu"] / hosts for path, hosts in ((small, SMALL), (large, LARGE)))
    of_small = planned[small]
    rows = [
        Row("inventory check of 10,000 hosts", ours.wall, "s", most=CHECK_S),
        Row("inventory check of 10,000 hosts: CPU", ours.cpu, "s"),
        Row("inventory check of 1,000 hosts, ansible-inventory --list", check["ours, small"].wall, "s", theirs.wall),
        Row("read 10,000 hosts: CPU", planned[large]["read"], "s"),
        Row("read and plan 10,000 hosts: CPU", planned[large]["cpu"], "s", most=PLAN_S),
        Row("read and plan 10,000 hosts: memory", planned[large]["megabytes"], "MB", most=PLAN_MB),
        Row("read and plan: a host of 10,000, one of 1,000", each * 1e6, "us", one * 1e6, most_ratio=SLOPE),
        Row("read and plan 1,000 hosts, ansible-inventory --list: CPU", of_small["cpu"], "s", theirs.cpu),
    ]
    return report(rows)


def _least(folder: Path) -> dict[str, float]:
    """What `read_and_plan` took in the cheapest of several fresh processes: other programs disturb some of them."""
    argv = [sys.executable, "-m", "benchmarks.inventory_cost", str(folder)]
    texts = [subprocess.run(argv, env=environment(), stdout=subprocess.PIPE, check=True).stdout for _ in range(ROUNDS)]
    rows: list[dict[str, float]] = [json.loads(line) for line in texts]
    return min(rows, key=lambda one: one["cpu"])


def read_and_plan(folder: Path) -> dict[str, float]:
    """Read and plan an inventory in this process. Returns the CPU seconds of each, and megabytes."""
    began = time.process_time()
    inventory = reader.load(folder, home=Path("/root"), environ={})
    collect_seldom()
    read_s = time.process_time() - began
    author = tasks.Author(by="bench@ctl1", at="2026-11-22T01:00:00Z")
    view_of = views(next(iter(inventory.hosts.values())), author)
    plan_s = 0.0
    steps = changes = 0
    for number, host in enumerate(inventory.hosts.values()):
        view = view_of(host, number % NEW_ONE_IN == 0)
        began = time.process_time()
        plan = host_plan.plan_host(view, host, author)
        plan_s += time.process_time() - began
        steps += len(plan.steps)
        changes += plan.changed
    assert changes == len(inventory.hosts) // NEW_ONE_IN, f"{changes} hosts would change: {steps} steps"
    return {"read": read_s, "plan": plan_s, "cpu": read_s + plan_s, "megabytes": peak_mb()}


def views(pattern: HostDeclaration, author: tasks.Author) -> Callable[[HostDeclaration, bool], HostView]:
    """A function from a host's declaration, and whether it is new, to its state. New ones have no vGPU, others all.

    One host is planned for real; the others have its state under their own names.
    """
    gpus = [builders.gpu(pci=pci) for pci in large_inventory.GPUS]
    empty = builders.host(*gpus, vms=large_inventory.VMS_OF_A_HOST)
    empty = _named(empty, pattern)
    _, done = host_plan.plan_tasks(empty, pattern, tasks.of_host(empty, pattern), author)
    return lambda declared, new: _named(empty if new else done, declared)


def _named(view: HostView, declared: HostDeclaration) -> HostView:
    """The state `view` under the declared host's names."""
    own = dict(zip((domain.name for domain in view.domains), declared.vms, strict=True))
    domains = tuple(
        replace(
            domain,
            name=own[domain.name],
            claims=domain.claims
            and replace(
                domain.claims,
                claims=tuple(
                    replace(claim, site=declared.site, declared=declared.vms_from) for claim in domain.claims.claims
                ),
            ),
        )
        for domain in view.domains
    )
    ledger = tuple(
        replace(entry, vgpu=replace(entry.vgpu, vm_name=own[VmName(entry.vgpu.vm_name)]))
        for entry in view.snapshot.ledger or ()
    )
    return replace(view, snapshot=replace(view.snapshot, host=declared.name, ledger=ledger), domains=domains)


if __name__ == "__main__":
    if sys.argv[1:]:
        print(json.dumps(read_and_plan(Path(sys.argv[1]))))
        sys.exit(0)
    sys.exit(main())
