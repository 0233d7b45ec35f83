"""What the controller's files store about a VM or a host, and its removal. Raises StoreError."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from vgpumgr.store import rounds
from vgpumgr.store.sql import file, journal, sample_tables
from vgpumgr.store.sql.statements import scalar, where

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterator
    from pathlib import Path

    from vgpumgr.store.sql.file import Schema

Kind = Literal["vm", "host"]

_VM, _HOST, _NAME = "(vm = :name OR vm_uuid = :name)", "host = :name", "name = :name"
# _READ: hosts whose last round has the VM. _OFF, _OWNED: by the VM's name alone; the last rounds say whose a UUID is.
_READ = "EXISTS (SELECT 1 FROM json_tree(round) WHERE key IN ('vm', 'vm_uuid') AND atom = :name)"
_CALLED = """(
    SELECT host.name, json_extract(one.value, '$.vm') FROM host, json_tree(round) AS one
    WHERE one.type = 'object' AND json_extract(one.value, '$.vm_uuid') = :name
)"""
_OFF = f"(vm = :name OR (host, vm) IN {_CALLED})"
_OWNED = f"(key = :name OR (host_run.host, key) IN {_CALLED})"
_HAS_OWNER = where("SELECT 1 FROM json_each(state, '$.owners')", _OWNED)
_OTHER_OWNERS = where("SELECT json_group_object(key, value) FROM json_each(state, '$.owners')", f"NOT {_OWNED}")
_SERIES = {"vm": where("SELECT id FROM series", _VM), "host": where("SELECT id FROM series", _HOST)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Trace:
    """How many rows of one kind a file has. `what` names the kind and follows the number: "14 runs in the history"."""

    path: Path
    what: str
    rows: int


@dataclass(frozen=True, slots=True)
class _Place:
    """A table that can have rows about a VM or host. `condition` selects them.

    `since`: the schema's first version that has the table. `kept`: the assignment that takes the VM out of a row, which
    stays; None: the row is deleted.
    """

    what: str
    table: str
    condition: str
    since: int = 1
    kept: str | None = None

    @property
    def removal(self) -> str:
        head = f"DELETE FROM {self.table}" if self.kept is None else f"UPDATE {self.table} SET {self.kept}"  # noqa: S608 -- our own names
        return where(head, self.condition)


def _samples(kind: Kind) -> tuple[_Place, ...]:
    measured = (
        _Place("measured quarters of an hour", "bucket", f"series IN ({_SERIES[kind]})"),
        _Place("series of measures", "series", _VM if kind == "vm" else _HOST),
    )
    if kind == "vm":
        return (  # `_OFF` and `_OWNED` read the last readings, so they come before these change
            _Place("vGPUs that were off", "off", _OFF, sample_tables.OFF_SINCE),
            *measured,
            _Place(
                "states of a host after a plan or reconcile",
                "host_run",
                f"EXISTS ({_HAS_OWNER})",
                sample_tables.RUNS_SINCE,
                kept=f"state = json_set(state, '$.owners', ({_OTHER_OWNERS}))",
            ),
            _Place("last readings of a host", "host", _READ, kept="round = without_vm(round, :name)"),
        )
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
            connection.create_function("without_vm", 2, rounds.without_vm)
            counts = _counted(connection, path, places, name)
            for place in places:
                connection.execute(place.removal, {"name": name})
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
