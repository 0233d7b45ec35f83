"""Where the controller's own file lies, from the environment. Reads nothing else and makes nothing."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

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
