"""What a day of samples costs: 500 VMs on 20 hosts, read every 10 s for 24 hours, beside the same samples as rows.

    .venv/bin/python -m benchmarks.usage_cost

Both stores are filled from the same artificial loads, through the program's own interface and through sqlite3. Measured
are the files' sizes, one more round, and `vgpumgr usage --since 24h` in a fresh process; at the end most of the day is
pruned. Exit 1 where an answer takes longer than LIMIT_S or the file is larger than LIMIT_BYTES.
"""

from __future__ import annotations

import random
import sqlite3
import statistics
import sys
import tempfile
import time
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.measured import PROGRAM, Cost, Row, environment, median, report, spent
from vgpumgr.core.usage.readings import Cursor, GpuCursor, GpuReading, HostReading, Load, Measured, Round, VgpuReading
from vgpumgr.core.usage.tally import BUCKET_S, FINE_US
from vgpumgr.names import HostName, PciAddress, Slot, VmUuid
from vgpumgr.store.place import samples_beside
from vgpumgr.store.sql.samples import Samples

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

HOSTS, VMS_OF_A_HOST, EVERY_S, HOURS = 20, 25, 10, 24
RUNS = 5
LIMIT_S, LIMIT_BYTES = 1.0, 500_000_000
GIB = 1 << 30
US = 1_000_000
GPUS = tuple(PciAddress(f"0000:{bus:02x}:00.0") for bus in (0x41, 0x81))

# The plain way: a row for each sample, and SQL's own aggregates and window functions.
PLAIN = """
CREATE TABLE sample (at INTEGER, seconds REAL, host TEXT, gpu TEXT, vm TEXT, slot TEXT,
    sm INTEGER, memory INTEGER, encoder INTEGER, decoder INTEGER, framebuffer INTEGER);
CREATE INDEX sample_at ON sample (at);
"""
PLAIN_MEANS = """
SELECT host, gpu, vm, slot, sum(sm * seconds) / sum(seconds), max(sm), max(framebuffer), sum(seconds)
FROM sample WHERE at >= ? GROUP BY host, gpu, vm, slot
"""
PLAIN_P95 = """
SELECT host, gpu, vm, slot, min(sm) FROM (
    SELECT host, gpu, vm, slot, sm, sum(seconds) OVER (PARTITION BY host, gpu, vm, slot ORDER BY sm) AS below,
        sum(seconds) OVER (PARTITION BY host, gpu, vm, slot) AS whole
    FROM sample WHERE at >= ? AND host = 'kvm01')
WHERE below >= 0.95 * whole GROUP BY host, gpu, vm, slot
"""


def main() -> int:
    """Print what everything took; exit 1 where a limit is exceeded."""
    with tempfile.TemporaryDirectory(prefix="vgpumgr-bench-") as folder:
        store, plain_path = Path(folder, "store.sqlite"), Path(folder, "plain.sqlite")
        samples = Samples(samples_beside(store))
        began = (int(time.time()) - HOURS * 3600) // EVERY_S * EVERY_S
        plain = sqlite3.connect(plain_path)
        plain.executescript(PLAIN)
        sums = {"ours": 0.0, "plain": 0.0, "rows": 0.0}
        for batch in _batches(began):
            started = time.perf_counter()
            samples.add(batch, every_s=EVERY_S)
            samples.coarsen(before_us=int(batch[-1].at) * US - FINE_US)  # as `collect` does
            sums["ours"] += time.perf_counter() - started
            started = time.perf_counter()
            rows = [row for one in batch for row in _plain_rows(one)]
            plain.executemany("INSERT INTO sample VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", rows)
            plain.commit()
            sums["plain"] += time.perf_counter() - started
            sums["rows"] += len(rows)
        print(f"{sums['rows']:.0f} samples; stored in {sums['ours']:.1f} s, as plain rows in {sums['plain']:.1f} s")
        return _measure(samples, store, plain, plain_path, began)


def _measure(samples: Samples, store: Path, plain: sqlite3.Connection, plain_path: Path, began: int) -> int:
    size, plain_size = _size(samples.path), _size(plain_path)
    one_more = statistics.median(_timed(partial(samples.add, batch, every_s=EVERY_S)) for batch in _rounds(5))
    answer = _usage_cost(store)
    empty = _usage_cost(store.with_name("none") / "store.sqlite")
    since = ((began - BUCKET_S) * US,)
    means = _timed(lambda: plain.execute(PLAIN_MEANS, since).fetchall())
    p95 = _timed(lambda: plain.execute(PLAIN_P95, since).fetchall())
    plain.close()
    pruning = _timed(lambda: samples.prune(before_us=(began + 18 * 3600) * US, max_bytes=LIMIT_BYTES))
    return report(
        [
            Row("a day of samples, plain rows: file", size / 1e6, "MB", plain_size / 1e6, most=LIMIT_BYTES / 1e6),
            Row("usage --since 24h, one engine's means of plain rows", answer.wall, "s", means, most=LIMIT_S),
            Row("usage --since 24h, one quantile of one host of 20 of plain rows", answer.wall, "s", p95),
            Row("usage --since 24h, the same without samples: CPU", answer.cpu, "s", empty.cpu),
            Row("one more round of all 20 hosts", one_more, "s"),
            Row("pruned to the last 6 hours", pruning, "s"),
            Row("pruned to the last 6 hours: file", _size(samples.path) / 1e6, "MB"),
        ]
    )


def _usage_cost(store: Path) -> Cost:
    """The cost of `usage` as a person runs it, the median of several. Without samples, too, it ends well."""
    environ = environment({"VGPUMGR_STORE": str(store)})
    return median([spent([PROGRAM, "usage", "--since", "24h"], environ) for _ in range(RUNS)])


def _timed(work: object) -> float:
    assert callable(work)
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


def _size(path: Path) -> int:
    return sum(file.stat().st_size for file in (path, Path(f"{path}-wal")) if file.exists())


def _batches(began: int) -> Iterator[list[Round]]:
    """The day's rounds, a quarter of an hour at a time."""
    fleet = _Fleet()
    for quarter in range(began, began + HOURS * 3600, BUCKET_S):
        yield [one for moment in range(quarter, quarter + BUCKET_S, EVERY_S) for one in fleet.rounds(moment)]


def _rounds(count: int) -> Iterator[Sequence[Round]]:
    fleet = _Fleet()
    now = int(time.time())
    for number in range(count):
        yield fleet.rounds(now + number * EVERY_S)


class _Fleet:
    """VMs whose loads wander: most between a tenth and two thirds, some idle, some at the top; by a fixed seed."""

    def __init__(self) -> None:
        self._random = random.Random(5)
        self._loads = [self._random.choice((0, 5, 20, 40, 60, 95)) for _ in range(HOSTS * VMS_OF_A_HOST)]
        self._known: dict[tuple[int, int], Load] = {}
        self._vgpus = [self._vgpu(number) for number in range(HOSTS * VMS_OF_A_HOST)]

    def rounds(self, moment: int) -> list[Round]:
        return [self._round(host, moment) for host in range(HOSTS)]

    def _round(self, host: int, moment: int) -> Round:
        first = host * VMS_OF_A_HOST
        samples = tuple(self._measured(number, moment * US) for number in range(first, first + VMS_OF_A_HOST))
        name = HostName(f"kvm{host + 1:02}")
        gpus = tuple(
            GpuReading(
                pci=pci, uuid=None, name="NVIDIA A40", framebuffer_size_bytes=48 * GIB, framebuffer_used_bytes=9 * GIB,
                sm=70, memory=20, policy="best-effort", vgpus=tuple(row.vgpu for row in samples if row.gpu == pci),
            )
            for pci in GPUS
        )  # fmt: skip
        reading = HostReading(host=name, boot="b7", now_us=moment * US, driver="570.133.10", gpus=gpus, unknown=())
        cursor = GpuCursor(at_us=moment * US, instances=frozenset(range(VMS_OF_A_HOST)))
        return Round(
            host=name, at=float(moment), seconds=0.4, reading=reading, measured=samples,
            cursor=Cursor(boot="b7", gpus=dict.fromkeys(GPUS, cursor)),
        )  # fmt: skip

    def _measured(self, number: int, until_us: int) -> Measured:
        base = self._loads[number]
        if self._random.random() < 0.002:
            base = self._loads[number] = self._random.choice((0, 5, 20, 40, 60, 95))
        sm = min(100, max(0, base + self._random.randint(-8, 8))) if base else 0
        load = self._known.get((sm, number % 3))
        if load is None:
            load = self._known[sm, number % 3] = Load(sm=sm, memory=sm // 3, encoder=(number % 3) * 4, decoder=0)
        return Measured(
            gpu=GPUS[number % 2],
            vgpu=self._vgpus[number],
            since_us=until_us - EVERY_S * US,
            until_us=until_us,
            load=load,
        )

    def _vgpu(self, number: int) -> VgpuReading:
        return VgpuReading(
            vm=f"vm{number:03}", vm_uuid=VmUuid(f"6a1f0000-0000-4000-8000-{number:012}"), slot=Slot("vgpu0"), uuid=None,
            vf=PciAddress("0000:41:00.4"), type_id=560, type_name="A40-4Q", origin="ours", state="running",
            entitled=Fraction(1, 12), framebuffer_size_bytes=4 * GIB, framebuffer_used_bytes=3 * GIB, instances=(number,),
            at_us=1, load=Load(sm=1, memory=1, encoder=0, decoder=0),
        )  # fmt: skip


def _plain_rows(one: Round) -> Iterator[tuple[object, ...]]:
    for row in one.measured:
        vgpu, load = row.vgpu, row.load
        yield (
            row.until_us, row.seconds, one.host, row.gpu, vgpu.vm, vgpu.slot,
            load.sm, load.memory, load.encoder, load.decoder, vgpu.framebuffer_used_bytes,
        )  # fmt: skip


if __name__ == "__main__":
    sys.exit(main())
