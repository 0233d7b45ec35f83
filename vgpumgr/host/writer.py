"""Writing to sysfs in a child with a deadline.

A write that makes or removes a vGPU can block for as long as a guest runs (removing a held mdev sits in the kernel,
beyond signals). The child takes that upon itself; the program stays able to answer and to give the lock back.
"""

import os
import select
import time
from typing import Callable, Dict, List, Optional

from .refusal import errno_name

_NO_ERRNO = 255  # the child's word for an error without a number
_OK = 0


def write_file(path: str, text: bytes) -> None:
    """Write to a file that must be there already, in one write, as sysfs wants it. Raises OSError."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
    try:
        os.write(descriptor, text)
    finally:
        os.close(descriptor)


class Writer:
    """Runs writes in children, and remembers those that have not come back."""

    def __init__(self, write: Callable[[str, bytes], None]) -> None:
        self._write = write
        self._running: Dict[int, str] = {}

    def pending(self, path: str) -> bool:
        """Whether an earlier write to this file has still not returned."""
        self._reap()
        return path in self._running.values()

    def run(self, path: str, text: bytes, deadline_s: float) -> Optional[str]:
        """Write. Returns None when it was taken, else the errno's name. Raises TimeoutError; it may still happen then."""
        receive, send = os.pipe2(os.O_CLOEXEC)
        parent = os.getpid()
        pid = os.fork()
        if pid == 0:
            self._child(parent, send, path, text)
        os.close(send)
        try:
            word = _receive(receive, deadline_s)
        finally:
            os.close(receive)
        if word is None:
            self._running[pid] = path
            raise TimeoutError(path)
        os.waitpid(pid, 0)
        if not word:  # it was killed before it could say anything
            return "EINTR"
        return None if word[0] == _OK else "EIO" if word[0] == _NO_ERRNO else errno_name(word[0])

    def _child(self, parent: int, send: int, path: str, text: bytes) -> None:
        word = _NO_ERRNO
        try:
            _keep_only(send)
            if os.getppid() == parent:  # else the program was killed just now, and its lock is gone
                self._write(path, text)
                word = _OK
        except OSError as error:
            word = error.errno or _NO_ERRNO
        finally:
            try:
                os.write(send, bytes([word]))
            finally:
                os._exit(0)

    def _reap(self) -> None:
        for pid in list(self._running):
            if os.waitpid(pid, os.WNOHANG)[0]:
                del self._running[pid]


def _receive(descriptor: int, deadline_s: float) -> Optional[bytes]:
    """The child's byte; empty where it ended without one; None where the deadline passed."""
    poll = select.poll()
    poll.register(descriptor, select.POLLIN)
    until = time.monotonic() + deadline_s
    while True:
        left = until - time.monotonic()
        if poll.poll(max(0.0, left) * 1000):
            return os.read(descriptor, 1)
        if left <= 0:
            return None


def _keep_only(send: int) -> None:
    """Close what the child must not outlive the program with: the lock above all, then the channel to the controller."""
    null = os.open(os.devnull, os.O_RDWR)
    for standard in (0, 1, 2):
        os.dup2(null, standard)
    for descriptor in _open_descriptors():
        if descriptor > 2 and descriptor != send:
            try:
                os.close(descriptor)
            except OSError:  # the listing's own descriptor
                continue


def _open_descriptors() -> List[int]:
    return [int(name) for name in os.listdir("/proc/self/fd")]
