"""The journal's SQLite file: sqlalchemy's one importer. Raises StoreError and nothing else.

The file is 0600 in a folder 0700, in WAL mode, and is put into its place whole (written beside it, then linked), so nobody
ever opens half a schema. Migrations go forward only; each is SQL that is never changed once it was released.
"""

from __future__ import annotations

import contextlib
import json
import os
import sqlite3
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa

from vgpumgr.errors import JournalCorrupt, NewerSchema, StoreError
from vgpumgr.store import place
from vgpumgr.store.runs import Entry, Run

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from vgpumgr.store.runs import Question

APPLICATION_ID = 0x76475055  # "vGPU": how a file of ours is told from any other SQLite database
BUSY_S = 5.0

MIGRATIONS: tuple[tuple[str, ...], ...] = (
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
)
VERSION = len(MIGRATIONS)

_METADATA = sa.MetaData()
MIGRATION = sa.Table(
    "migration", _METADATA, sa.Column("version", sa.Integer, primary_key=True), sa.Column("at", sa.Text)
)
RUN = sa.Table(
    "run",
    _METADATA,
    sa.Column("id", sa.Integer, primary_key=True),
    *(sa.Column(name, sa.Text, nullable=False) for name in ("at", "by", "verb", "why", "host")),
    *(sa.Column(name, sa.Text) for name in ("vm", "vm_uuid", "slot", "gpu")),
    sa.Column("steps", sa.Text, nullable=False),
    *(sa.Column(name, sa.Text) for name in ("ended_at", "outcome", "error", "message")),
)


def insert(path: Path, entry: Entry, *, by: str, at: str) -> int:
    """A new run's number; makes the file where there is none."""
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
    with _writing(path) as connection:
        number = connection.execute(RUN.insert().values(values)).inserted_primary_key
        assert number is not None
        return int(number[0])


def finish(path: Path, number: int, *, at: str, outcome: str, error: str | None, message: str | None) -> None:
    with _writing(path) as connection:
        ended = {"ended_at": at, "outcome": outcome, "error": error, "message": message}
        connection.execute(RUN.update().where(RUN.c.id == number).values(ended))


def select_runs(path: Path, question: Question) -> Sequence[Run]:
    """Newest first. Numbers grow with time; two controllers' clocks, or one set back, do not disturb their order."""
    query = sa.select(RUN).order_by(RUN.c.id.desc()).limit(question.limit)
    if question.since is not None:
        query = query.where(RUN.c.at >= question.since)
    if question.vm_uuid is not None:
        query = query.where(RUN.c.vm_uuid == question.vm_uuid)
    if question.name is not None:
        same = sa.select(RUN.c.vm_uuid).where(RUN.c.vm == question.name, RUN.c.vm_uuid.is_not(None))
        query = query.where(sa.or_(RUN.c.vm == question.name, RUN.c.host == question.name, RUN.c.vm_uuid.in_(same)))
    with _translated(path, "read"):
        if not _is_there(path):
            return ()
        with _reading(path) as connection:
            return tuple(_run(row) for row in connection.execute(query).mappings())


def _run(row: sa.RowMapping) -> Run:
    steps = json.loads(row["steps"])
    entry = {name: row[name] for name in ("verb", "why", "host", "vm", "vm_uuid", "slot", "gpu")}
    rest = {name: row[name] for name in ("id", "at", "by", "ended_at", "outcome", "error", "message")}
    return Run(entry=Entry(**entry, steps=tuple(steps)), **rest)


@contextmanager
def _writing(path: Path) -> Iterator[sa.Connection]:
    with _translated(path, "written"):
        if not _is_there(path):
            _make(path)
        with _connect(place.uri(path, "rw")) as connection:
            version = _version(path, connection)
            if version < VERSION:
                _migrate(path, connection)
            yield connection


@contextmanager
def _reading(path: Path) -> Iterator[sa.Connection]:
    """An older schema is read as it is: so far there is none that lacks a column."""
    with _connect(place.reading_uri(path)) as connection:
        connection.exec_driver_sql("PRAGMA query_only = ON")
        if _version(path, connection) == 0:
            raise JournalCorrupt(f"{path} is no journal: it is empty", hint=_away(path))
        yield connection


@contextmanager
def _connect(uri: str) -> Iterator[sa.Connection]:
    engine = sa.create_engine(
        "sqlite://",
        creator=lambda: sqlite3.connect(uri, uri=True, timeout=BUSY_S, isolation_level=None),
        poolclass=sa.NullPool,
        isolation_level="AUTOCOMMIT",
    )
    with engine.connect() as connection:
        connection.exec_driver_sql("PRAGMA foreign_keys = ON")
        yield connection


def _version(path: Path, connection: sa.Connection) -> int:
    """The schema's number, 0 for an empty file. Raises JournalCorrupt and NewerSchema."""
    tables = {
        str(name) for (name,) in connection.exec_driver_sql("SELECT name FROM sqlite_master WHERE type = 'table'")
    }
    if not tables:
        return 0
    ours = connection.exec_driver_sql("PRAGMA application_id").scalar() == APPLICATION_ID
    if not ours or not {"migration", "run"} <= tables:
        raise JournalCorrupt(f"{path} is another program's database, not a journal", hint=_away(path))
    found = connection.execute(sa.select(sa.func.max(MIGRATION.c.version))).scalar() or 0
    if found > VERSION:
        raise NewerSchema(
            f"a newer vgpumgr made the journal {path} (schema {found}, this one knows {VERSION})",
            hint="use that vgpumgr, or name another file in VGPUMGR_STORE",
        )
    return int(found)


def _make(path: Path) -> None:
    """A new, empty journal; another process may make it at the same time, and either one's will do."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    # Its own name for each process and thread that makes one; what a kill leaves is a small file that says what it is.
    new = path.with_name(f".{path.name}.new-{os.getpid()}-{time.monotonic_ns()}")
    os.close(os.open(new, os.O_CREAT | os.O_EXCL | os.O_RDWR | os.O_CLOEXEC, 0o600))
    try:
        with _connect(place.uri(new, "rw")) as connection:
            connection.exec_driver_sql("PRAGMA journal_mode = WAL")
            _migrate(new, connection)
        with contextlib.suppress(FileExistsError):
            os.link(new, path)
    finally:
        new.unlink()


def _migrate(path: Path, connection: sa.Connection) -> None:
    """Forward, one version after the other, in one transaction; the version is read again inside it."""
    connection.exec_driver_sql("BEGIN IMMEDIATE")
    try:
        have = _version(path, connection)
        if have == 0:
            connection.exec_driver_sql(f"PRAGMA application_id = {APPLICATION_ID}")
            connection.exec_driver_sql("CREATE TABLE migration (version INTEGER PRIMARY KEY, at TEXT)")
        for version, statements in enumerate(MIGRATIONS[have:], have + 1):
            for statement in statements:
                connection.exec_driver_sql(statement)
            at = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
            connection.execute(MIGRATION.insert().values(version=version, at=at))
    except BaseException:
        connection.exec_driver_sql("ROLLBACK")
        raise
    connection.exec_driver_sql("COMMIT")


@contextmanager
def _translated(path: Path, done: str) -> Iterator[None]:
    """SQLite's and the file system's errors as ours, told apart by their codes."""
    try:
        yield
    except sa.exc.DBAPIError as error:
        raise _judge(path, done, error.orig) from error
    except sqlite3.Error as error:
        raise _judge(path, done, error) from error
    except OSError as error:
        raise StoreError(
            f"the journal {path} cannot be {done}: {error.strerror or error}",
            hint="VGPUMGR_STORE names another file; what is desired does not depend on it",
        ) from error


def _judge(path: Path, done: str, error: Any) -> StoreError:
    code = getattr(error, "sqlite_errorcode", None)
    # The primary code is the low byte of an extended one (sqlite.org/rescode.html).
    match None if code is None else code & 0xFF:
        case sqlite3.SQLITE_CORRUPT | sqlite3.SQLITE_NOTADB:
            return JournalCorrupt(f"the journal {path} is damaged: {error}", hint=_away(path))
        case sqlite3.SQLITE_BUSY | sqlite3.SQLITE_LOCKED:
            return StoreError(
                f"the journal {path} is locked by another process", hint=f"`fuser {path}` names it; history only"
            )
        case _:
            return StoreError(
                f"the journal {path} cannot be {done}: {error}",
                hint="VGPUMGR_STORE names another file; what is desired does not depend on it",
            )


def _away(path: Path) -> str:
    import shlex

    target = shlex.quote(str(path))
    return f"it holds history only and can be moved away: mv {target} {target}.broken"


def _is_there(path: Path) -> bool:
    """Raises OSError where that cannot be told."""
    try:
        path.stat()
    except FileNotFoundError:
        return False
    return True
