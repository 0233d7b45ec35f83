"""The files of a job on the controller's own machine: manual edits are detected, and files are written atomically."""

from __future__ import annotations

import difflib
import os
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from vgpumgr.core.reconcile import nightly
from vgpumgr.errors import UsageError, VgpumgrError
from vgpumgr.wording import Option, say

if TYPE_CHECKING:
    from pathlib import Path


_WANTED_BY = (
    "timers.target",
    "multi-user.target",
    "sockets.target",
)  # the units' WantedBy=, for which `systemctl enable` makes links


class FileState(StrEnum):
    """How a file compares with its intended content. OURS: we wrote it, with other settings. FOREIGN: we did not."""

    ABSENT = "absent"
    SAME = "same"
    OURS = "ours"
    EDITED = "edited"
    FOREIGN = "foreign"


@dataclass(frozen=True, slots=True, kw_only=True)
class InstallFile:
    """`text` is the intended content, None if it is to be removed; `current` the present one (None: no such file)."""

    path: Path
    text: str | None
    current: str | None

    @property
    def state(self) -> FileState:
        if self.current is None:
            return FileState.ABSENT
        if self.current == self.text:
            return FileState.SAME
        if nightly.is_untouched(self.current):
            return FileState.OURS
        return FileState.EDITED if self.text is not None or nightly.is_sealed(self.current) else FileState.FOREIGN

    @property
    def diff(self) -> tuple[str, ...]:
        """The lines of a unified diff; empty if nothing differs."""
        old, new = (self.current or "").splitlines(), (self.text or "").splitlines()
        return tuple(difflib.unified_diff(old, new, str(self.path), str(self.path), lineterm=""))

    @property
    def links(self) -> tuple[Path, ...]:
        """The existing links of those that `systemctl enable` makes for the unit."""
        links = (self.path.parent / f"{target}.wants" / self.path.name for target in _WANTED_BY)
        return tuple(link for link in links if link.is_symlink())


def look(path: Path, text: str | None) -> InstallFile:
    """The file as it is, and the sealed text intended for it. Raises VgpumgrError if the file cannot be read."""
    try:
        current = path.read_bytes().decode(errors="surrogateescape")
    except FileNotFoundError:
        current = None
    except OSError as error:
        raise VgpumgrError(f"cannot read {path}: {error.strerror}") from error
    return InstallFile(path=path, text=None if text is None else nightly.seal(text), current=current)


def put(file: InstallFile) -> None:
    """Write the file, or remove it and what enabled it. Raises UsageError if only root may do that."""
    if file.text is None:
        _remove(file)
    else:
        _write(file.path, file.text)


def _remove(file: InstallFile) -> None:
    try:
        for path in (file.path, *file.links):
            path.unlink(missing_ok=True)
    except PermissionError as error:
        raise UsageError(
            f"{file.path} cannot be removed: only root may do that", hint="run it as root (sudo)"
        ) from error
    except OSError as error:
        raise VgpumgrError(f"cannot remove {file.path}: {error.strerror}") from error


def _write(path: Path, text: str) -> None:
    """Replace the file atomically, with the mode 0644 that cron requires."""
    new = path.with_name(f".{path.name}.new-{os.getpid()}")
    try:
        try:
            with open(new, "x", encoding="utf-8", opener=_open_private) as stream:
                stream.write(text)
                os.fchmod(stream.fileno(), 0o644)
                os.fsync(stream.fileno())
            new.replace(path)
        finally:
            new.unlink(missing_ok=True)
    except PermissionError as error:
        raise UsageError(
            f"{path} cannot be written: only root may write it",
            hint="run it as root (sudo), or print the job and pass it to an administrator",
        ) from error
    except FileNotFoundError as error:
        raise _no_folder(path) from error
    except OSError as error:
        raise VgpumgrError(f"cannot write {path}: {error.strerror}") from error


def guard_folder(file: InstallFile) -> None:
    """Raises UsageError if the file's directory does not exist, as `put` would."""
    if not file.path.parent.is_dir():
        raise _no_folder(file.path)


def _no_folder(path: Path) -> UsageError:
    return UsageError(
        f"there is no directory {path.parent}",
        hint=say("check that cron or systemd is installed, or name another directory with {}", Option("--dir")),
    )


def _open_private(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_CLOEXEC, 0o600)
