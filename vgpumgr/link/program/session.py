"""The host program's session: typed requests, one at a time, each with a deadline; and the lease on the host's lock.

The host program holds the lock, and it alone changes the host: when it ends, the lock is free, and none of its changes
goes on. A thread pings while nothing else is sent, so that a slow controller keeps the lock.
"""

from __future__ import annotations

import base64
import contextlib
import threading
import time
from typing import TYPE_CHECKING, Any, Protocol, Self, TypeVar

from vgpumgr.errors import HostDeadline, HostError, LeaseLost, ProgramFailed, Unreachable
from vgpumgr.host.protocol.capture import Capture
from vgpumgr.host.protocol.installed import InstallationFact, Installed, PurgeFact
from vgpumgr.host.protocol.libvirt import LibvirtFact, LibvirtQuery
from vgpumgr.host.protocol.sample import SampleReport
from vgpumgr.host.protocol.session import EXIT_LEASE, LEASE_S, Hello
from vgpumgr.host.protocol.snapshot import Locked, Observed
from vgpumgr.host.protocol.steps import AnyStep, Executed
from vgpumgr.host.protocol.symptoms import Symptoms
from vgpumgr.link import moments, stages
from vgpumgr.link.deadlines import Bounded, Deadline, humanize, now
from vgpumgr.link.program import bootstrap, wire
from vgpumgr.wording import Option, Own, say

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from vgpumgr.core.model.endpoint import Endpoint
    from vgpumgr.link.program.unstarted import Instead
    from vgpumgr.timing import Timing

STAGE = "program"
_GRACE_S = 2.0  # a request ends by its own deadline; after this much longer it is stuck below us (a stopped peer, a full socket)
_STOPPED_S = 5.0  # none of our threads is this late unless all of them were stopped
# What may be sent before the greeting was read: it changes nothing, or nothing that outlives the program (its lock).
_EARLY = frozenset({"observe", "sample", "libvirt", "lock"})
_AGAIN = "run the same command again: it reads the host again and continues from there"


T = TypeVar("T")
_STDERR_LINES = 12
_SETTLE_S = 0.3


class ByteStream(Protocol):
    """What a session needs from a running command; ssh.client.RemoteCommand is one."""

    def send(self, data: bytes, deadline: Deadline) -> None: ...
    def receive(self, deadline: Deadline | None = None) -> bytes: ...
    def stderr(self) -> str: ...
    def exit_status(self, timeout_s: float) -> int | None: ...


class Connection(Protocol):
    """What brings the program to its host: ssh.client.SshConnection, or local.ThisMachine."""

    @property
    def endpoint(self) -> Endpoint: ...
    @property
    def alive(self) -> bool: ...
    @property
    def is_far(self) -> bool: ...
    @property
    def broken_at(self) -> str | None: ...
    @property
    def forced_by(self) -> str | None: ...
    def find_silent(self) -> str | None: ...
    def run(self, command: str, *, stage: str, timeout_s: float) -> ByteStream: ...


class Program:
    """A host program that was sent. Safe to use from several threads: requests wait for one another.

    Its greeting is read with the first answer, so that one of the requests in _EARLY can follow the program at once.
    """

    def __init__(
        self,
        endpoint: Endpoint,
        stream: ByteStream,
        *,
        timing: Timing,
        is_connected: Callable[[], bool],
        broken_at: Callable[[], str | None] = lambda: None,
        find_silent: Callable[[], str | None] = lambda: None,
        forced_by: Callable[[], str | None] = lambda: None,
    ) -> None:
        self.host = endpoint.host
        self._endpoint = endpoint
        self._forced_by = forced_by
        self.requests = 0
        self._hello: Hello | None = None
        self._starting = Deadline(0)
        self._stream = stream
        self._timing = timing
        self._request_s = timing.deadlines.program
        self._is_connected = is_connected
        self._broken_at = broken_at
        self._find_silent = find_silent
        self._lines = wire.Lines()
        self._greeting = wire.Greeting(self._lines)
        self._turn = threading.Lock()
        self._last_id = 0
        self._sent_at = now()
        self._locked = False
        self._lost: str | None = None
        self._broken: HostError | None = None
        self._stop_pinging = threading.Event()

    @classmethod
    def start(cls, connection: Connection, timing: Timing) -> Self:
        """Run the host program over that connection, from memory. Whether it started shows with its first answer."""
        start_s = timing.deadlines.program
        deadline = Deadline(start_s)
        endpoint = connection.endpoint
        command = bootstrap.SERVE_BY_SUDO if endpoint.become else bootstrap.SERVE
        stream = connection.run(command, stage=STAGE, timeout_s=start_s)
        program = cls(
            endpoint,
            stream,
            timing=timing,
            is_connected=lambda: connection.alive,
            broken_at=lambda: connection.broken_at,
            find_silent=connection.find_silent,
            forced_by=lambda: connection.forced_by,
        )
        program.send(bootstrap.package(far=connection.is_far), deadline)
        return program

    def send(self, package: bytes, deadline: Deadline) -> None:
        """Send the program, which has until that deadline to greet."""
        moments.tell(self.host, "start", STAGE)
        stages.enter(self.host, STAGE)
        self._starting = deadline

        def sending() -> None:
            # A program that ended before it had read everything has printed the reason.
            with contextlib.suppress(ConnectionError):
                self._stream.send(package, deadline)

        self._bounded(sending, deadline)

    @property
    def hello(self) -> Hello:
        """The greeting. Waits for it, unless an answer has come before."""
        with self._turn:
            if self._hello is None:
                self._bounded(self._greet, self._starting)
            assert self._hello is not None
            return self._hello

    def observe(self, *, wait_s: float, libvirt: LibvirtQuery | None = None) -> Observed:
        """The host's facts, read under the shared lock, with libvirt's answer to the query if there is one."""
        fields = {"wait_s": wait_s, "libvirt": libvirt}
        return self._checked("observe", fields, wait_s + self._longest(libvirt), Observed, "snapshot")

    def libvirt(self, libvirt: LibvirtQuery) -> LibvirtFact:
        """Libvirt's answer to the query, read without the host's lock."""
        return self._checked("libvirt", {"libvirt": libvirt}, self._longest(libvirt), LibvirtFact, "libvirt")

    def sample(self, *, since: Mapping[str, int], wait_s: float) -> SampleReport:
        """Which vGPUs run and what they used since those times (us, by GPU), read under the shared lock."""
        fields = {"wait_s": wait_s, "since": dict(since)}
        return self._checked("sample", fields, wait_s + self._request_s, SampleReport, "sample")

    def lock(self, *, by: str, wait_s: float, libvirt: LibvirtQuery | None = None) -> Locked:
        """Take the host's exclusive lock, until `unlock` or close, and read the facts. Raises Busy."""
        fields = {"by": by, "wait_s": wait_s, "libvirt": libvirt}
        ok = self._request("lock", fields, wait_s + self._longest(libvirt))
        self._locked = True
        self._stop_pinging = threading.Event()
        threading.Thread(target=self._keep_alive, args=(self._stop_pinging,), name="vgpumgr-ping", daemon=True).start()
        return self._check(ok, Locked, "snapshot")

    def execute(self, step: AnyStep, *, deadline_s: float) -> Executed:
        """Carry out one step under the lock. At `deadline_s` the host program gives up; the step may still happen."""
        fields = {"step": step, "deadline_s": deadline_s}
        return self._checked("execute", fields, deadline_s + self._request_s, Executed, "result")

    def unlock(self, gpus: Sequence[str], libvirt: LibvirtQuery | None = None) -> Observed:
        """The final facts of these GPUs (UUIDs), read under the lock, which is then released."""
        ok = self._request("unlock", {"gpu_uuids": list(gpus), "libvirt": libvirt}, self._longest(libvirt))
        self._stop()
        return self._check(ok, Observed, "snapshot")

    def symptoms(self) -> Symptoms:
        """What only doctor asks, read without the host's lock."""
        return self._checked("symptoms", {}, self._request_s, Symptoms, "symptoms")

    def capture(self, *, wait_s: float) -> Capture:
        """What only certify asks, read under the shared lock, or under our exclusive lock if we hold it."""
        return self._checked("capture", {"wait_s": wait_s}, wait_s + self._request_s, Capture, "capture")

    def installed(self) -> InstallationFact:
        """What `host install` left there."""
        return self._installed("installed", {})

    def install(self, dispatcher: str, programs: Sequence[bytes], *, pinned: bool, restore: bool) -> InstallationFact:
        """Install the dispatcher and these programs on the host. Returns what is installed afterwards."""
        texts = [base64.b64encode(program).decode() for program in programs]
        fields = {"dispatcher": dispatcher, "programs": texts, "pinned": pinned, "restore": restore}
        return self._installed("install", fields)

    def uninstall(self) -> InstallationFact:
        """Remove what `host install` left there. Returns what is still installed."""
        return self._installed("uninstall", {})

    def purge(self, *, check: bool) -> PurgeFact:
        """Remove our files there, under the lock; with `check`, only list them."""
        return self._checked("purge", {"check": check}, self._request_s, PurgeFact, "files")

    def ping(self, timeout_s: float | None = None) -> None:
        """Check that the program answers."""
        self._request("ping", {}, self._timing.ping_s if timeout_s is None else timeout_s)

    def close(self) -> None:
        """Stop pinging. The program itself ends with its connection, and the lock with it."""
        stages.leave(self.host)
        self._stop()

    def _longest(self, libvirt: LibvirtQuery | None) -> float:
        """The longest that a request with this query may take, in seconds."""
        return self._request_s + (0.0 if libvirt is None else libvirt["wait_s"])

    def _request(self, verb: str, fields: dict[str, Any], timeout_s: float) -> dict[str, Any]:
        if verb == "ping":
            return self._ask(verb, fields, timeout_s)
        self.requests += 1
        stages.enter(self.host, verb)
        moments.tell(self.host, "send", verb)
        ok = self._ask(verb, fields, timeout_s)
        moments.tell(self.host, "answered", verb)
        return ok

    def _ask(self, verb: str, fields: dict[str, Any], timeout_s: float) -> dict[str, Any]:
        deadline = Deadline(timeout_s + (self._starting.remaining() if self._hello is None else 0.0))

        def exchange() -> dict[str, Any]:
            # In a thread: after a Ctrl-C it still reads its answer, so the next request finds a clean stream.
            if not self._turn.acquire(timeout=deadline.remaining()):
                raise TimeoutError
            try:
                return self._exchange(verb, fields, deadline)
            finally:
                self._turn.release()

        return self._bounded(exchange, deadline, changes=verb == "execute")

    def _bounded(self, call: Callable[[], T], deadline: Deadline, *, changes: bool = False) -> T:
        """Return the call's value, or raise its error, translated. `changes`: it asks for a change that may be late."""
        request = Bounded(call, name="request")
        try:
            return request.result(deadline.seconds + _GRACE_S)
        except TimeoutError as error:
            late = self._late(deadline, changes=changes)
            if not request.done:
                self._broken = late
            raise late from error
        except wire.WireError as error:
            self._broken = ProgramFailed(self.host, f"the host program is not understood: {error}")
            raise self._broken from error

    def _greet(self) -> None:
        """Wait for the greeting. If something else was printed, only half of the remaining time is left for it."""
        deadline = self._starting
        while (hello := self._greeting.read()) is None:
            if self._greeting.is_drowned:
                self._broken = self._not_started(None)
                raise self._broken
            if self._greeting.noise and deadline is self._starting:
                deadline = Deadline(min(deadline.remaining(), deadline.seconds / 2))
            try:
                self._read(deadline)
            except TimeoutError as error:
                self._broken = self._late(deadline, changes=False)
                raise self._broken from error
        self._hello = hello
        moments.tell(self.host, "started", STAGE)

    def _exchange(self, verb: str, fields: dict[str, Any], deadline: Deadline) -> dict[str, Any]:
        """Send one request and read its answer, one caller at a time."""
        self._raise_if_lost()
        if self._broken is not None:
            raise self._broken
        if self._hello is None and verb not in _EARLY:
            self._greet()
        self._last_id += 1
        silent_s, self._sent_at = now() - self._sent_at, now()
        try:
            self._stream.send(wire.render_request(self._last_id, verb, fields), deadline)
        except ConnectionError as error:
            if self._hello is None:
                self._greet()  # its error says more, if something else came in its place
            raise self._ended(silent_s) from error
        if verb != "ping":
            moments.tell(self.host, "sent", verb)
        if self._hello is None:
            self._greet()
        while True:
            line = self._lines.take()
            if line is None:
                self._read(deadline, silent_s)
                continue
            number, ok, err = wire.parse_answer(line)
            if 0 < number < self._last_id:
                continue  # the late answer to a request that had been given up
            if number != self._last_id:
                raise wire.WireError(f"an answer to request {number}, which was never sent: {wire.show(line)}")
            if ok is None:
                from vgpumgr.link.program import refusals  # the rules for hints are needed only now

                raise refusals.translate(self.host, err)
            return ok

    def _read(self, deadline: Deadline, silent_s: float = 0.0) -> None:
        chunk = self._stream.receive(deadline)
        if not chunk:
            raise self._ended(silent_s)
        self._lines.feed(chunk)

    def _ended(self, silent_s: float) -> HostError:
        """The error that explains why output ended. `silent_s`: how long we had sent nothing before this request."""
        status = self._stream.exit_status(1.0)
        # A lost connection closes its channels a moment before it is recognised as lost.
        deadline = Deadline(_SETTLE_S if status is None else 0)
        while self._is_connected() and not deadline.expired:
            time.sleep(0.01)
        if self._locked and (silent_s > LEASE_S or status == EXIT_LEASE):
            quiet_time = Own(f"{max(silent_s, LEASE_S):.0f} s")
            self._lost = _no_longer_ours(say("the host program heard nothing for {} and released the lock", quiet_time))
            self._broken = LeaseLost(self.host, self._lost, hint=_AGAIN)
        elif not self._is_connected():
            via = self._broken_at()
            hint = "is the host still up?" if via is None else f"is {via} still up?"
            self._broken = Unreachable(self.host, STAGE, "the connection was lost", via=via, hint=hint)
        else:
            self._broken = self._failed(status) if self._hello is not None else self._not_started(status)
        return self._broken

    def _not_started(self, status: int | None) -> HostError:
        from vgpumgr.link.program import unstarted  # its rules are needed only now

        return unstarted.failure(self._endpoint, self._instead(status)) or self._failed(status)

    def _instead(self, status: int | None) -> Instead:
        from vgpumgr.link.program.unstarted import Instead

        errors = tuple(self._stream.stderr().splitlines())
        return Instead(printed=self._greeting.noise, said=errors, status=status, forced_by=self._forced_by())

    def _failed(self, status: int | None) -> HostError:
        errors = self._stream.stderr().splitlines()[-_STDERR_LINES:]
        how = "was killed, or its exit status is unknown" if status is None else f"ended with exit status {status}"
        return ProgramFailed(
            self.host,
            f"the host program {how}" + (f": {errors[-1]}" if errors else ""),
            hint="the host's journal may show why (out of memory?)",
            details=errors,
        )

    def _late(self, deadline: Deadline, *, changes: bool) -> HostError:
        stopped_s = deadline.overdue_s - _GRACE_S
        if stopped_s > _STOPPED_S:
            own = say("this controller was itself stopped or asleep for some {}", Own(f"{stopped_s:.0f} s"))
            if self._locked:
                return LeaseLost(self.host, say("the host's lock may no longer be ours: {}", own), hint=_AGAIN)
            return HostDeadline(self.host, STAGE, own, hint=_AGAIN)
        may_happen = "; the change may still happen, so check before you repeat it" if changes else ""
        silent = self._find_silent()
        if silent is None and self._hello is None:
            from vgpumgr.link.program import unstarted

            return unstarted.late(self._endpoint, self._instead(None), deadline.seconds)
        return HostDeadline(
            self.host,
            STAGE,
            say("no answer within {}", humanize(deadline.seconds)),
            via=silent,
            hint=say(
                "{} hangs or is overloaded{}; a larger {} waits longer",
                silent or "the host",
                may_happen,
                Option("--timeout"),
            ),
        )

    def _installed(self, verb: str, fields: dict[str, Any]) -> InstallationFact:
        return self._checked(verb, fields, self._request_s, Installed, "installation")["installation"]

    def _checked(self, verb: str, fields: dict[str, Any], timeout_s: float, shape: type[T], what: str) -> T:
        return self._check(self._request(verb, fields, timeout_s), shape, what)

    def _check(self, ok: dict[str, Any], shape: type[T], what: str) -> T:
        try:
            value: T = wire.read(ok, shape, what)
        except wire.WireError as error:
            from vgpumgr.link.program import refusals

            raise refusals.foreign(self.host, f"the host program's answer has the wrong shape: {error}") from error
        return value

    def _raise_if_lost(self) -> None:
        if self._lost is not None:
            raise LeaseLost(self.host, self._lost, hint=_AGAIN)

    def _stop(self) -> None:
        self._locked = False
        self._stop_pinging.set()

    def _keep_alive(self, stop: threading.Event) -> None:
        every_s, ping_s = self._timing.ping_every_s, self._timing.ping_s
        while not stop.wait(max(0.05, self._sent_at + every_s - now())):
            with self._turn:
                if stop.is_set() or now() - self._sent_at < every_s:
                    continue
                try:
                    self._exchange("ping", {}, Deadline(ping_s))
                except (HostError, wire.WireError, TimeoutError) as error:
                    if not stop.is_set():
                        self._lost = _why_lost(error, ping_s)
                    return


def _why_lost(error: Exception, ping_s: float) -> str:
    """The text about our lock after a failed ping."""
    match error:
        case LeaseLost():
            return error.what
        case HostError():
            return _no_longer_ours(error.what)
        case _:
            return _no_longer_ours(str(error) or say("no answer within {}", humanize(ping_s)))


def _no_longer_ours(why: str) -> str:
    return say("the host's lock is no longer ours: {}", why)
