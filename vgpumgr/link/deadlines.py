"""How a wait is bounded, and how a call that cannot be interrupted is abandoned.

Every wait of the link has a limit. A call that blocks in C or in another library's thread (getaddrinfo, a paramiko
request without a timeout) runs in a separate daemon thread, so that the caller can stop waiting and
a Ctrl-C reaches it at once. It is a daemon thread because it must not keep the interpreter alive.
"""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Generic, TypeVar

from vgpumgr.wording import Own

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")

_SLICE_S = 0.5


def now() -> float:
    """Seconds on a clock that also runs while the machine sleeps: otherwise a lease would look fresh after a sleep."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


class Deadline:
    """A point in time that several waits share."""

    __slots__ = ("_end", "seconds")

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self._end = now() + seconds

    def remaining(self) -> float:
        """Seconds left, never below 0."""
        return max(0.0, self._end - now())

    @property
    def overdue_s(self) -> float:
        """Seconds since it passed; 0 before that."""
        return max(0.0, now() - self._end)

    @property
    def expired(self) -> bool:
        return self.remaining() <= 0


class Bounded(Generic[T]):
    """A call that runs in a daemon thread. Several callers can wait for it, each more than once."""

    def __init__(self, call: Callable[[], T], *, name: str) -> None:
        self._call: Callable[[], T] | None = call
        self._done = threading.Event()
        self._value: T | None = None
        self._error: BaseException | None = None
        threading.Thread(target=self._run, name=f"vgpumgr-{name}", daemon=True).start()

    def _run(self) -> None:
        call, self._call = self._call, None
        assert call is not None
        try:
            self._value = call()
        except BaseException as error:  # noqa: BLE001 -- it is re-raised where the result is awaited
            self._error = error
        finally:
            del call  # releases what it closes over
            self._done.set()

    @property
    def done(self) -> bool:
        return self._done.is_set()

    def wait(self, timeout_s: float) -> bool:
        """Wait; returns whether it ended within that time.

        It waits in slices, because a Ctrl-C that the kernel delivers to another thread (paramiko's) does not end this
        thread's wait, and is handled only when this thread runs Python code again.
        """
        deadline = Deadline(timeout_s)
        while not self._done.wait(min(_SLICE_S, deadline.remaining())):
            if deadline.expired:
                return False
        return True

    def result(self, timeout_s: float) -> T:
        """Return its value, or raise its error. TimeoutError if it has not ended; it continues in its thread."""
        if not self.wait(timeout_s):
            raise TimeoutError
        if self._error is not None:
            raise self._error
        return self._value  # type: ignore[return-value]  # set, since there is no error


def bounded(call: Callable[[], T], timeout_s: float, *, name: str) -> T:
    """Return the value of `call`. Raises TimeoutError after that time; the call then continues in its thread."""
    return Bounded(call, name=name).result(timeout_s)


def humanize(seconds: float) -> str:
    """A time for a message: 10 s, 0.5 s."""
    return Own(f"{seconds:g} s")
