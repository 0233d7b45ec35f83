"""Serves the simulated /sys tree as a file system. Only this module imports mfusepy.

One operation costs about 55 µs, and a host with 64 VFs takes 0.3 s to read. To use /dev/fuse without libfuse was tried
and takes a third of that, but its 280 lines are not worth maintaining when others maintain a library.
"""

# ruff: noqa: ARG002 -- mfusepy calls its operations with fixed arguments, needed or not

from __future__ import annotations

import ctypes
import errno
import stat
import threading
from typing import TYPE_CHECKING, Any

import mfusepy

from vgpumgr.lab.driver.errors import os_error

if TYPE_CHECKING:
    from collections.abc import Callable

    from vgpumgr.lab.sysfs.tree import Tree

# The kernel caches names for that long, but asks for everything about them (getattr, open, readlink, list) each time
# and gets ENOENT for a lost one. Missing names are never cached (libfuse's default), so new ones are visible at once.
_ENTRY_TIMEOUT_S = 3600
_THREADS = 128  # each blocked removal keeps one
_here = threading.local()


class _Operations:
    """mfusepy's callbacks: they take a path and raise OSError. The kernel answers ENOSYS to operations missing here."""

    use_ns = True

    def __init__(self, tree: Tree, ready: threading.Event | None) -> None:
        self._tree = tree
        self._ready = ready

    def init(self, path: str) -> None:
        if self._ready is not None:
            self._ready.set()

    def getattr(self, path: str, fh: int | None = None) -> dict[str, int]:
        _stay()
        node = self._tree.node(path)
        return {"st_mode": node.mode, "st_size": node.size, "st_nlink": 2 if stat.S_ISDIR(node.mode) else 1}

    def access(self, path: str, mode: int) -> int:
        self._tree.node(path)
        return 0

    def readdir(self, path: str, fh: int) -> list[str]:
        return [".", "..", *self._tree.readdir(path)]

    def readlink(self, path: str) -> str:
        return self._tree.readlink(path)

    def open(self, path: str, flags: int) -> int:
        self._tree.open(path, flags)
        return 0

    def create(self, path: str, mode: int, fi: Any = None) -> int:
        raise os_error(errno.EACCES)

    def _refuse(self, *_: object) -> int:
        raise os_error(errno.EPERM)

    mkdir = unlink = rmdir = symlink = rename = link = mknod = chmod = chown = _refuse

    def read(self, path: str, size: int, offset: int, fh: int) -> bytes:
        return self._tree.read(path)[offset : offset + size]

    def write(self, path: str, data: bytes, offset: int, fh: int) -> int:
        return self._tree.write(path, data)

    def truncate(self, path: str, length: int, fh: int | None = None) -> int:
        self._tree.truncate(path)
        return 0


def _stay() -> None:
    """Let Python keep its state of the libfuse thread that calls us until that thread ends.

    Otherwise ctypes creates and destroys that state in every callback from a thread that Python did not start, which is
    a third of an operation's cost.
    """
    if not hasattr(_here, "stays"):
        _here.stays = True
        ctypes.pythonapi.PyGILState_Ensure()


class _Gate:
    """mfusepy's callbacks for a folder that has a file of every name.

    A process that closes such a file, even by exiting, waits until `wait` returns for that file's name.
    """

    use_ns = True

    def __init__(self, wait: Callable[[str], None], ready: threading.Event) -> None:
        self._wait = wait
        self._ready = ready

    def init(self, path: str) -> None:
        self._ready.set()

    def getattr(self, path: str, fh: int | None = None) -> dict[str, int]:
        return {"st_mode": stat.S_IFDIR | 0o700 if path == "/" else stat.S_IFREG | 0o600, "st_size": 0, "st_nlink": 1}

    def open(self, path: str, flags: int) -> int:
        return 0

    def flush(self, path: str, fh: int) -> int:
        self._wait(path[1:])
        return 0


def mount(tree: Tree, mountpoint: str, *, ready: threading.Event | None = None) -> None:
    """Mount the tree and serve it until it is unmounted (`umount`, or the end of its mount namespace).

    `ready` is set at the kernel's first call. Raises RuntimeError if FUSE refuses (no /dev/fuse, no such directory).
    """
    mfusepy.FUSE(
        _Operations(tree, ready),
        mountpoint,
        foreground=True,
        fsname="vgpumgr-lab",
        allow_other=True,
        direct_io=True,
        entry_timeout=_ENTRY_TIMEOUT_S,
        attr_timeout=0,
        max_threads=_THREADS,
    )


def mount_gate(wait: Callable[[str], None], mountpoint: str, *, ready: threading.Event) -> None:
    """Mount a folder of files whose close waits, and serve it until it is unmounted."""
    mfusepy.FUSE(_Gate(wait, ready), mountpoint, foreground=True, fsname="vgpumgr-lab-gate", allow_other=True)
