"""One lock per host: a flock on a directory that always exists, so nothing is created, and that only root can open.

It is shared for reading and exclusive for changing. The kernel releases it when the process ends, however it ends. The
owner, too, is published without a file: it keeps a memfd open whose name identifies it, and /proc shows the name.
"""

import errno
import fcntl
import os
import time
from contextlib import contextmanager
from typing import Callable, Dict, Iterator, List, Optional

from ..files import Root
from ..protocol.session import LOCK_PATH, LOCKED, NOT_ROOT
from ..refusal import PeerGone, Refusal

MARK = "vgpumgr-lock:"
TRY_EVERY_S = 0.03

_MARKED = "/memfd:" + MARK
_BY_BYTES = 200  # the kernel allows a memfd's name 249


def pause(seconds: float) -> bool:
    """Wait, without watching for a hang-up. For programs without a controller."""
    time.sleep(seconds)
    return False


class HostLock:
    """The lock of one host, held by at most one of our descriptors.

    `gone(seconds)` waits up to that long, and returns whether the other end has hung up meanwhile: a controller that
    died while it queued must not get the lock afterwards.
    """

    def __init__(
        self,
        root: Root,
        *,
        clock: Callable[[], float] = time.monotonic,
        gone: Callable[[float], bool] = pause,
    ) -> None:
        self._root = root
        self._clock = clock
        self._gone = gone
        self._descriptor: Optional[int] = None
        self._mark: Optional[int] = None

    @property
    def held(self) -> bool:
        """Whether we hold it exclusively."""
        return self._mark is not None

    @property
    def descriptors(self) -> List[int]:
        """The descriptors that a child must close, or else it would keep the lock after we end."""
        return [each for each in (self._descriptor, self._mark) if each is not None]

    def take(self, by: str, wait_s: float) -> None:
        """Take it exclusively and keep it. Raises Refusal(Locked), PeerGone."""
        if self.held:
            return
        self._acquire(fcntl.LOCK_EX, wait_s)
        self._mark = _mark(by)

    def give_back(self) -> None:
        """Release it; nothing happens if it is not held."""
        for descriptor in self.descriptors:
            os.close(descriptor)
        self._descriptor = self._mark = None

    @contextmanager
    def reading(self, wait_s: float) -> Iterator[None]:
        """Hold it shared while the block runs, unless it is ours already. Raises Refusal(Locked), PeerGone."""
        if self.held:
            yield
            return
        self._acquire(fcntl.LOCK_SH, wait_s)
        try:
            yield
        finally:
            self.give_back()

    def _acquire(self, how: int, wait_s: float) -> None:
        path = self._root.path(LOCK_PATH)
        try:
            descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except PermissionError as error:
            raise Refusal(NOT_ROOT, "only root can open {}".format(LOCK_PATH)) from error
        try:
            self._wait_for(descriptor, how, wait_s)
        except BaseException:
            os.close(descriptor)
            raise
        self._descriptor = descriptor

    def _wait_for(self, descriptor: int, how: int, wait_s: float) -> None:
        # Poll instead of making one blocking call: the kernel would grant a queued flock to a process whose controller
        # died long ago.
        until = self._clock() + wait_s
        while not _try(descriptor, how):
            remaining_s = until - self._clock()
            if remaining_s <= 0:
                owner = find_owner(self._root, descriptor)
                text = "the host's lock is held by {}".format(owner or "another run")
                raise Refusal(LOCKED, text, owner=owner, **_open_to_others(descriptor))
            if self._gone(min(TRY_EVERY_S, remaining_s)):
                raise PeerGone


def _try(descriptor: int, how: int) -> bool:
    try:
        fcntl.flock(descriptor, how | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno in (errno.EWOULDBLOCK, errno.EINTR):
            return False
        raise
    return True


def _mark(by: str) -> int:
    return os.memfd_create(MARK + sanitise(by), os.MFD_CLOEXEC)


def _open_to_others(descriptor: int) -> Dict[str, str]:
    """The folder's mode, if users other than root can open it: they could hold the lock forever, unnamed."""
    mode = os.fstat(descriptor).st_mode & 0o7777
    return {"mode": "{:04o}".format(mode)} if mode & 0o055 else {}


def sanitise(by: str) -> str:
    """The owner as a memfd's name: printable, without slashes, at most 200 bytes."""
    text = "".join(each if each.isprintable() and each != "/" else "_" for each in by)
    return text.encode("utf-8", "replace")[:_BY_BYTES].decode("utf-8", "ignore")


def find_owner(root: Root, descriptor: int) -> Optional[str]:
    """Who holds the lock on this directory exclusively, according to /proc; None if it does not say."""
    lock = os.fstat(descriptor)
    proc = root.path("/proc")
    try:
        pids = list(filter(str.isdigit, os.listdir(proc)))
    except OSError:
        return None
    for pid in pids:
        folder = "{}/{}/fd".format(proc, pid)
        try:
            owner = _owner_in(folder, lock)
        except OSError:  # it ended, or hides its descriptors: the answer is a courtesy, not evidence
            continue
        if owner is not None:
            return owner
    return None


def _owner_in(folder: str, lock: os.stat_result) -> Optional[str]:
    """The mark of a process that has the lock's directory open. Each (simulated) host has its own directory."""
    owner = None
    names = os.listdir(folder)
    for name in names:
        target = os.readlink("{}/{}".format(folder, name))
        if target.startswith(_MARKED):
            owner = target[len(_MARKED) :].replace(" (deleted)", "")
    if owner is None:
        return None
    for name in names:
        status = os.stat("{}/{}".format(folder, name))
        if (status.st_dev, status.st_ino) == (lock.st_dev, lock.st_ino):
            return owner
    return None
