"""Reads a file that a person names, or that a configuration leads to: whole, and never more of it than a limit.

Only regular files are read: a pipe can keep a command waiting for ever, and /dev/zero has no end.
"""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path

__all__ = ["MIB", "MOST_BYTES", "bounded", "expanded", "home", "read_bytes"]

MIB = 1024 * 1024
MOST_BYTES = 64 * MIB  # the known_hosts of 100,000 hosts, the plan of 50,000 VMs


def read_bytes(path: str | Path, most: int = MOST_BYTES) -> bytes:
    """All that the file has. `most`: in bytes.

    Raises OSError, whose strerror is the reason in words: as the system says it, or EINVAL (not a regular file), or EFBIG
    (larger than `most`).
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(descriptor, "rb") as stream:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode):
            raise OSError(errno.EINVAL, "not a regular file")
        # The buffer is as large as what is asked for: 10,000 small files must not reserve the limit each.
        data = stream.read(min(found.st_size, most) + 1)
        if found.st_size < len(data) <= most:  # it has grown, or is one of /proc's, which say 0
            data += stream.read(most + 1 - len(data))
    return bounded(data, most)


def bounded(data: bytes, most: int) -> bytes:
    """The data, where it is not more than `most`; raises OSError (EFBIG) otherwise."""
    if len(data) > most:
        raise OSError(errno.EFBIG, f"larger than {most // MIB} MiB")
    return data


def expanded(path: str) -> Path:
    """The path with ~ and ~USER replaced. An unknown user's ~ stays as it is, so that no such file is found."""
    return Path(os.path.expanduser(path))  # noqa: PTH111 -- Path.expanduser raises RuntimeError for an unknown user


def home() -> Path:
    """The home folder; / where there is none, as of a container's user without a name."""
    found = expanded("~")
    return found if found.is_absolute() else Path("/")
