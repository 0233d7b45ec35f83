"""Writing to sysfs in a child with a deadline.

A write that creates or removes a vGPU can block for as long as a guest runs (removing a held mdev sleeps in the kernel
and takes no signals). Then only the child blocks; the program can still answer and release the lock. The child exists
before the write and waits for a go-ahead: so it can be recorded first (blocked_write.py), and if the program is killed
before the go-ahead, nothing happens.
"""

import os
import select
import time
from contextlib import contextmanager
from typing import Callable, Iterator, List, Optional

from ..refusal import errno_name

_NO_ERRNO = 255  # what the child sends for an error without a number
_OK = 0
_GO = b"\n"


def write_file(path: str, text: bytes) -> None:
    """Write to an existing file, in one write, as sysfs requires. Raises OSError."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
    try:
        os.write(descriptor, text)
    finally:
        os.close(descriptor)


class Writing:
    """One write, ready in the child `pid`. It happens once, or not at all."""

    def __init__(self, pid: int, *, go: int, said: int) -> None:
        self.pid = pid
        self.returned = True
        self._go = go
        self._said = said

    def run(self, deadline_s: float) -> Optional[str]:
        """Write. Returns None if it was accepted, else the errno's name. On TimeoutError it may still happen."""
        self.returned = False
        os.write(self._go, _GO)
        word = _receive(self._said, deadline_s)
        if word is None:
            raise TimeoutError
        self.returned = True
        if not word:  # it was killed before it could say anything
            return "EINTR"
        return None if word[0] == _OK else "EIO" if word[0] == _NO_ERRNO else errno_name(word[0])


class Writer:
    """Runs writes in children."""

    def __init__(self, write: Callable[[str, bytes], None]) -> None:
        self._write = write
        self._left: List[int] = []

    @contextmanager
    def ready(self, path: str, text: bytes) -> Iterator[Writing]:
        """A child that waits to write this. It ends with the block. If its write does not return, it is left behind."""
        self._reap()
        # We keep both ends of the go-ahead pipe: writing to one whose reader was killed would end us (SIGPIPE).
        hear, go = os.pipe2(os.O_CLOEXEC)
        said, say = os.pipe2(os.O_CLOEXEC)
        pid = os.fork()
        if pid == 0:
            self._child(hear, say, path, text)
        os.close(say)
        writing = Writing(pid, go=go, said=said)
        try:
            yield writing
        finally:
            for descriptor in (go, hear, said):
                os.close(descriptor)
            if writing.returned:
                os.waitpid(pid, 0)
            else:
                self._left.append(pid)

    def _child(self, hear: int, say: int, path: str, text: bytes) -> None:
        word = _NO_ERRNO
        try:
            keep_only(hear, say)
            if os.read(hear, 1) != _GO:  # the step was refused, or the program was killed, which released its lock
                os._exit(0)
            self._write(path, text)
            word = _OK
        except OSError as error:
            word = error.errno or _NO_ERRNO
        finally:
            try:
                os.write(say, bytes([word]))
            finally:
                os._exit(0)

    def _reap(self) -> None:
        """Reap the children that did return."""
        self._left = [pid for pid in self._left if not os.waitpid(pid, os.WNOHANG)[0]]


def _receive(descriptor: int, deadline_s: float) -> Optional[bytes]:
    """The child's byte; empty if it ended without one; None if the deadline passed."""
    poll = select.poll()
    poll.register(descriptor, select.POLLIN)
    until = time.monotonic() + deadline_s
    while True:
        remaining_s = until - time.monotonic()
        if poll.poll(max(0.0, remaining_s) * 1000):
            return os.read(descriptor, 1)
        if remaining_s <= 0:
            return None


def keep_only(*kept: int) -> None:
    """Close the other descriptors: a child that outlives us must not keep the lock or the controller's channel."""
    null = os.open(os.devnull, os.O_RDWR)
    for standard in (0, 1, 2):
        os.dup2(null, standard)
    for descriptor in _open_descriptors():
        if descriptor > 2 and descriptor not in kept:
            try:
                os.close(descriptor)
            except OSError:  # the listing's own descriptor
                continue


def _open_descriptors() -> List[int]:
    return [int(name) for name in os.listdir("/proc/self/fd")]
