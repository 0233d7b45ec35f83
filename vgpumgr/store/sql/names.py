"""The names that the journal knows, for completion. The look-up hardly waits, and any error gives no names."""

from __future__ import annotations

import contextlib
import sqlite3
from dataclasses import dataclass
from typing import TYPE_CHECKING

from vgpumgr.store import place

if TYPE_CHECKING:
    from pathlib import Path

_WAIT_S = 0.05


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """Sorted names of VMs and hosts, and the VMs' UUIDs."""

    vms: tuple[str, ...] = ()
    hosts: tuple[str, ...] = ()
    uuids: tuple[str, ...] = ()


def known(path: Path) -> Known:
    """The VMs and hosts of the journal at `path`. Raises nothing and creates no file."""
    try:
        uri = place.reading_uri(path)
        with contextlib.closing(sqlite3.connect(uri, uri=True, timeout=_WAIT_S)) as connection:
            connection.execute("PRAGMA query_only = ON")
            return Known(
                vms=_column(connection, "vm"),
                hosts=_column(connection, "host"),
                uuids=_column(connection, "vm_uuid"),
            )
    except (sqlite3.Error, OSError, ValueError):
        return Known()


def _column(connection: sqlite3.Connection, name: str) -> tuple[str, ...]:
    rows = connection.execute(f"SELECT DISTINCT {name} FROM run WHERE {name} IS NOT NULL ORDER BY {name}")  # noqa: S608 -- our own two words
    return tuple(text for (text,) in rows if isinstance(text, str))
