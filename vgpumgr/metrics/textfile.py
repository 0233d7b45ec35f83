"""A page as a file for node_exporter's textfile collector, which may read it at any moment and must find all of it."""

from __future__ import annotations

import os
import shlex
import tempfile
from pathlib import Path

from vgpumgr.errors import ExportError

SUFFIX = ".prom"  # the collector reads no other files, so it ignores the temporary one
_MODE = 0o644


def write(path: Path, page: bytes) -> None:
    """Replace `path` with `page`, written to a temporary file, then renamed. On ExportError nothing has changed."""
    try:
        descriptor, name = tempfile.mkstemp(prefix=f".{path.name}.", suffix=".new", dir=path.parent)
    except OSError as error:
        missing = isinstance(error, FileNotFoundError | NotADirectoryError)
        raise ExportError(
            f"{path} cannot be written: {error.strerror}",
            hint=f"create the folder that node_exporter's --collector.textfile.directory names: {path.parent}"
            if missing
            else f"the user who runs this must be able to write to the folder {path.parent}",
        ) from error
    new = Path(name)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(page)
            os.fchmod(file.fileno(), _MODE)
        new.replace(path)
    except OSError as error:
        raise ExportError(
            f"{path} cannot be written: {error.strerror}", hint=f"see `df {shlex.quote(str(path.parent))}`"
        ) from error
    finally:
        new.unlink(missing_ok=True)
