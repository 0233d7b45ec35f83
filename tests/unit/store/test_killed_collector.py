"""A collector that is killed: what was acknowledged is there, at most the round in flight more, and nothing is counted twice."""

from __future__ import annotations

import random
import signal
import sqlite3
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.dose import dose
from tests.unit.store.samples_of import PCI, SECOND, T0
from vgpumgr.core.usage.tally import ENGINES, Tally
from vgpumgr.core.usage.usage_window import window
from vgpumgr.names import HostName
from vgpumgr.store.sql.samples import Samples

VMS = 20
# Stores round after round from where the store's cursor is, and says of each that it is stored.
_WRITER = """
import sys
from pathlib import Path
from tests.dose import dose
from tests.unit.store.samples_of import PCI, SECOND, T0, load, measured_round
from vgpumgr.store.sql.samples import Samples
samples = Samples(Path(sys.argv[1]))
cursor = samples.cursors().get("kvm01")
at = cursor.gpus[PCI].at_us if cursor else T0
while True:
    loads = {f"vm{number}": load((at // SECOND + number) % 101) for number in range(1, 21)}
    samples.add([measured_round(loads, since_us=at, until_us=at + 10 * SECOND)], every_s=10)
    at += 10 * SECOND
    if at % (200 * SECOND) == 0:
        samples.coarsen(before_us=at - 4 * 3600 * SECOND)
        samples.prune(before_us=at - 86400 * SECOND, max_bytes=1 << 30)
    print(at, flush=True)
"""


def acknowledged(path: Path, seconds: float) -> int | None:
    """The time up to which a writer, killed after so long from its first line, said that it had stored; None: nothing."""
    process = subprocess.Popen(
        [sys.executable, "-c", _WRITER, path],
        stdout=subprocess.PIPE,
        text=True,
        cwd=Path(__file__).parents[3],
        env={"PYTHONPATH": "."},
    )
    assert process.stdout is not None
    first = process.stdout.readline()
    assert first, "it ended by itself"
    time.sleep(seconds)
    process.send_signal(signal.SIGKILL)
    rest = process.stdout.read()
    process.communicate()
    whole = (first + rest).rpartition("\n")[0]  # a line that was cut is none
    return int(whole.splitlines()[-1]) if whole else None


@pytest.mark.parametrize("seed", range(dose(2, 8)))
def test_a_killed_collector_loses_at_most_the_round_in_flight(tmp_path: Path, seed: int) -> None:
    path = tmp_path / "samples.db"
    samples = Samples(path)
    chance = random.Random(seed)
    for _ in range(3):
        told = acknowledged(path, chance.uniform(0.0, 0.25))
        assert told is not None
        stored = samples.cursors()[HostName("kvm01")].gpus[PCI].at_us
        assert stored - told in (0, 10 * SECOND)
        (host,) = samples.latest()
        assert host.last.measured[0].until_us == stored
        found = {series.key: series.total() for series in samples.usage(window(T0, stored))}
        assert len(found) == len(host.counters) == VMS
        for key, counters in host.counters.items():
            assert counters.observed_s == (stored - T0) / SECOND, "each moment once, and none left out"
            assert (found[key].observed_us, found[key].samples) == (stored - T0, (stored - T0) // (10 * SECOND))
            assert [getattr(counters, f"{engine}_busy_s") for engine in ENGINES] == busy(found[key])
    assert whole(path)


def busy(total: Tally) -> list[float]:
    return [engine.busy / 1e8 for engine in total.engines]


def whole(path: Path) -> bool:
    with sqlite3.connect(path) as file:
        answer = file.execute("PRAGMA integrity_check").fetchone()
    file.close()
    return bool(answer == ("ok",))
