"""A unix socket's path: never taken from a process that still listens there, and removed at the end."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import shlex
import socket
import stat
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from vgpumgr.errors import ExportError, UsageError
from vgpumgr.wording import Option, say

if TYPE_CHECKING:
    from collections.abc import Iterator

FOLDER_MODE = 0o750
_SOCKET = Option("--socket")
_ANOTHER = say("use {} with another path", _SOCKET)
_NOT_FOR_OTHERS = 0o117  # umask: the socket is 0660
_BACKLOG = 64
_FIRST_PASSED = 3  # SD_LISTEN_FDS_START
_ALONE_S = 5.0  # another start like ours needs milliseconds, but anyone who may read the folder could hold it forever
_TRY_EVERY_S = 0.05


def default(name: str, *, hint: str) -> Path:
    """Where a socket of that name is by default: below /run for root, else below $XDG_RUNTIME_DIR.

    Raises UsageError with `hint` if that is not set.
    """
    runtime = "/run" if os.geteuid() == 0 else os.environ.get("XDG_RUNTIME_DIR")
    if not runtime:
        raise UsageError("there is no directory for a socket: XDG_RUNTIME_DIR is not set", hint=hint)
    return Path(runtime) / "vgpumgr" / name


@contextmanager
def listening(path: Path) -> Iterator[socket.socket]:
    """Give a socket that listens at `path`, with mode 0660. The folder is created (0750) if it is missing.

    Raises ExportError if another process listens there, the socket cannot be created, or the path is something else.
    """
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC) as server:
        try:
            path.parent.mkdir(mode=FOLDER_MODE, parents=True, exist_ok=True)
            with _alone(path.parent):
                _clear(path)
                _bind(server, path)
            ours = path.stat().st_ino
        except OSError as error:
            # A path that is too long gives no errno from the kernel, only Python's words (sun_path holds 107 bytes).
            why = error.strerror or str(error)
            raise ExportError(f"the socket {path} cannot be created: {why}", hint=_ANOTHER) from error
        try:
            yield server
        finally:
            with contextlib.suppress(OSError):
                if path.stat().st_ino == ours:  # otherwise another process has replaced it
                    path.unlink()


def activated() -> socket.socket | None:
    """The socket that systemd has opened for this process (sd_listen_fds(3)); None: it was started otherwise.

    It is systemd's: it stays in its place at the end. Raises ExportError unless it is one unix socket that listens.
    """
    pid, count = (os.environ.pop(name, "") for name in ("LISTEN_PID", "LISTEN_FDS"))
    if pid != str(os.getpid()):
        return None
    server, is_ours = None, 0
    with contextlib.suppress(OSError):
        server = socket.socket(fileno=_FIRST_PASSED)
        is_ours = server.family == socket.AF_UNIX and server.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN)
    if server is None or not is_ours or count != "1":
        raise ExportError(
            "systemd has passed something else than one unix socket that listens",
            hint="`vgpumgr install web` prints the units that fit",
        )
    server.set_inheritable(False)
    return server


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """Hold a lock on the folder: two processes starting at once would each take the other's new socket for dead."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    until = time.monotonic() + _ALONE_S
    try:
        while True:
            with contextlib.suppress(BlockingIOError):
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            if time.monotonic() >= until:
                raise ExportError(
                    f"another process has locked the folder {folder} and does not release it",
                    hint=say(
                        "`fuser -v {}` names it; or use {} in a folder that only vgpumgr may read",
                        shlex.quote(str(folder)),
                        _SOCKET,
                    ),
                )
            time.sleep(_TRY_EVERY_S)
        yield
    finally:
        os.close(descriptor)


def _clear(path: Path) -> None:
    """Remove a socket that a killed process left. Raises ExportError for one in use, and for anything else there."""
    try:
        kind = path.lstat().st_mode
    except FileNotFoundError:
        return
    if not stat.S_ISSOCK(kind):
        raise ExportError(f"{path} is not a socket and is left alone", hint=_ANOTHER)
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC) as probe:
        probe.setblocking(False)  # a full backlog is an answer too
        if probe.connect_ex(os.fspath(path)) == errno.ECONNREFUSED:
            path.unlink()
            return
    raise ExportError(
        f"another process already listens on {path}",
        hint=say("`fuser {}` names it; or {}", shlex.quote(str(path)), _ANOTHER),
    )


def _bind(server: socket.socket, path: Path) -> None:
    before = os.umask(_NOT_FOR_OTHERS)
    try:
        server.bind(os.fspath(path))
    finally:
        os.umask(before)
    server.listen(_BACKLOG)
