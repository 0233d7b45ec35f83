"""Where the controller's own files are, and how SQLite should open them. Creates nothing."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote

from vgpumgr import files

if TYPE_CHECKING:
    from collections.abc import Mapping

VARIABLE = "VGPUMGR_STORE"
NAME = "store.sqlite"
SAMPLES = "samples.db"


def store_path(environ: Mapping[str, str], *, root: bool, home: Path) -> Path:
    """The path of the journal: $VGPUMGR_STORE, if it is set. Otherwise it is in /var/lib/vgpumgr for root, and in
    $XDG_STATE_HOME/vgpumgr for other users, where $XDG_STATE_HOME is ~/.local/state by default.

    The path is absolute, unless the variable's value is not: a relative one is relative to the working directory.
    """
    value = environ.get(VARIABLE)
    if value:
        return files.expanded(value)
    if root:
        return Path("/var/lib/vgpumgr") / NAME
    state = Path(environ.get("XDG_STATE_HOME") or "")
    # The XDG specification says to ignore a relative path.
    return (state if state.is_absolute() else home / ".local" / "state") / "vgpumgr" / NAME


def samples_beside(store: Path) -> Path:
    """The path of the file with the samples, given the path of the journal."""
    return store.with_name(SAMPLES)


def uri(path: Path, mode: str) -> str:
    """The URI with which SQLite opens a file that exists; see sqlite.org/uri.html."""
    return f"file:{quote(str(path.absolute()))}?mode={mode}"


def reading_uri(path: Path) -> str:
    """The URI with which a reader opens the file. The reader also sets `PRAGMA query_only`.

    While a WAL database is open, it has two companion files, and only a connection that may write removes them at the
    end: so the mode is rw if we may write. Otherwise it is ro; and immutable if there is no -wal file, since such a
    reader may be unable to create one.
    """
    if os.access(path, os.W_OK) and os.access(path.parent, os.W_OK):
        return uri(path, "rw")
    return uri(path, "ro" if Path(f"{path}-wal").exists() else "ro&immutable=1")
