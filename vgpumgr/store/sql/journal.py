"""The journal's table, and the statements about it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import sqlalchemy as sa

from vgpumgr.errors import JournalCorrupt
from vgpumgr.store.journal_entry import Intent, JournalEntry
from vgpumgr.store.sql import file

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from vgpumgr.store.journal_entry import Question

KEEP_RUNS = 100_000  # the newest, by number rather than by a clock that can jump: about 100 MB

SCHEMA = file.Schema(
    what="journal",
    application_id=0x76475055,  # "vGPU"
    table="run",
    corrupt=JournalCorrupt,
    migrations=(
        (
            """
            CREATE TABLE run (
                id INTEGER PRIMARY KEY AUTOINCREMENT, at TEXT NOT NULL, by TEXT NOT NULL, verb TEXT NOT NULL, why TEXT NOT NULL,
                host TEXT NOT NULL, vm TEXT, vm_uuid TEXT, slot TEXT, gpu TEXT, steps TEXT NOT NULL,
                ended_at TEXT, outcome TEXT, error TEXT, message TEXT
            )
            """,
            "CREATE INDEX run_vm ON run (vm)",
            "CREATE INDEX run_vm_uuid ON run (vm_uuid)",
            "CREATE INDEX run_host ON run (host)",
        ),
    ),
)

RUN = sa.Table(
    "run",
    sa.MetaData(),
    sa.Column("id", sa.Integer, primary_key=True),
    *(sa.Column(name, sa.Text, nullable=False) for name in ("at", "by", "verb", "why", "host")),
    *(sa.Column(name, sa.Text) for name in ("vm", "vm_uuid", "slot", "gpu")),
    sa.Column("steps", sa.Text, nullable=False),
    *(sa.Column(name, sa.Text) for name in ("ended_at", "outcome", "error", "message")),
)


def insert(path: Path, entry: Intent, *, by: str, at: str) -> int:
    """Insert a run and return its number; creates the file if missing, and deletes runs that are too old to keep."""
    values = {
        "at": at,
        "by": by,
        "verb": entry.verb,
        "why": entry.why,
        "host": entry.host,
        "vm": entry.vm,
        "vm_uuid": entry.vm_uuid,
        "slot": entry.slot,
        "gpu": entry.gpu,
        "steps": json.dumps(entry.steps),
    }
    with file.writing(path, SCHEMA) as connection:
        inserted = connection.execute(RUN.insert().values(values)).inserted_primary_key
        assert inserted is not None
        number = int(inserted[0])
        connection.execute(RUN.delete().where(RUN.c.id <= number - KEEP_RUNS))
        return number


def finish(path: Path, number: int, *, at: str, outcome: str, error: str | None, message: str | None) -> None:
    with file.writing(path, SCHEMA) as connection:
        ended = {"ended_at": at, "outcome": outcome, "error": error, "message": message}
        connection.execute(RUN.update().where(RUN.c.id == number).values(ended))


def select_runs(path: Path, question: Question) -> Sequence[JournalEntry]:
    """Newest first, by number: two controllers' clocks, or a clock that was set back, do not disturb the order."""
    query = sa.select(RUN).order_by(RUN.c.id.desc()).limit(question.limit)
    if question.since is not None:
        query = query.where(RUN.c.at >= question.since)
    if question.vm_uuid is not None:
        query = query.where(RUN.c.vm_uuid == question.vm_uuid)
    if question.name is not None:
        same = sa.select(RUN.c.vm_uuid).where(RUN.c.vm == question.name, RUN.c.vm_uuid.is_not(None))
        query = query.where(sa.or_(RUN.c.vm == question.name, RUN.c.host == question.name, RUN.c.vm_uuid.in_(same)))
    with file.reading(path, SCHEMA) as connection:
        if connection is None:
            return ()
        return tuple(_run(row) for row in connection.execute(query).mappings())


def _run(row: sa.RowMapping) -> JournalEntry:
    steps = json.loads(row["steps"])
    entry = {name: row[name] for name in ("verb", "why", "host", "vm", "vm_uuid", "slot", "gpu")}
    rest = {name: row[name] for name in ("id", "at", "by", "ended_at", "outcome", "error", "message")}
    return JournalEntry(intent=Intent(**entry, steps=tuple(steps)), **rest)
