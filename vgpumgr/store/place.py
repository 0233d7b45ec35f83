"""Where the controller's own file lies, and how SQLite is to open it. Makes nothing."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote

if TYPE_CHECKING:
    from collections.abc import Mapping

VARIABLE = "VGPUMGR_STORE"
NAME = "store.sqlite"


def store_path(environ: Mapping[str, str], *, root: bool, home: Path) -> Path:
    """$VGPUMGR_STORE; else /var/lib/vgpumgr for root, and $XDG_STATE_HOME/vgpumgr (~/.local/state) for everybody else.

    Absolute where the environment is: a relative VGPUMGR_STORE is taken from the folder that one stands in.
    """
    named = environ.get(VARIABLE)
    if named:
        return Path(named).expanduser()
    if root:
        return Path("/var/lib/vgpumgr") / NAME
    state = Path(environ.get("XDG_STATE_HOME") or "")
    # The XDG specification has a relative path ignored.
    return (state if state.is_absolute() else home / ".local" / "state") / "vgpumgr" / NAME


def uri(path: Path, mode: str) -> str:
    """SQLite's address of the file, which must be there; see sqlite.org/uri.html."""
    return f"file:{quote(str(path.absolute()))}?mode={mode}"


def reading_uri(path: Path) -> str:
    """The address for who only reads (and says so with `PRAGMA query_only`).

    A WAL database has two companions while it is open. Who may not write leaves them lying there; a read-only disk cannot
    have them, but then nobody writes either.
    """
    if os.access(path, os.W_OK) and os.access(path.parent, os.W_OK):
        return uri(path, "rw")
    return uri(path, "ro" if Path(f"{path}-wal").exists() else "ro&immutable=1")
