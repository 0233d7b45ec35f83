"""Files of the controller's own machine that a job is made of: told apart from what somebody edited, and written whole."""

from __future__ import annotations

import difflib
import os
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from vgpumgr.core.reconcile import nightly
from vgpumgr.errors import UsageError, VgpumgrError

if TYPE_CHECKING:
    from pathlib import Path


class FileState(StrEnum):
    """How a file stands to what it is to hold. OURS: as we once wrote it, with other settings."""

    ABSENT = "absent"
    SAME = "same"
    OURS = "ours"
    EDITED = "edited"


@dataclass(frozen=True, slots=True, kw_only=True)
class JobFile:
    """`text` is what the file is to hold, `current` what it holds (None: no such file)."""

    path: Path
    text: str
    current: str | None

    @property
    def state(self) -> FileState:
        if self.current is None:
            return FileState.ABSENT
        if self.current == self.text:
            return FileState.SAME
        return FileState.OURS if nightly.is_untouched(self.current) else FileState.EDITED

    @property
    def diff(self) -> tuple[str, ...]:
        """Unified, one line each; empty where nothing differs."""
        old, new = (self.current or "").splitlines(), self.text.splitlines()
        return tuple(difflib.unified_diff(old, new, str(self.path), str(self.path), lineterm=""))


def look(path: Path, text: str) -> JobFile:
    """The file as it is, beside the sealed text that it is to hold. Raises VgpumgrError where it cannot be read."""
    try:
        current = path.read_bytes().decode(errors="surrogateescape")
    except FileNotFoundError:
        current = None
    except OSError as error:
        raise VgpumgrError(f"cannot read {path}: {error.strerror}") from error
    return JobFile(path=path, text=nightly.seal(text), current=current)


def write(file: JobFile) -> None:
    """Put the text in place of the file, at once and 0644 as cron wants it. Raises UsageError where that is root's to do."""
    new = file.path.with_name(f".{file.path.name}.new-{os.getpid()}")
    try:
        try:
            with open(new, "x", encoding="utf-8", opener=_open_private) as stream:
                stream.write(file.text)
                os.fchmod(stream.fileno(), 0o644)
                os.fsync(stream.fileno())
            new.replace(file.path)
        finally:
            new.unlink(missing_ok=True)
    except PermissionError as error:
        raise UsageError(
            f"{file.path} cannot be written: that takes root",
            hint="run it as root (sudo), or print the job and hand it to somebody who is",
        ) from error
    except FileNotFoundError as error:
        raise UsageError(
            f"there is no folder {file.path.parent}", hint="is cron, or systemd, there? --dir names another folder"
        ) from error
    except OSError as error:
        raise VgpumgrError(f"cannot write {file.path}: {error.strerror}") from error


def _open_private(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_CLOEXEC, 0o600)
