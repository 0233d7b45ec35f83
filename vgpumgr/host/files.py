"""Small files below one root, read with as few system calls as possible, and written durably.

Every path of the host program goes through a Root, so that it also runs on a directory that imitates a host. Files that
share a directory are read relative to its descriptor: on a host whose /sys is slow (FUSE, or a kernel with thousands of
functions), walking the path costs more than the read.
"""

import os
from contextlib import contextmanager
from typing import Iterator, List, Optional, Set, Tuple, Union

from .protocol.snapshot import UnknownFact
from .refusal import reason

_READ = os.O_RDONLY | os.O_CLOEXEC
_LIST = _READ | os.O_DIRECTORY
_CHUNK = 64 * 1024  # more than a page, which is the most that a sysfs file holds


class Root:
    """Where the host's file system begins: "/" on a real host."""

    def __init__(self, top: "Union[str, os.PathLike[str]]" = "/") -> None:
        self.top = os.fspath(top).rstrip("/")

    def path(self, absolute: str) -> str:
        """The real path of `absolute`, which begins with a slash."""
        return self.top + absolute if self.top else absolute


class Unknowns:
    """The rows that say which facts of the host, or of one GPU, are null, and why."""

    def __init__(self, rows: Optional[List[UnknownFact]] = None, gpu: Optional[str] = None) -> None:
        self.rows: List[UnknownFact] = [] if rows is None else rows
        self._gpu = gpu

    def of(self, gpu: str) -> "Unknowns":
        """The same rows, for the facts of that GPU (its address)."""
        return Unknowns(self.rows, gpu)

    def add(self, what: str, why: str) -> None:
        self.rows.append({"gpu": self._gpu, "what": what, "why": why})

    def failed(self, what: str, error: OSError) -> None:
        """Note that a file could not be read."""
        self.add(what, why(error))


def why(error: OSError) -> str:
    """The error in words, with the file if Python names it."""
    return reason(error) + (" ({})".format(error.filename) if isinstance(error.filename, str) else "")


@contextmanager
def directory(path: str, dir_fd: Optional[int] = None) -> Iterator[int]:
    """An open directory, for reads relative to it."""
    descriptor = os.open(path, _LIST, dir_fd=dir_fd)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def names_in(path: str, dir_fd: Optional[int] = None) -> List[str]:
    """The names in a directory, in no order."""
    with directory(path, dir_fd) as descriptor:
        return os.listdir(descriptor)


def read(path: str, dir_fd: Optional[int] = None) -> str:
    """A sysfs file's text, stripped. One read is enough: sysfs returns the whole file, or cuts it at a page."""
    descriptor = os.open(path, _READ, dir_fd=dir_fd)
    try:
        return os.read(descriptor, _CHUNK).decode("utf-8", "replace").strip()
    finally:
        os.close(descriptor)


def read_all(path: str, dir_fd: Optional[int] = None) -> bytes:
    """A file's bytes, in as many reads as needed (files in /proc come in pieces)."""
    descriptor = os.open(path, _READ, dir_fd=dir_fd)
    try:
        pieces: List[bytes] = []
        while True:
            piece = os.read(descriptor, _CHUNK)
            if not piece:
                return b"".join(pieces)
            pieces.append(piece)
    finally:
        os.close(descriptor)


def link_name(path: str, dir_fd: Optional[int] = None) -> str:
    """The last part of what a link points to: how sysfs names drivers, groups and functions."""
    return os.path.basename(os.readlink(path, dir_fd=dir_fd))


def link_parent_and_name(path: str, dir_fd: Optional[int] = None) -> Tuple[str, str]:
    """The last two parts of what a link points to: ("0000:41:00.4", the mdev's uuid)."""
    target = os.readlink(path, dir_fd=dir_fd)
    return os.path.basename(os.path.dirname(target)), os.path.basename(target)


def optional_names(path: str, dir_fd: Optional[int] = None) -> Optional[Set[str]]:
    """The names in a directory, or None if it does not exist."""
    try:
        return set(names_in(path, dir_fd))
    except (FileNotFoundError, NotADirectoryError):
        return None


def is_there(path: str, dir_fd: Optional[int] = None) -> bool:
    """Whether there is a file, link or directory of that name. Raises OSError if that is unknown."""
    try:
        os.lstat(path, dir_fd=dir_fd)
    except (FileNotFoundError, NotADirectoryError):
        return False
    return True


def write_whole(descriptor: int, data: bytes) -> None:
    """Write all of `data`, in as many writes as needed."""
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(descriptor, rest) :]


def sync_folder(path: str) -> None:
    """Make the directory's names durable: a rename is not durable before that."""
    with directory(path) as descriptor:
        os.fsync(descriptor)
