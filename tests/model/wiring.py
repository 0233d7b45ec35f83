"""A controller's connection to a host in this process: the real session of the host program, and what befalls it.

`Trouble` is what happens at the n-th call of one connection. Two calls are counted for each request, one before it is
carried out and one after, when its answer is on the way: so a controller can die, a VM can start or a second controller
can come between any two of its steps.

A controller that dies is one whose connection is cut: nothing that it still tries reaches the host, and to the host both
are the same. (An exception through all its threads would be less true: a killed process runs no handler.)
"""

from __future__ import annotations

import sys
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from vgpumgr.core.model.endpoint import Endpoint
from vgpumgr.errors import ProgramFailed
from vgpumgr.host.files import Root
from vgpumgr.host.program import greeting
from vgpumgr.host.protocol.session import EXIT_LEASE
from vgpumgr.link import moments
from vgpumgr.link.deadlines import Deadline
from vgpumgr.link.host import Host
from vgpumgr.link.program.session import Program
from vgpumgr.timing import Timing

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.model.machine import Machine
    from vgpumgr.core.driver.catalogue import Catalogue

POINT = "point"  # the kind of moment that only the host program knows
KILLED_STATUS = 137  # as a shell tells a SIGKILL


class HostProgramKilled(BaseException):
    """The host program's process ends here."""


@dataclass(slots=True)
class Trouble:
    """`act` (None: the controller dies) is done once, at call number `at` of the connection to `host`, or at the step's point named `point`.

    `inside`: calls are counted from the one that takes the host's lock. `killed`: the controller has died; it comes to this host no more.
    """

    host: str
    at: int
    act: Callable[[], None] | None = None
    point: str | None = None
    inside: bool = False
    done: bool = False
    killed: bool = False
    connections: list[Callable[[], None]] = field(default_factory=list)
    streams: list[Stream] = field(default_factory=list)
    _calls: int = 0

    def kill(self) -> None:
        """The controller's process ends here: no undo, no unlock."""
        self.killed = True
        for cut in self.connections:
            cut()

    def call(self, what: bytes = b"") -> None:
        """One more call, about to be made or just made."""
        if self.inside and b'"do":"lock"' in what:
            self.inside = False
        if self.point is None and not self.inside:
            self._count()

    def at_point(self, point: str) -> None:
        """The host program passes that point of a step."""
        sys.audit(moments.EVENT, self.host, POINT, point)
        if point == self.point:
            self._count()

    def _count(self) -> None:
        self._calls += 1
        if not self.done and self._calls > self.at:
            self.done = True
            if self.act is None:
                self.kill()
            else:
                self.act()


class Stream:
    """The host program at the other end of a channel: link.program.ByteStream."""

    def __init__(self, machine: Machine, trouble: Trouble | None, told: list[bytes]) -> None:
        self._trouble = trouble
        self._told = told
        self._server = machine.serve(at=trouble.at_point if trouble else lambda _point: None)
        self._out = greeting(Root(machine.root))
        self._in = b""
        self.ended = False
        self.lapsed = False
        self.connected = True
        machine.connections.append(self.cut)
        if trouble:
            trouble.connections.append(self.cut)
            trouble.streams.append(self)

    def send(self, data: bytes, deadline: Deadline) -> None:
        del deadline
        self._pass(data)
        self._in += data
        while not self.ended and b"\n" in self._in:
            line, _, self._in = self._in.partition(b"\n")
            self._told.append(line)
            try:
                answer = self._server.answer(line)
            except HostProgramKilled:
                self.end()
            else:
                self._pass()
                self._out += answer

    def _pass(self, data: bytes = b"") -> None:
        if self._trouble:
            self._trouble.call(data)
        if self.ended:
            raise ConnectionResetError

    def receive(self, deadline: Deadline | None = None) -> bytes:
        del deadline
        out, self._out = self._out, b""
        return b"" if self.ended else out

    def stderr(self) -> str:
        return ""

    def exit_status(self, timeout_s: float) -> int | None:
        del timeout_s
        return EXIT_LEASE if self.lapsed else KILLED_STATUS

    def end(self) -> None:
        """The program ends, and the kernel gives its lock back."""
        self.ended = True
        self._server.close()

    def lapse(self) -> None:
        """The host has heard nothing for as long as the lease is: it gives the lock back and ends the connection."""
        self.lapsed = True
        self.cut()

    def cut(self) -> None:
        """The whole connection goes."""
        self.connected = False
        self.end()


class Link(Host):
    """A host without SSH: the real session, the real adapters, at the other end the real host program."""

    def __init__(
        self, machine: Machine, trouble: Trouble | None, told: list[bytes], catalogue: Catalogue | None
    ) -> None:
        self._stream = stream = Stream(machine, trouble, told)
        endpoint = Endpoint(host=machine.libvirt.host, address="", port=22, user="root", key_file=None, known_hosts="")
        program = Program(endpoint, stream, timing=Timing(), is_connected=lambda: stream.connected)
        program.send(b"", Deadline(20))
        super().__init__(program, catalogue, libvirt_s=40)

    def close(self) -> None:
        self.program.close()
        self._stream.cut()

    def abort(self) -> None:
        self._stream.cut()


def connect(machine: Machine, trouble: Trouble | None, told: list[bytes], catalogue: Catalogue | None = None) -> Host:
    """An open link to that host; every request that reaches its host program is put into `told`."""
    if trouble is not None and trouble.killed:
        raise ProgramFailed(machine.name, "the controller is dead")
    return Link(machine, trouble, told, catalogue)
