"""Calls of libvirt, each with a deadline, over one connection, which is opened on first use and kept while it works.

A call of libvirt cannot be interrupted. So each runs in a thread beside the one that answers requests: the wait for it
has a deadline, and /sys is read meanwhile. A call that hangs ends with this program.
"""

import signal
import threading
from typing import Callable, Generic, Optional, TypeVar

from ..protocol.libvirt import LibvirtRefusal
from .binding import Connection, Library, LibvirtError

T = TypeVar("T")


class Unavailable(Exception):
    """A call has no value; `kind` and `message` say why.

    `begun`: the call's change may have been made, or may be made later.
    """

    def __init__(self, kind: LibvirtRefusal, message: str, code: int = 0, *, begun: bool = False) -> None:
        super().__init__(message)
        self.kind: LibvirtRefusal = kind
        self.message = message
        self.code = code
        self.begun = begun


class Turn:
    """Shared by the thread of a call and the thread that waits for it, so that no change begins that nobody waits for.

    Either the call begins its change first, or the waiting thread gives it up first.
    """

    def __init__(self) -> None:
        self._one_at_a_time = threading.Lock()
        self._given_up = False
        self.begun = False

    def begin(self) -> None:
        """Announce that the call is about to change something. Raises GivenUp if nobody waits for it any more."""
        with self._one_at_a_time:
            if self._given_up:
                raise GivenUp
            self.begun = True

    def give_up(self) -> bool:
        """Stop waiting. A change that has not begun yet never will. Returns whether it has begun."""
        with self._one_at_a_time:
            self._given_up = True
            return self.begun


class GivenUp(Exception):
    """The call may not make its change, since nobody waits for that any more."""


class _Running(Generic[T]):
    """One call: its thread, and how it ended."""

    def __init__(self, call: Callable[[Turn], T], wait_s: float) -> None:
        self._call = call
        self._wait_s = wait_s
        self._turn = Turn()
        self._ended = False
        self._value: Optional[T] = None
        self._error: Optional[Exception] = None
        self._thread = threading.Thread(target=self._run, name="libvirt", daemon=True)
        self._thread.start()

    @property
    def alive(self) -> bool:
        return self._thread.is_alive()

    def result(self) -> T:
        """Wait for the call to end and return its value, or raise its error.

        Raises Unavailable(silent) if it has not ended in time.
        """
        self._thread.join(self._wait_s)
        if not self._ended:
            late = "no answer within {:g} s".format(self._wait_s)
            raise Unavailable("silent", late, begun=self._turn.give_up())
        if self._error is not None:
            raise self._error
        return self._value  # type: ignore[return-value]  # set, since there is no error

    def _run(self) -> None:
        # This program ends at a SIGPIPE, as its controller has gone then; but libvirtd may go, too.
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGPIPE})
        try:
            self._value = self._call(self._turn)
        except Exception as error:  # noqa: BLE001 -- it is raised where the result is awaited
            self._error = error
        self._ended = True


class Client:
    """The host's libvirt. One call at a time: while one hangs, the next is refused at once."""

    def __init__(self, load: Callable[[], Library] = Library) -> None:
        self._load = load
        self._library: Optional[Library] = None
        self._connection: Optional[Connection] = None
        self._running: "Optional[_Running[object]]" = None

    def begin(self, call: Callable[[Connection, Turn], T], wait_s: float) -> Callable[[], T]:
        """Start `call`. Returns a function that waits for the call's value, and raises Unavailable if there is none."""
        if self._running is not None and self._running.alive:

            def late() -> T:
                raise Unavailable("silent", "an earlier call has not been answered yet")

            return late
        running = _Running(lambda turn: self._carry_out(call, turn), wait_s)
        self._running = running  # type: ignore[assignment]  # only its thread is of interest
        return running.result

    def _carry_out(self, call: Callable[[Connection, Turn], T], turn: Turn) -> T:
        try:
            if self._library is None:
                self._library = self._load()
        except (OSError, AttributeError, ImportError) as error:
            raise Unavailable("missing", str(error)) from error
        try:
            if self._connection is None:
                self._connection = self._library.open()
        except LibvirtError as error:
            raise Unavailable("closed", error.message, error.code) from error
        try:
            return call(self._connection, turn)
        except LibvirtError as error:
            if self._connection.alive:
                raise Unavailable("refused", error.message, error.code, begun=turn.begun) from error
            self._connection = None  # what is left of it goes with this program: closing could hang
            raise Unavailable("closed", error.message, error.code, begun=turn.begun) from error
