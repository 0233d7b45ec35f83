"""Runs one function for many hosts, a limited number at a time. A host that fails or hangs spoils no other.

Each host has a daemon thread, so that one that hangs below us (a stopped peer, a library without a timeout) can be
abandoned: it delays neither the other hosts nor the end of the program.
"""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, TypeVar

from vgpumgr import errors
from vgpumgr.controller.context import Progress, Slow
from vgpumgr.controller.results import Fleet, View
from vgpumgr.link import stages
from vgpumgr.wording import Own, say

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from vgpumgr.controller.context import Context
    from vgpumgr.core.inventory import HostDeclaration
    from vgpumgr.names import HostName
    from vgpumgr.timing import Timing

Result = TypeVar("Result")

MAX_WORKERS = 32  # more threads do not hide more latency: the interpreter lock is the limit (measured, paramiko 5.1)
STAGE = "run"  # the stage in the errors.HostDeadline of an abandoned host
logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome(Generic[Result]):
    """One host's outcome: the return value of the work, or the error that stopped it. `seconds`: how long it took."""

    host: HostName
    value: Result | None
    error: errors.VgpumgrError | None
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class HostTimeout:
    """How long each host may take from its start, and what happens to one that takes longer.

    `abort` cuts all connections to that host, without waiting; `tell` gets an occasional line with the running hosts.
    With `stop`, a first Ctrl-C sets it and waits for the running hosts, which check it between two pieces of work.
    """

    seconds: float
    abort: Callable[[HostName], None]
    tell: Callable[[str], None]
    stop: threading.Event | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Watch(Generic[Result]):
    """Two functions that fan_out calls while the hosts run, always in its caller's thread.

    `ended` gets each host's outcome as it comes. `progress` is called whenever the progress may have changed, and about
    twice a second.
    """

    ended: Callable[[Outcome[Result]], None] = lambda _: None
    progress: Callable[[Progress], None] = lambda _: None


def fan_out(
    hosts: Sequence[HostDeclaration],
    work: Callable[[HostDeclaration], Result],
    host_timeout: HostTimeout | None = None,
    watch: Watch[Result] | None = None,
    *,
    timing: Timing,
) -> tuple[Outcome[Result], ...]:
    """Run `work` for every host; the outcomes are returned in the order of the hosts."""
    return _Pool(hosts, work, host_timeout, watch or Watch(), timing).wait() if hosts else ()


def read_fleet(
    hosts: Sequence[HostDeclaration],
    read: Callable[[HostDeclaration], tuple[View, errors.VgpumgrError | None]],
    context: Context,
) -> Fleet[View]:
    """Read every host by `read`. It returns a view, with an error if only a part of the host could be read."""
    outcomes = fan_out(hosts, read, watch=Watch(progress=context.reading), timing=context.timing)
    ends = [(outcome.host, *(outcome.value or (None, outcome.error))) for outcome in outcomes]
    return Fleet(
        views=tuple(view for _, view, _ in ends if view is not None),
        errors=tuple((host, error) for host, _, error in ends if error is not None),
    )


@contextlib.contextmanager
def watched(host: HostName, context: Context) -> Iterator[None]:
    """Report the progress of a single host, whose work the caller does, about twice a second."""
    over = threading.Event()
    began = time.monotonic()

    def watch() -> None:
        while not over.wait(context.timing.watch_s):
            context.reading(Progress(ended=0, hosts=1, slow=(Slow(host, time.monotonic() - began, stages.of(host)),)))

    watcher = threading.Thread(target=watch, name=f"watch-{host}", daemon=True)
    watcher.start()
    try:
        yield
    finally:
        over.set()
        watcher.join()
        context.reading(Progress(ended=1, hosts=1))


class _Pool(Generic[Result]):
    """The running hosts. `_turn` guards everything; each change is notified on it.

    The cost of a turn of the loop does not depend on how many hosts have ended: there may be ten thousand.
    """

    def __init__(
        self,
        hosts: Sequence[HostDeclaration],
        work: Callable[[HostDeclaration], Result],
        host_timeout: HostTimeout | None,
        watch: Watch[Result],
        timing: Timing,
    ) -> None:
        self._hosts = hosts
        self._work = work
        self._host_timeout = host_timeout
        self._watch = watch
        self._timing = timing
        self._turn = threading.Condition()
        self._waiting = list(reversed(hosts))
        self._running: dict[HostName, float] = {}  # the time when each began, the longest running first
        self._outcomes: dict[HostName, Outcome[Result]] = {}
        self._ended: list[Outcome[Result]] = []  # the outcomes that the watch has not got yet
        self._told = time.monotonic()

    def wait(self) -> tuple[Outcome[Result], ...]:
        try:
            self._wait()
        except KeyboardInterrupt:
            limits = self._host_timeout
            if limits is None or limits.stop is None or limits.stop.is_set():
                raise
            limits.stop.set()
            with self._turn:
                self._waiting.clear()
                running = ", ".join(self._running)
            if running:
                once_more = "interrupt again to leave it to the next run"
                limits.tell(f"interrupted: {running} can finish the current work; {once_more}")
            self._wait()
            raise
        return tuple(self._outcomes[host.name] for host in self._hosts)

    def _wait(self) -> None:
        over = False
        while not over:
            with self._turn:
                while self._waiting and len(self._running) < MAX_WORKERS:
                    self._start(self._waiting.pop())
                if self._running and not self._ended:
                    self._turn.wait(timeout=self._timing.watch_s)
                self._leave_late_ones()
                self._tell()
                ended, self._ended = self._ended, []
                over = not self._waiting and not self._running
                progress = self._progress()
            # Called without the lock: what it prints may take as long as a terminal likes.
            for outcome in ended:
                self._watch.ended(outcome)
            self._watch.progress(progress)

    def _progress(self) -> Progress:
        moment = time.monotonic()
        seconds = {name: moment - since for name, since in self._running.items()}
        slow = tuple(
            Slow(name, taken, stages.of(name)) for name, taken in seconds.items() if taken > self._timing.slow_s
        )
        return Progress(ended=len(self._outcomes), hosts=len(self._hosts), slow=slow)

    def _start(self, host: HostDeclaration) -> None:
        self._running[host.name] = time.monotonic()
        thread = threading.Thread(target=self._run, args=(host,), name=f"host-{host.name}", daemon=True)
        try:
            thread.start()
        except BaseException:
            if thread.ident is None:  # a Ctrl-C came first, so there is nothing to wait for
                del self._running[host.name]
            raise

    def _run(self, host: HostDeclaration) -> None:
        self._end(_one(host, self._work))

    def _end(self, outcome: Outcome[Result]) -> None:
        with self._turn:
            if self._running.pop(outcome.host, None) is not None:  # an abandoned host keeps its outcome
                self._outcomes[outcome.host] = outcome
                self._ended.append(outcome)
                self._turn.notify_all()

    def _leave_late_ones(self) -> None:
        host_timeout = self._host_timeout
        if host_timeout is None:
            return
        earliest = time.monotonic() - host_timeout.seconds
        for name in [name for name, since in self._running.items() if since < earliest]:
            late = errors.HostDeadline(
                name,
                STAGE,
                say("not done after {}, so it was skipped", Own(f"{host_timeout.seconds:g} s")),
                hint="nothing is lost: the same command reads the host again and continues from there",
            )
            self._end(Outcome(host=name, value=None, error=late, seconds=host_timeout.seconds))
            threading.Thread(target=host_timeout.abort, args=(name,), name=f"abort-{name}", daemon=True).start()

    def _tell(self) -> None:
        moment = time.monotonic()
        if self._host_timeout is None or moment - self._told < self._timing.tell_every_s:
            return
        self._told = moment
        running = [
            f"{name} ({', '.join(filter(None, (stages.of(name), f'{moment - since:.0f} s')))})"
            for name, since in self._running.items()
        ]
        if running:
            self._host_timeout.tell(f"still running: {', '.join(running)}")


def _one(host: HostDeclaration, work: Callable[[HostDeclaration], Result]) -> Outcome[Result]:
    started = time.monotonic()
    value: Result | None = None
    failed: errors.VgpumgrError | None = None
    try:
        value = work(host)
    except errors.VgpumgrError as error:
        failed = error
    except Exception as error:  # a bug with one host must not stop the others; it is recorded in full
        logger.exception("host %s: unexpected", host.name)
        bug = errors.Unexpected.of(error)
        failed = errors.ProgramFailed(host.name, bug.message, hint=bug.hint)
    return Outcome(host=host.name, value=value, error=failed, seconds=time.monotonic() - started)
