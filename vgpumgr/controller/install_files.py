"""The files of a job on the controller's own machine: manual edits are detected, and files are written atomically."""

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


_WANTED_BY = ("timers.target", "multi-user.target")  # the units' WantedBy=, for which `systemctl enable` makes links


class FileState(StrEnum):
    """How a file compares with its intended content. OURS: as we once wrote it, with other settings. FOREIGN: never ours."""

    ABSENT = "absent"
    SAME = "same"
    OURS = "ours"
    EDITED = "edited"
    FOREIGN = "foreign"


@dataclass(frozen=True, slots=True, kw_only=True)
class InstallFile:
    """`text` is the intended content, `current` the present one (None: no such file)."""

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
        """The lines of a unified diff; empty if nothing differs."""
        old, new = (self.current or "").splitlines(), self.text.splitlines()
        return tuple(difflib.unified_diff(old, new, str(self.path), str(self.path), lineterm=""))


@dataclass(frozen=True, slots=True, kw_only=True)
class InstalledFile:
    """A file that may be one that we wrote. `link`: what `systemctl enable` made for the unit, if it did."""

    path: Path
    state: FileState
    link: Path | None


def look(path: Path, text: str) -> InstallFile:
    """The file's present content and the sealed text intended for it. Raises VgpumgrError if the file cannot be read."""
    return InstallFile(path=path, text=nightly.seal(text), current=_read(path))


def look_at(path: Path) -> InstalledFile:
    """Whose the file at the path is. Raises VgpumgrError if it cannot be read."""
    current = _read(path)
    if current is None:
        state = FileState.ABSENT
    elif not nightly.is_sealed(current):
        state = FileState.FOREIGN
    else:
        state = FileState.OURS if nightly.is_untouched(current) else FileState.EDITED
    links = (path.parent / f"{target}.wants" / path.name for target in _WANTED_BY)
    return InstalledFile(path=path, state=state, link=next((link for link in links if link.is_symlink()), None))


def remove(file: InstalledFile) -> None:
    """Remove the file, and what enabled it. Raises UsageError if only root may do that."""
    try:
        for path in (file.path, file.link):
            if path is not None:
                path.unlink(missing_ok=True)
    except PermissionError as error:
        raise UsageError(
            f"{file.path} cannot be removed: only root may do that", hint="run it as root (sudo)"
        ) from error
    except OSError as error:
        raise VgpumgrError(f"cannot remove {file.path}: {error.strerror}") from error


def _read(path: Path) -> str | None:
    try:
        return path.read_bytes().decode(errors="surrogateescape")
    except FileNotFoundError:
        return None
    except OSError as error:
        raise VgpumgrError(f"cannot read {path}: {error.strerror}") from error


def write(file: InstallFile) -> None:
    """Replace the file atomically, with the mode 0644 that cron requires. Raises UsageError if only root may do that."""
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
            f"{file.path} cannot be written: only root may write it",
            hint="run it as root (sudo), or print the job and pass it to an administrator",
        ) from error
    except FileNotFoundError as error:
        raise _no_folder(file) from error
    except OSError as error:
        raise VgpumgrError(f"cannot write {file.path}: {error.strerror}") from error


def guard_folder(file: InstallFile) -> None:
    """Raises UsageError if `write` would, because there is no directory for the file."""
    if not file.path.parent.is_dir():
        raise _no_folder(file)


def _no_folder(file: InstallFile) -> UsageError:
    return UsageError(
        f"there is no directory {file.path.parent}",
        hint="check that cron or systemd is installed, or name another directory with --dir",
    )


def _open_private(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_CLOEXEC, 0o600)
