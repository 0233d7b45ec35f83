"""What `place` costs over many hosts: where ten vGPUs would go, on 1,000 hosts that are there as values.

    .venv/bin/python -m benchmarks.place_cost

Each host has eight A40; every tenth host holds a 4Q. No two hosts share a value, and each round has hosts of its
own, as they come from being read. Only core's decision is timed, with the garbage collector as in the command line.
"""

from __future__ import annotations

import statistics
import sys
import time
from dataclasses import replace
from typing import TYPE_CHECKING

from benchmarks import measured
from tests.unit.core import builders
from vgpumgr.cli.wiring import collect_seldom
from vgpumgr.core.driver.asking import NO_CONDITIONS
from vgpumgr.core.model.snapshot import MDEV_VF, Types
from vgpumgr.core.policies import known
from vgpumgr.core.report import place
from vgpumgr.names import GpuUuid, HostName

if TYPE_CHECKING:
    from vgpumgr.core.model.view import HostView

HOSTS, GPUS, VGPUS, ROUNDS = 1000, 8, 10, 3


def hosts() -> list[HostView]:
    """The hosts by name: every tenth has a vGPU, the others none."""
    empty = builders.host(*(builders.gpu(MDEV_VF, "A40", f"0000:{at:02x}:00.0") for at in range(1, GPUS + 1)), vms=2)
    used = builders.attached(empty, "vm01", "4Q")
    kinds = [used if number % 10 == 0 else empty for number in range(HOSTS)]
    return [_read(view, f"kvm{number:04}") for number, view in enumerate(kinds)]


def _read(view: HostView, name: str) -> HostView:
    """The host with values of its own under another name. Its GPUs share their types, as in snapshot_facts.py."""
    types = Types({number: replace(kind) for number, kind in (view.snapshot.gpus[0].types or {}).items()})
    gpus = tuple(
        replace(
            gpu,
            uuid=GpuUuid(f"{gpu.uuid}-{name}"),
            types=types,
            parents=tuple(replace(parent) for parent in gpu.parents),
        )
        for gpu in view.snapshot.gpus
    )
    ledger = tuple(
        replace(entry, vgpu=replace(entry.vgpu, gpu_uuid=GpuUuid(f"{entry.vgpu.gpu_uuid}-{name}")))
        for entry in view.snapshot.entries
    )
    return replace(view, snapshot=replace(view.snapshot, host=HostName(name), gpus=gpus, ledger=ledger))


def main() -> int:
    wish, rows = builders.wish("8Q"), []
    for policy in known.BUILT_IN.values():
        times = []
        for _ in range(ROUNDS):
            views = hosts()
            collect_seldom()
            started = time.process_time()
            found = place.places(views, wish, NO_CONDITIONS, policy, VGPUS)
            times.append(time.process_time() - started)
            assert len(found) == VGPUS
        what = f"{VGPUS} vGPUs over {HOSTS} hosts by {policy.name}"
        rows.append(measured.Row(what, statistics.median(times), "s", most=1))
    return measured.report(rows)


if __name__ == "__main__":
    sys.exit(main())
