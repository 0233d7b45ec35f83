"""The journal's table, and the statements about it."""

from __future__ import annotations

import json
from dataclasses import asdict, fields
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

_INTENT = tuple(field.name for field in fields(Intent))
_LINE = tuple(field.name for field in fields(JournalEntry) if field.name != "intent")
RUN = file.table("run", *_INTENT, *_LINE)


def insert(path: Path, entry: Intent, *, by: str, at: str) -> int:
    """Insert a run and return its number; creates the file if missing, and deletes runs that are too old to keep."""
    values = asdict(entry) | {"at": at, "by": by, "steps": json.dumps(entry.steps)}
    with file.writing(path, SCHEMA) as connection:
        number = connection.execute(RUN.insert().values(values)).lastrowid
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
    entry = {name: row[name] for name in _INTENT} | {"steps": tuple(json.loads(row["steps"]))}
    return JournalEntry(intent=Intent(**entry), **{name: row[name] for name in _LINE})
