"""The only way to create, open, migrate and check our SQLite files. Raises StoreError and nothing else.

The file is 0600 in a folder 0700, in WAL mode, and appears complete (written under another name, then linked), so no
reader opens half a schema. Migrations only go forward; the SQL of a released migration never changes.
"""

from __future__ import annotations

import contextlib
import os
import shlex
import sqlite3
import time
from contextlib import closing, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from vgpumgr.errors import NewerSchema, StoreError, UnstorableValue
from vgpumgr.store import place
from vgpumgr.store.sql.statements import scalar

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

BUSY_S = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Schema:
    """A kind of SQLite file. `what`: its name in messages. `application_id`: distinguishes it from other databases.

    `table`: a table that its first migration creates. `pragmas`: settings that only an empty file accepts. `corrupt`:
    the error to raise for a file that is damaged or not ours.
    """

    what: str
    application_id: int
    migrations: tuple[tuple[str, ...], ...]
    table: str
    corrupt: type[StoreError]
    pragmas: tuple[str, ...] = ()

    @property
    def version(self) -> int:
        return len(self.migrations)


@contextmanager
def writing(path: Path, schema: Schema) -> Iterator[sqlite3.Connection]:
    """Open the file for writing.

    It is created if missing, and migrated to the newest schema. Each statement commits by itself.
    """
    with _translated(path, schema, "written"):
        if not _is_there(path):
            _make(path, schema)
        with _connect(place.uri(path, "rw")) as connection:
            if _version(path, schema, connection) < schema.version:
                _migrate(path, schema, connection)
            yield connection


@contextmanager
def transaction(path: Path, schema: Schema) -> Iterator[sqlite3.Connection]:
    """Open the file as `writing` does, and run everything in one transaction: all of it is kept, or nothing."""
    with writing(path, schema) as connection, begun(connection):
        yield connection


@contextmanager
def reading(path: Path, schema: Schema) -> Iterator[sqlite3.Connection | None]:
    """Open the file read-only; gives None if there is no file. Everything read is from one moment.

    A file with an older schema is not migrated. A caller that reads a table or a column of a later schema checks the
    version first.
    """
    with _translated(path, schema, "read"):
        if not _is_there(path):
            yield None
            return
        with _connect(place.reading_uri(path)) as connection:
            connection.execute("PRAGMA query_only = ON")
            connection.execute("BEGIN")
            if _version(path, schema, connection) == 0:
                raise schema.corrupt(f"{path} is not a {schema.what}: it is empty", hint=_away(path))
            yield connection


def shrink(connection: sqlite3.Connection) -> None:
    """Return free pages to the file system; needs auto_vacuum = INCREMENTAL and no open transaction."""
    # The pragma frees one page per step and returns no columns: execute() would make only one step.
    connection.executescript("PRAGMA incremental_vacuum")
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()


@contextmanager
def _connect(uri: str) -> Iterator[sqlite3.Connection]:
    # Closed explicitly: the connection's own context manager ends a transaction and closes nothing. No isolation level:
    # every statement commits by itself, and only this file begins and ends transactions.
    with closing(sqlite3.connect(uri, uri=True, timeout=BUSY_S, isolation_level=None)) as connection:
        connection.execute("PRAGMA foreign_keys = ON")
        yield connection


@contextmanager
def begun(connection: sqlite3.Connection) -> Iterator[None]:
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        # After some of SQLite's errors (a full disk) the transaction has already been rolled back.
        with contextlib.suppress(sqlite3.Error):
            connection.execute("ROLLBACK")
        raise


def _version(path: Path, schema: Schema, connection: sqlite3.Connection) -> int:
    """Return the version of the file's schema, 0 for an empty file. Raises `schema.corrupt` and NewerSchema."""
    tables = {name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
    if not tables:
        return 0
    ours = scalar(connection, "PRAGMA application_id") == schema.application_id
    if not ours or not {"migration", schema.table} <= tables:
        raise schema.corrupt(f"{path} is another program's database, not a {schema.what}", hint=_away(path))
    version: int = scalar(connection, "SELECT max(version) FROM migration") or 0
    if version > schema.version:
        raise NewerSchema(
            f"a newer vgpumgr made the {schema.what} {path} (schema {version}; this version supports {schema.version})",
            hint="use that version, or name another file in VGPUMGR_STORE",
        )
    return version


def _make(path: Path, schema: Schema) -> None:
    """Create an empty file. Another process may do the same at the same time; either file will do."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    # The name is unique to each process and thread; a kill leaves a small file whose name says what it is.
    new = path.with_name(f".{path.name}.new-{os.getpid()}-{time.monotonic_ns()}")
    os.close(os.open(new, os.O_CREAT | os.O_EXCL | os.O_RDWR | os.O_CLOEXEC, 0o600))
    try:
        with _connect(place.uri(new, "rw")) as connection:
            _migrate(new, schema, connection)
        with contextlib.suppress(FileExistsError):
            os.link(new, path)
    finally:
        new.unlink()


def _migrate(path: Path, schema: Schema, connection: sqlite3.Connection) -> None:
    """Migrate forward, version by version, in one transaction. The version is read again inside it."""
    if _version(path, schema, connection) == 0:
        for pragma in (*schema.pragmas, "journal_mode = WAL"):
            connection.execute(f"PRAGMA {pragma}")
    with begun(connection):
        have = _version(path, schema, connection)
        if have == 0:
            connection.execute(f"PRAGMA application_id = {schema.application_id}")
            connection.execute("CREATE TABLE migration (version INTEGER PRIMARY KEY, at TEXT)")
        for version, statements in enumerate(schema.migrations[have:], have + 1):
            for statement in statements:
                connection.execute(statement)
            at = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
            connection.execute("INSERT INTO migration (version, at) VALUES (?, ?)", (version, at))


@contextmanager
def _translated(path: Path, schema: Schema, verb: str) -> Iterator[None]:
    """Translate SQLite's and the file system's errors into ours, by their codes."""
    try:
        yield
    except sqlite3.Error as error:
        raise _judge(path, schema, verb, error) from error
    except (OverflowError, UnicodeEncodeError) as error:  # a value that SQLite cannot hold
        raise UnstorableValue(
            f"a value cannot be {verb} in the {schema.what} {path}: {error}",
            hint="one host reported an impossible value: that host is left out, the others are stored",
        ) from error
    except UnicodeDecodeError as error:
        raise damaged(path, schema, error) from error
    except OSError as error:
        raise _impossible(path, schema, verb, error.strerror or str(error)) from error


def _judge(path: Path, schema: Schema, verb: str, error: sqlite3.Error) -> StoreError:
    code = getattr(error, "sqlite_errorcode", None)
    # The primary code is the low byte of an extended one (sqlite.org/rescode.html).
    match None if code is None else code & 0xFF:
        case sqlite3.SQLITE_CORRUPT | sqlite3.SQLITE_NOTADB:
            return damaged(path, schema, error)
        case None if "Could not decode" in str(error):  # sqlite3's own error without a code: the text is not UTF-8
            return damaged(path, schema, error)
        case sqlite3.SQLITE_BUSY | sqlite3.SQLITE_LOCKED:
            return StoreError(
                f"the {schema.what} {path} is locked by another process",
                hint=f"`fuser {shlex.quote(str(path))}` names it; only history is affected",
            )
        case sqlite3.SQLITE_FULL | sqlite3.SQLITE_IOERR:  # reading in WAL mode also writes next to the file
            return StoreError(
                f"the {schema.what} {path} cannot be {verb}: {error}",
                hint=f"is the disk full or broken? check `df {shlex.quote(str(path.parent))}` and the kernel's log",
            )
        case _:
            return _impossible(path, schema, verb, str(error))


def _impossible(path: Path, schema: Schema, verb: str, why: str) -> StoreError:
    return StoreError(
        f"the {schema.what} {path} cannot be {verb}: {why}",
        hint="set VGPUMGR_STORE to use another file; declarations and claims do not depend on it",
    )


def damaged(path: Path, schema: Schema, error: BaseException) -> StoreError:
    return schema.corrupt(f"the {schema.what} {path} is damaged: {error}", hint=_away(path))


def _away(path: Path) -> str:
    target = shlex.quote(str(path))
    return f"it holds only history and can be moved away: mv {target} {target}.broken"


def _is_there(path: Path) -> bool:
    """Whether the file exists. Raises OSError if that cannot be determined."""
    try:
        path.stat()
    except FileNotFoundError:
        return False
    return True
