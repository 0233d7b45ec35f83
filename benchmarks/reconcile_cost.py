"""What reconcile costs: 200 hosts of 10 declared VMs in this process's memory, and 100 declared VMs on one lab host.

    .venv/bin/python -m benchmarks.reconcile_cost [memory] [plain] [lab]

memory: a fresh process on one core; each VM gets its vGPU, with a real journal, without SSH, on stand-ins for hosts
(memory_hosts.py), whose own part is a row. Growth is the CPU per host of 200 beside that of 50: the least of some runs.
plain: one host of 4 GPUs x 32 VFs as plain files (the model's), where the real host program makes 100 vGPUs: its CPU
per step, the last twenty beside the first twenty, without the child that writes.
lab: 4 A40 with 32 VFs each, 100 VMs with a vGPU each over real SSH and libvirt, then again with nothing to do. The CPU
of the host's supervisor is the lab's own: /sys over FUSE, the driver, NVML.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from benchmarks import lab, memory_hosts
from benchmarks.measured import Cost, Row, environment, median, peak_mb, report
from tests.model import fleet as model_fleet
from tests.model import machine
from tests.model.pool import Pool
from vgpumgr import resources
from vgpumgr.cli.wiring import collect_seldom
from vgpumgr.controller.context import Context
from vgpumgr.controller.reconcile import ReconcileOptions, reconcile
from vgpumgr.controller.results import Consent, FleetPlan
from vgpumgr.core.driver import catalogue
from vgpumgr.host.steps.executor import Executor
from vgpumgr.lab import fleet
from vgpumgr.names import DEFAULT_SLOT
from vgpumgr.store.journal import Journal

if TYPE_CHECKING:
    from vgpumgr.host.protocol.steps import Executed

FEW, MANY, VMS_OF_EACH = 50, 200, 10
VMS, GPUS, PROFILE = 100, ("0000:01:00.0", "0000:41:00.0", "0000:81:00.0", "0000:c1:00.0"), "1Q"
ROUNDS, LAB_ROUNDS = 3, 5
MEMORY_S, MEMORY_MB, SLOPE, FIRST_S, AGAIN_S = 10.0, 300, 1.1, 12.0, 3.0
HOST = "kvm01"


def main(parts: list[str]) -> int:
    """Measure; exit 1 where an aim is missed."""
    rows: list[Row] = []
    for name, part in {"memory": of_memory, "plain": of_plain, "lab": of_lab}.items():
        if not parts or name in parts:
            rows += part()
    return report(rows)


def of_memory() -> list[Row]:
    """The rows of 200 hosts in one process, beside 50."""
    rows: dict[int, list[dict[str, float]]] = {FEW: [], MANY: []}
    for _ in range(ROUNDS):
        for hosts, costs in rows.items():
            costs.append(_apart("memory", str(hosts)))
    few, many = (min(costs, key=lambda cost: cost["cpu"]) for costs in rows.values())
    what = f"reconcile {MANY} hosts x {VMS_OF_EACH} VMs in memory"
    return [
        Row(f"{what}: CPU on one core", many["cpu"], "s", most=MEMORY_S),
        Row(f"{what}: of it the stand-ins for the hosts", many["stand_ins"], "s"),
        Row(f"{what}: memory", max(cost["megabytes"] for cost in rows[MANY]), "MB", most=MEMORY_MB),
        Row(
            f"{what}: a host of {MANY}, one of {FEW}",
            many["cpu"] / MANY * 1e3,
            "ms",
            few["cpu"] / FEW * 1e3,
            None,
            SLOPE,
        ),
        Row(f"{what}, again: CPU", many["again"], "s"),
    ]


def in_memory(hosts: int) -> dict[str, float]:
    """What two reconciles of that many hosts take in this process: CPU seconds and megabytes."""
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    spent = memory_hosts.Spent()
    machines = [memory_hosts.MemoryHost(f"kvm{number:04}", VMS_OF_EACH, spent) for number in range(hosts)]
    at = {host.name: host for host in machines}
    with tempfile.TemporaryDirectory(prefix="vgpumgr-bench.") as folder:
        context = Context(
            inventory=memory_hosts.inventory(machines),
            connect=lambda endpoint: memory_hosts.MemoryLink(at[endpoint.host]),
            catalogue=catalogue.parse(resources.catalogue_text()),
            by="bench@ctl1",
            now=lambda: "2026-11-21T12:00:00Z",
            progress=lambda _line: None,
            journal=Journal(Path(folder, "journal.db"), warn=sys.exit),
        )
        collect_seldom()
        consent: Consent[FleetPlan] = Consent(check=False, show=lambda _plan: None, ask=lambda _plan: None)
        costs = []
        for wanted in ("done", "unchanged"):
            spent.seconds, before = 0.0, time.process_time()
            result = reconcile(context, ReconcileOptions(), consent)
            costs.append((time.process_time() - before, spent.seconds))
            assert set(result.outcomes) == {wanted}, result.outcomes
    (cpu, stand_ins), (again, _) = costs
    return {"cpu": cpu, "stand_ins": stand_ins, "again": again, "megabytes": peak_mb()}


def of_plain() -> list[Row]:
    """The rows of the host program alone."""
    rows = []
    for framework in ("mdev-vf", "vendor-vfio"):
        runs = [_apart("plain", framework) for _ in range(ROUNDS)]
        first, last = (min(run[which] for run in runs) for which in ("first", "last"))
        rows.append(
            Row(
                f"host program on plain files, {framework}: a step beside 80-100 VMs, one beside 0-20",
                last,
                "ms",
                first,
            )
        )
    return rows


def on_plain_files(framework: str) -> dict[str, float]:
    """The CPU of a step in ms, at the beginning and at the end of making 100 vGPUs."""
    steps: list[float] = []
    inside = 0.0  # what the machine's own driver and files took
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(machine, "GPUS", GPUS)
        patch.setattr(machine, "VFS", 32)
        patch.setattr(machine, "TYPES", {PROFILE: 32, "2Q": 16})
        pool = Pool()
        with pool:
            there = model_fleet.Fleet.install({HOST: pool.machine(HOST, framework)}, {HOST: VMS})
            for vm in there.vms(HOST):
                there.declared[HOST, vm.name] = {DEFAULT_SLOT: PROFILE}
            write, execute = machine.Machine.write, Executor.execute

            def writing(self: machine.Machine, path: str, text: bytes) -> None:
                nonlocal inside
                began = time.thread_time()
                try:
                    write(self, path, text)
                finally:
                    inside += time.thread_time() - began

            def executing(self: Executor, data: Any, deadline_s: float) -> Executed:
                began, before = time.thread_time(), inside
                answer = execute(self, data, deadline_s)
                if data["verb"] == "create_vgpu":  # libvirt's part is a stand-in
                    steps.append((time.thread_time() - began - inside + before) * 1e3)
                return answer

            patch.setattr(machine.Machine, "write", writing)
            patch.setattr(Executor, "execute", executing)
            assert there.reconcile().word == "done"
    assert len(steps) == VMS
    return {"first": statistics.mean(steps[: VMS // 5]), "last": statistics.mean(steps[-VMS // 5 :])}


def of_lab() -> list[Row]:
    """The rows of 100 VMs on one lab host, which is a new one in each round."""
    costs: dict[str, list[Cost]] = {"first": [], "again": []}
    own: dict[str, list[float]] = {name: [] for name in costs}
    with tempfile.TemporaryDirectory(prefix="vgpumgr-bench.") as folder:
        spec = Path(folder, "many.yml")
        spec.write_text(json.dumps(_spec()), encoding="utf-8")
        for _ in range(LAB_ROUNDS):
            with lab.up(str(spec)) as running:
                supervisor = fleet.read(running.layout).host(HOST).pid
                running.vgpumgr("list")  # files come from the disk once
                for name, runs in costs.items():
                    before = _cpu_of(supervisor)
                    runs.append(running.vgpumgr("reconcile", "--yes"))
                    own[name].append(_cpu_of(supervisor) - before)
    first, again = (median(runs) for runs in costs.values())
    what = f"reconcile {VMS} VMs on 4 GPUs x 32 VFs, lab"
    return [
        Row(what, first.wall, "s", most=FIRST_S),
        Row(f"{what}: CPU of the controller", first.cpu, "s"),
        Row(f"{what}: CPU of the lab itself", statistics.median(own["first"]), "s"),
        Row(f"{what}, again", again.wall, "s", most=AGAIN_S),
        Row(f"{what}, again: CPU of the controller", again.cpu, "s"),
        Row(f"{what}, again: CPU of the lab itself", statistics.median(own["again"]), "s"),
    ]


def _spec() -> dict[str, object]:
    slots = {"vgpu0": {"profile": PROFILE}}
    return {
        "hosts": {
            HOST: {"driver": 570, "framework": "mdev-vf", "boards": ["A40"] * len(GPUS), "vms": [f"vm[001:{VMS}]"]}
        },
        "declared": {HOST: {f"vm{number:03}": slots for number in range(1, VMS + 1)}},
    }


def _cpu_of(pid: int) -> float:
    """Seconds of CPU of that process, without its children."""
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(") ")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _apart(part: str, argument: str) -> dict[str, float]:
    """What a part takes in a fresh process."""
    argv = [sys.executable, "-m", "benchmarks.reconcile_cost", part, argument]
    answer: dict[str, float] = json.loads(
        subprocess.run(argv, env=environment(), stdout=subprocess.PIPE, check=True).stdout
    )
    return answer


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["memory", number] if number.isdigit():
            print(json.dumps(in_memory(int(number))))
        case ["plain", framework] if "-" in framework:
            print(json.dumps(on_plain_files(framework)))
        case parts:
            sys.exit(main(parts))
