"""What the controller's files store about a VM or a host, and its removal. Raises StoreError."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from vgpumgr.store.sql import file, journal, sample_tables
from vgpumgr.store.sql.statements import scalar, where

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterator
    from pathlib import Path

    from vgpumgr.store.sql.file import Schema

Kind = Literal["vm", "host"]

_VM, _HOST, _NAME = "(vm = :name OR vm_uuid = :name)", "host = :name", "name = :name"
_SERIES = {"vm": where("SELECT id FROM series", _VM), "host": where("SELECT id FROM series", _HOST)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Trace:
    """How many rows of one kind a file has. `what` names the kind and follows the number: "14 runs in the history"."""

    path: Path
    what: str
    rows: int


@dataclass(frozen=True, slots=True)
class _Place:
    """A table that can have such rows. `condition` selects them; `since` is the file's first version with the table."""

    what: str
    table: str
    condition: str
    since: int = 1


def _samples(kind: Kind) -> tuple[_Place, ...]:
    measured = (
        _Place("measured quarters of an hour", "bucket", f"series IN ({_SERIES[kind]})"),
        _Place("series of measures", "series", _VM if kind == "vm" else _HOST),
    )
    if kind == "vm":
        return measured
    return (
        *measured,
        _Place("last readings", "host", _NAME),
        _Place("counts of errors", "host_error", _HOST),
        _Place("vGPUs that were off", "off", _HOST, sample_tables.OFF_SINCE),
        _Place("states after a plan or reconcile", "host_run", _HOST, sample_tables.RUNS_SINCE),
    )


def traces(store: Path, samples: Path, kind: Kind, name: str) -> tuple[Trace, ...]:
    """Count the stored rows by kind, without kinds that have none. `name` may be a VM's UUID."""
    rows: list[Trace] = []
    for path, schema, places in _files(store, samples, kind):
        with file.reading(path, schema) as connection:
            rows += [] if connection is None else _counted(connection, path, places, name)
    return tuple(rows)


def forget(store: Path, samples: Path, kind: Kind, name: str) -> tuple[Trace, ...]:
    """Delete the rows and return what was deleted. In each file, all of them are deleted or none."""
    rows: list[Trace] = []
    for path, schema, places in _files(store, samples, kind):
        if not path.exists():
            continue
        with file.transaction(path, schema) as connection:
            counts = _counted(connection, path, places, name)
            for place in places:
                connection.execute(where(f"DELETE FROM {place.table}", place.condition), {"name": name})  # noqa: S608 -- our own names
        rows += counts
    return tuple(rows)


def _files(store: Path, samples: Path, kind: Kind) -> Iterator[tuple[Path, Schema, tuple[_Place, ...]]]:
    yield store, journal.SCHEMA, (_Place("runs in the history", "run", _VM if kind == "vm" else _HOST),)
    yield samples, sample_tables.SCHEMA, _samples(kind)


def _counted(connection: sqlite3.Connection, path: Path, places: tuple[_Place, ...], name: str) -> list[Trace]:
    version = scalar(connection, "SELECT max(version) FROM migration") or 0
    counts = (
        (place, scalar(connection, where(f"SELECT count(*) FROM {place.table}", place.condition), {"name": name}))  # noqa: S608 -- our own names
        for place in places
        if place.since <= version
    )
    return [Trace(path=path, what=place.what, rows=rows) for place, rows in counts if rows]
