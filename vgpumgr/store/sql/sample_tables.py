"""The tables of the samples.

A bucket's id is its quarter of an hour, then its series, so that a window of time is contiguous in the file and
pruning frees whole pages. `coarse`: the bucket up to which quarters were merged into hours. Busy is percent times
microseconds, as everywhere (core/usage/tally.py).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from vgpumgr.core.usage import histogram
from vgpumgr.core.usage.readings import Counters, Off, VgpuKey
from vgpumgr.core.usage.tally import ENGINES, EngineTally, Tally
from vgpumgr.core.usage.usage_window import Series
from vgpumgr.errors import SamplesCorrupt
from vgpumgr.store.sql import file
from vgpumgr.store.sql.statements import insert, select

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from vgpumgr.core.usage.readings import VgpuReading

SERIES_BITS = 24
_ENGINES_AT = 4  # the first engine's column of a bucket
_ENGINES_END = _ENGINES_AT + 3 * len(ENGINES)

SCHEMA = file.Schema(
    what="store of samples",
    application_id=0x76475053,  # "vGPS"
    table="bucket",
    corrupt=SamplesCorrupt,
    pragmas=("auto_vacuum = INCREMENTAL",),
    migrations=(
        (
            """
            CREATE TABLE series (
                id INTEGER PRIMARY KEY, host TEXT NOT NULL, gpu TEXT NOT NULL, vm TEXT NOT NULL, slot TEXT NOT NULL,
                vm_uuid TEXT, type_name TEXT, origin TEXT, last_us INTEGER NOT NULL, observed_us INTEGER NOT NULL,
                sm_busy INTEGER NOT NULL, memory_busy INTEGER NOT NULL, encoder_busy INTEGER NOT NULL,
                decoder_busy INTEGER NOT NULL, UNIQUE (host, gpu, vm, slot)
            )
            """,
            """
            CREATE TABLE bucket (
                id INTEGER PRIMARY KEY, series INTEGER NOT NULL, samples INTEGER NOT NULL, observed_us INTEGER NOT NULL,
                sm_measured_us INTEGER NOT NULL, sm_busy INTEGER NOT NULL, sm_histogram BLOB NOT NULL,
                memory_measured_us INTEGER NOT NULL, memory_busy INTEGER NOT NULL, memory_histogram BLOB NOT NULL,
                encoder_measured_us INTEGER NOT NULL, encoder_busy INTEGER NOT NULL, encoder_histogram BLOB NOT NULL,
                decoder_measured_us INTEGER NOT NULL, decoder_busy INTEGER NOT NULL, decoder_histogram BLOB NOT NULL,
                entitled_us INTEGER NOT NULL, entitled INTEGER NOT NULL,
                framebuffer_max INTEGER, framebuffer_last INTEGER, framebuffer_size INTEGER, last_us INTEGER NOT NULL
            )
            """,
            "CREATE INDEX bucket_series ON bucket (series)",
            "CREATE TABLE host (name TEXT PRIMARY KEY, at REAL NOT NULL, cursor TEXT NOT NULL, round TEXT NOT NULL)",
            "CREATE TABLE host_error (host TEXT, error TEXT, rounds INTEGER NOT NULL, PRIMARY KEY (host, error))",
            "CREATE TABLE collector (id INTEGER PRIMARY KEY CHECK (id = 1), every_s REAL, coarse INTEGER NOT NULL DEFAULT 0)",
        ),
        (
            "CREATE TABLE run (kind TEXT PRIMARY KEY, at REAL NOT NULL, seconds REAL NOT NULL, exit_code INTEGER NOT NULL) WITHOUT ROWID",
            "CREATE TABLE host_run (host TEXT PRIMARY KEY, state TEXT NOT NULL) WITHOUT ROWID",
        ),
        (  # rounds know a GPU's temperature and power: of older ones they are unknown
            """
            UPDATE host SET round = json_set(round, '$.reading.gpus', (
                SELECT json_group_array(json_set(value, '$.temperature_c', NULL, '$.power_mw', NULL))
                FROM json_each(round, '$.reading.gpus')
            )) WHERE json_type(round, '$.reading') = 'object'
            """,
        ),
        (  # rounds know a GPU's mode and who holds its vGPUs: of older ones they are unknown
            """
            UPDATE host SET round = json_set(round, '$.reading.gpus', (
                SELECT json_group_array(json_set(value, '$.mode', NULL, '$.holders', json_array()))
                FROM json_each(round, '$.reading.gpus')
            )) WHERE json_type(round, '$.reading') = 'object'
            """,
        ),
        (
            """
            CREATE TABLE off (
                host TEXT NOT NULL, gpu TEXT NOT NULL, vm TEXT NOT NULL, slot TEXT NOT NULL, since REAL NOT NULL, at REAL NOT NULL,
                gaps_s REAL NOT NULL, PRIMARY KEY (host, gpu, vm, slot)
            ) WITHOUT ROWID
            """,
        ),
        (),  # runs know what fits on each host and whose its VMs are: of older ones that is unknown
    ),
)


RUNS_SINCE = 2  # the version that has the tables of runs
OFF_SINCE = 5  # the version that has the vGPUs that are off
BUCKET = (
    *("id", "series", "samples", "observed_us"),
    *(f"{engine}_{name}" for engine in ENGINES for name in ("measured_us", "busy", "histogram")),
    *("entitled_us", "entitled", "framebuffer_max", "framebuffer_last", "framebuffer_size", "last_us"),
)
SELECT_BUCKETS = select("bucket", BUCKET)
PUT_BUCKET = insert("bucket", BUCKET, verb="REPLACE")

SELECT_KEYS = "SELECT id, host, gpu, vm, slot FROM series"
SELECT_SERIES = "SELECT id, host, gpu, vm, slot, vm_uuid, type_name, origin FROM series"
SELECT_COUNTERS = """
    SELECT host, gpu, vm, slot, observed_us, sm_busy, memory_busy, encoder_busy, decoder_busy FROM series
"""
COUNT_SERIES = """
    INSERT INTO series (
        host, gpu, vm, slot, vm_uuid, type_name, origin, last_us, observed_us, sm_busy, memory_busy, encoder_busy, decoder_busy
    ) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
    ON CONFLICT (host, gpu, vm, slot) DO UPDATE SET
        vm_uuid = excluded.vm_uuid, type_name = excluded.type_name, origin = excluded.origin, last_us = excluded.last_us,
        observed_us = observed_us + excluded.observed_us, sm_busy = sm_busy + excluded.sm_busy,
        memory_busy = memory_busy + excluded.memory_busy, encoder_busy = encoder_busy + excluded.encoder_busy,
        decoder_busy = decoder_busy + excluded.decoder_busy
"""
PUT_HOST = """
    INSERT INTO host (name, at, cursor, round) VALUES (?, ?, ?, ?)
    ON CONFLICT (name) DO UPDATE SET at = excluded.at, cursor = excluded.cursor, round = excluded.round
"""
COUNT_ERROR = """
    INSERT INTO host_error (host, error, rounds) VALUES (?, ?, ?)
    ON CONFLICT (host, error) DO UPDATE SET rounds = rounds + excluded.rounds
"""
PUT_COLLECTOR = """
    INSERT INTO collector (id, every_s) VALUES (1, ?) ON CONFLICT (id) DO UPDATE SET every_s = excluded.every_s
"""
OFF = ("host", "gpu", "vm", "slot", "since", "at", "gaps_s")
SELECT_OFF = select("off", OFF)
PUT_OFF = insert("off", OFF, verb="REPLACE")
FORGET_OFF = "DELETE FROM off WHERE host = ? AND gpu = ? AND vm = ? AND slot = ?"
PUT_RUN = insert("run", ("kind", "at", "seconds", "exit_code"), verb="REPLACE")
PUT_HOST_RUN = insert("host_run", ("host", "state"), verb="REPLACE")


def series_of(row: Sequence[Any]) -> Series:
    """The series of a row of SELECT_SERIES, still without any samples."""
    _, host, gpu, vm, slot, vm_uuid, type_name, origin = row
    return Series(key=VgpuKey(host, gpu, vm, slot), vm_uuid=vm_uuid, type_name=type_name, origin=origin)


def counters_of(row: Sequence[Any]) -> tuple[VgpuKey, Counters]:
    """The vGPU's key and its counters in a row of SELECT_COUNTERS."""
    host, gpu, vm, slot, observed_us, *busy = row
    seconds = {f"{engine}_busy_s": value / 1e8 for engine, value in zip(ENGINES, busy, strict=True)}
    return VgpuKey(host, gpu, vm, slot), Counters(observed_s=observed_us / 1e6, **seconds)


def off_of(row: Sequence[Any]) -> tuple[VgpuKey, Off]:
    """The vGPU's key, and since when it is off, in a row of SELECT_OFF."""
    *key, since, at, gaps_s = row
    return VgpuKey(*key), Off(since=since, at=at, gaps_s=gaps_s)


def counted_row(key: VgpuKey, vgpu: VgpuReading, tallies: Collection[Tally]) -> tuple[object, ...]:
    """The row of COUNT_SERIES that adds these tallies to the series' counters."""
    last_us = max(tally.last_us for tally in tallies)
    observed_us = sum(tally.observed_us for tally in tallies)
    busy = (sum(tally.engines[index].busy for tally in tallies) for index in range(len(ENGINES)))
    return (*key, vgpu.vm_uuid, vgpu.type_name, vgpu.origin, last_us, observed_us, *busy)


def tally_of(row: Sequence[Any]) -> Tally:
    """The tally in a row of SELECT_BUCKETS."""
    engines = tuple(
        EngineTally(row[index], row[index + 1], histogram.unpack(row[index + 2]))
        for index in range(_ENGINES_AT, _ENGINES_END, 3)
    )
    return Tally(row[2], row[3], engines, *row[_ENGINES_END:])


def row_of(number: int, tally: Tally) -> tuple[object, ...]:
    """The row of PUT_BUCKET for a bucket's number and tally."""
    engines = [
        value
        for engine in tally.engines
        for value in (engine.measured_us, engine.busy, histogram.pack(engine.histogram))
    ]
    entitled = tally.entitled_us, tally.entitled
    framebuffer = tally.framebuffer_max, tally.framebuffer_last, tally.framebuffer_size
    first = number, number & (1 << SERIES_BITS) - 1, tally.samples, tally.observed_us
    return (*first, *engines, *entitled, *framebuffer, tally.last_us)
