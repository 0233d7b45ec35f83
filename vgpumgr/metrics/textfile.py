"""A page as a file for node_exporter's textfile collector, which may read it at any moment and must find all of it."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

from vgpumgr import files
from vgpumgr.errors import ExportError

if TYPE_CHECKING:
    from pathlib import Path

_MODE = 0o644  # the collector runs as another user
SUFFIX = ".prom"  # the collector reads no other files, so it ignores the temporary one


def write(path: Path, page: bytes) -> None:
    """Replace `path` with `page`. On ExportError nothing has changed."""
    folder = path.parent
    try:
        files.replace(path, page, _MODE)
    except (FileNotFoundError, NotADirectoryError) as error:
        hint = f"create the folder that node_exporter's --collector.textfile.directory names: {folder}"
        raise ExportError(f"{path} cannot be written: {error.strerror}", hint=hint) from error
    except OSError as error:
        hint = f"the user who runs this must be able to write to {folder}; see `df {shlex.quote(str(folder))}`"
        raise ExportError(f"{path} cannot be written: {error.strerror}", hint=hint) from error
