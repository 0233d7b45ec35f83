"""What `place` costs over many hosts: where ten vGPUs would go, on 1,000 hosts that are there as values.

    .venv/bin/python -m benchmarks.place_cost

Each host has eight A40; every tenth GPU holds some 4Q. Only core's decision is timed, and no host is read.
"""

from __future__ import annotations

import statistics
import sys
import time
from dataclasses import replace
from typing import TYPE_CHECKING

from benchmarks import measured
from tests.unit.core import builders
from vgpumgr.core.driver.asking import NO_CONDITIONS
from vgpumgr.core.model.snapshot import MDEV_VF
from vgpumgr.core.policies import known
from vgpumgr.core.report import place
from vgpumgr.names import HostName

if TYPE_CHECKING:
    from vgpumgr.core.model.view import HostView

HOSTS, GPUS, VGPUS, ROUNDS = 1000, 8, 10, 3


def hosts() -> list[HostView]:
    """Two kinds of them in turn, by name."""
    empty = builders.host(*(builders.gpu(MDEV_VF, "A40", f"0000:{at:02x}:00.0") for at in range(1, GPUS + 1)), vms=2)
    used = builders.attached(empty, "vm01", "4Q")
    kinds = [used if number % 10 == 0 else empty for number in range(HOSTS)]
    return [
        replace(view, snapshot=replace(view.snapshot, host=HostName(f"kvm{number:04}")))
        for number, view in enumerate(kinds)
    ]


def main() -> int:
    views, wish = hosts(), builders.wish("8Q")
    rows = []
    for policy in known.BUILT_IN.values():
        times = []
        for _ in range(ROUNDS):
            started = time.perf_counter()
            found = place.places(views, wish, NO_CONDITIONS, policy, VGPUS)
            times.append(time.perf_counter() - started)
            assert len(found) == VGPUS
        what = f"{VGPUS} vGPUs over {HOSTS} hosts by {policy.name}"
        rows.append(measured.Row(what, statistics.median(times), "s", most=1))
    return measured.report(rows)


if __name__ == "__main__":
    sys.exit(main())
