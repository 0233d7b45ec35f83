"""Reads a whole file that a user or a configuration names, up to a size limit; replaces one as a whole.

Only regular files are read: a pipe can block a command forever, and /dev/zero has no end.
"""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path

__all__ = ["MIB", "MOST_BYTES", "bounded", "expanded", "home", "read_bytes", "replace"]

MIB = 1024 * 1024
MOST_BYTES = 64 * MIB  # the known_hosts of 100,000 hosts, the plan of 50,000 VMs


def read_bytes(path: str | Path, most: int = MOST_BYTES) -> bytes:
    """The file's content. `most`: the limit in bytes.

    Raises OSError with the reason as strerror: the system's, EINVAL (not a regular file) or EFBIG (more than `most`).
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(descriptor, "rb") as stream:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise OSError(errno.EINVAL, "not a regular file")
        # read() allocates a buffer of the requested size: 10,000 small files must not allocate the limit each.
        data = stream.read(min(status.st_size, most) + 1)
        if status.st_size < len(data) <= most:  # it has grown, or is one of /proc's, which say 0
            data += stream.read(most + 1 - len(data))
    return bounded(data, most)


def bounded(data: bytes, most: int) -> bytes:
    """The data. Raises OSError (EFBIG) if it is larger than `most`."""
    if len(data) > most:
        raise OSError(errno.EFBIG, f"larger than {most // MIB} MiB")
    return data


def replace(path: Path, data: bytes, mode: int | None = None) -> None:
    """Replace the content of a file at once: a reader finds the old one or the new one, never a part.

    `mode`: the file's mode; None: that of the file there, or as the umask has it. A link, a pipe or a device, such as
    /dev/stdout, is written to and stays what it is. Raises OSError; a regular file is then as it was.
    """
    if path.is_symlink() or (path.exists() and not path.is_file()):
        path.write_bytes(data)
        return
    if mode is None and path.exists():
        mode = stat.S_IMODE(path.stat().st_mode)
    new = path.with_name(f".{path.name}.{os.urandom(8).hex()}.new")
    descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o666)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
            if mode is not None:
                os.fchmod(descriptor, mode)
        new.replace(path)
    finally:
        new.unlink(missing_ok=True)


def expanded(path: str) -> Path:
    """The path with ~ and ~USER expanded. An unknown user's ~ stays, so that no such file is found."""
    return Path(os.path.expanduser(path))  # noqa: PTH111 -- Path.expanduser raises RuntimeError for an unknown user


def home() -> Path:
    """The home folder; / if there is none, as for a container's nameless user."""
    path = expanded("~")
    return path if path.is_absolute() else Path("/")
