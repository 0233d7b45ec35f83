"""At most one run of a job on a controller: a flock beside the store, which even a killed process gives up."""

from __future__ import annotations

import contextlib
import datetime
import fcntl
import os
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

from vgpumgr.errors import AlreadyRunning, StoreError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

NAME = "reconcile.lock"
COLLECTOR = "collect.lock"
QUOTAS = "quotas.lock"
_POLL_S = 0.1


@contextmanager
def only_one(store: Path, by: str, *, name: str = NAME, wait_s: float = 0) -> Iterator[None]:
    """Hold the lock of that name, the nightly run's by default, next to the file `store`, as `by` (user@controller).

    Raises AlreadyRunning if another process still holds it after `wait_s`. Raises StoreError if the lock cannot be
    created. The file stays when the run ends, because unlinking it could free a lock that another run has just taken.
    """
    path = store.with_name(name)
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise StoreError(
            f"the lock {path}, which keeps two runs apart, cannot be created: {error.strerror}",
            hint="set VGPUMGR_STORE to a file in a writable folder",
        ) from error
    try:
        try:
            _lock(descriptor, wait_s)
        except BlockingIOError as error:
            owner = os.pread(descriptor, 400, 0).decode(errors="replace").strip() or "it left no name"
            raise AlreadyRunning(
                f"another run is under way on this controller: {owner}",
                hint="wait until it ends and try again; the lock ends with the process",
                details=[str(path)],
            ) from error
        since = datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        with contextlib.suppress(
            OSError
        ):  # a full disk: the lock still holds, but the second run cannot name its owner
            os.ftruncate(descriptor, 0)
            os.pwrite(descriptor, f"pid {os.getpid()} by {by} since {since}\n".encode(), 0)
        try:
            yield
        finally:
            os.ftruncate(descriptor, 0)  # otherwise the next owner could be reported under this one's name
    finally:
        os.close(descriptor)


def _lock(descriptor: int, wait_s: float) -> None:
    """Raises BlockingIOError if another process has the lock to the end of the wait."""
    until = time.monotonic() + wait_s
    while True:
        try:
            return fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() >= until:
                raise
        time.sleep(_POLL_S)
