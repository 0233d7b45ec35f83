"""The tables of the samples.

A bucket's id is its quarter of an hour, then its series, so that a window of time is contiguous in the file and pruning frees
whole pages. `coarse`: the bucket up to which quarters were merged into hours. Percent times microseconds is called busy, as
everywhere (core/usage/tally.py).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from vgpumgr.core.usage import histogram
from vgpumgr.core.usage.readings import VgpuKey
from vgpumgr.core.usage.tally import ENGINES, EngineTally, Tally
from vgpumgr.errors import SamplesCorrupt
from vgpumgr.store.sql import file

if TYPE_CHECKING:
    from collections.abc import Sequence

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
    ),
)


# Only names: types and constraints are those of the SQL above.
SERIES = file.table(
    "series",
    *("id", *VgpuKey._fields, "vm_uuid", "type_name", "origin", "last_us", "observed_us"),
    *(f"{engine}_busy" for engine in ENGINES),
)
BUCKET = file.table(
    "bucket",
    *("id", "series", "samples", "observed_us"),
    *(f"{engine}_{name}" for engine in ENGINES for name in ("measured_us", "busy", "histogram")),
    *("entitled_us", "entitled", "framebuffer_max", "framebuffer_last", "framebuffer_size", "last_us"),
)
HOST = file.table("host", "name", "at", "cursor", "round")
HOST_ERROR = file.table("host_error", "host", "error", "rounds")
COLLECTOR = file.table("collector", "id", "every_s", "coarse")


def tally_of(row: Sequence[Any]) -> Tally:
    """The tally in a bucket's row; its columns are in the table's order."""
    engines = tuple(
        EngineTally(row[index], row[index + 1], histogram.unpack(row[index + 2]))
        for index in range(_ENGINES_AT, _ENGINES_END, 3)
    )
    return Tally(row[2], row[3], engines, *row[_ENGINES_END:])


def row_of(number: int, tally: Tally) -> dict[str, object]:
    engines = [
        value
        for engine in tally.engines
        for value in (engine.measured_us, engine.busy, histogram.pack(engine.histogram))
    ]
    entitled = tally.entitled_us, tally.entitled
    framebuffer = tally.framebuffer_max, tally.framebuffer_last, tally.framebuffer_size
    first = number, number & (1 << SERIES_BITS) - 1, tally.samples, tally.observed_us
    values = (*first, *engines, *entitled, *framebuffer, tally.last_us)
    return dict(zip(BUCKET.c.keys(), values, strict=True))
