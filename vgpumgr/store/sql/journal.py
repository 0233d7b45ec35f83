"""The journal's table, and the statements about it."""

from __future__ import annotations

import json
from dataclasses import asdict, fields
from typing import TYPE_CHECKING, Any

from vgpumgr.errors import JournalCorrupt
from vgpumgr.store.journal_entry import DONE, End, Intent, JournalEntry
from vgpumgr.store.sql import file
from vgpumgr.store.sql.statements import insert as insert_into
from vgpumgr.store.sql.statements import scalar, select, where

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path

    from vgpumgr.store.journal_entry import Begin, Question

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
        (
            "ALTER TABLE run ADD COLUMN made TEXT",  # the types of its new vGPUs, a line each; NULL in older runs
            "CREATE INDEX run_made ON run (verb, outcome, host, made, at)",
        ),
    ),
)

_INTENT = tuple(field.name for field in fields(Intent))
_LINE = tuple(field.name for field in fields(JournalEntry) if field.name != "intent")
RUN = (*_INTENT, *_LINE)
_BEGUN = ("at", "by", "made", *_INTENT)
_MADE_SINCE = 2  # the version of the schema
_INSERT = insert_into("run", _BEGUN)
_SELECT = select("run", RUN)
_COUNT_ATTACHED = """
    SELECT host, made, count(*) FROM run
    WHERE verb = 'attach' AND outcome = ? AND at BETWEEN ? AND ?
    GROUP BY host, made
"""
_ENDED = "UPDATE run SET ended_at = ?, outcome = ?, error = ?, message = ? WHERE id = ?"
# The condition of each field of a Question; a field that is None has none.
_CONDITIONS = {
    "since": "at >= :since",
    "name": "(vm = :name OR host = :name OR vm_uuid IN (SELECT vm_uuid FROM run WHERE vm = :name AND vm_uuid IS NOT NULL))",
    "vm_uuid": "vm_uuid = :vm_uuid",
}


def write(path: Path, lines: Iterable[Begin | End]) -> None:
    """Write beginnings of runs, each of which gets its number, and ends of runs: all of them, or nothing.

    It creates the file if missing, and deletes all but the newest KEEP_RUNS runs.
    """
    with file.transaction(path, SCHEMA) as connection:
        number = None
        for line in lines:
            if isinstance(line, End):
                connection.execute(_ENDED, (line.at, line.outcome, line.error, line.message, line.number))
                continue
            steps = line.intent.steps
            made = "\n".join(str(step.get("type_name")) for step in steps if step.get("verb") == "create_vgpu")
            values = asdict(line.intent) | {"at": line.at, "by": line.by, "steps": json.dumps(steps), "made": made}
            number = line.number = connection.execute(_INSERT, [values[name] for name in _BEGUN]).lastrowid
        if number is not None:
            connection.execute("DELETE FROM run WHERE id <= ?", (number - KEEP_RUNS,))


def select_runs(path: Path, question: Question) -> Sequence[JournalEntry]:
    """The matching runs, newest first. They are sorted by number, since clocks differ and can be set back.

    A damaged row (by hand, or on disk in a way that SQLite does not notice) hides no other one: it is shown as far as
    it can be read, and its message says what cannot.
    """
    parameters = asdict(question)
    conditions = (text for name, text in _CONDITIONS.items() if parameters[name] is not None)
    query = f"{where(_SELECT, *conditions)} ORDER BY id DESC LIMIT :limit"
    with file.reading(path, SCHEMA) as connection:
        if connection is None:
            return ()
        connection.text_factory = _text
        return tuple(map(_run, connection.execute(query, parameters).fetchall()))


def count_attached(path: Path, since: str, until: str) -> Sequence[tuple[str, Sequence[str], int]]:
    """Rows of host, types and number: that many attaches on the host made vGPUs of just these types in that time.

    A missing file, or one of an earlier version, has none. Raises StoreError; writes nothing.
    """
    with file.reading(path, SCHEMA) as connection:
        if connection is None or scalar(connection, "SELECT max(version) FROM migration") < _MADE_SINCE:
            return ()
        connection.text_factory = _text
        rows = connection.execute(_COUNT_ATTACHED, (DONE, since, until)).fetchall()
    return [(host, str(made).split("\n"), count) for host, made, count in rows]


def _text(raw: bytes) -> str:
    return raw.decode(errors="replace")


def _run(row: Sequence[Any]) -> JournalEntry:
    cells = zip(RUN, row, strict=True)
    values: dict[str, Any] = {name: _text(value) if isinstance(value, bytes) else value for name, value in cells}
    steps = _steps(values["steps"])
    if steps is None:
        values["message"] = "; ".join(filter(None, (values["message"], "the steps of this row cannot be read")))
    intent = {name: values[name] for name in _INTENT} | {"steps": steps or ()}
    return JournalEntry(intent=Intent(**intent), **{name: values[name] for name in _LINE})


def _steps(text: str) -> tuple[Mapping[str, object], ...] | None:
    try:
        steps = json.loads(text)
    except (ValueError, RecursionError):
        return None
    is_list = isinstance(steps, list) and all(isinstance(step, dict) for step in steps)
    return tuple(steps) if is_list else None
