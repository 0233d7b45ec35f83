"""Bad luck, installed into a controller before it begins: at a named point of its work it does something to itself or its host.

The product code has no hooks for this: its own seams are wrapped from outside, in the one process that is to suffer.

    before:VERB   a step of the plan is about to be executed        after:VERB   it has been executed
    sent:VERB     the step's request has been sent, and no answer was read (create_vgpu, destroy_vgpu)
    write:VERB    the libvirt call of a step is about to be made, all checks done
    request:N     the Nth request (0 is the start of the program) is about to be sent to the host program

What is then done: `kill`, `stop`, `int`, `term` are signals to itself; `kill-host-program` ends the host program of this
connection; `touch` makes a file and waits until it is removed again.
`delay_ms` instead of `at` means: that long after the host program was started.
"""

from __future__ import annotations

import contextlib
import os
import signal
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vgpumgr.controller import apply, executor
from vgpumgr.link import ssh
from vgpumgr.link.hypervisor import Hypervisor
from vgpumgr.link.program import Program

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from vgpumgr.core.endpoint import Endpoint
    from vgpumgr.link.deadlines import Deadlines

_SIGNALS = {"kill": signal.SIGKILL, "int": signal.SIGINT, "term": signal.SIGTERM}
_HOLD_S = 60.0
_NOTICE_S = 1.0


def install(spec: Mapping[str, Any]) -> None:
    """Wrap what the point needs. Each strikes once."""
    bad_luck = _BadLuck(spec)
    _wrap_connection(bad_luck)
    _wrap_steps(bad_luck)
    _wrap_requests(bad_luck)


class _BadLuck:
    def __init__(self, spec: Mapping[str, Any]) -> None:
        self._spec = spec
        self._struck = False
        self.step = ""
        self.noticed = threading.Event()
        self.ports: set[tuple[int, int]] = set()

    def at(self, point: str) -> None:
        if not self._struck and self._spec.get("at") == point:
            self._struck = True
            self._strike()

    def program_starts(self) -> None:
        if "delay_ms" in self._spec:
            timer = threading.Timer(self._spec["delay_ms"] / 1000, self._strike)
            timer.daemon = True
            timer.start()

    def _strike(self) -> None:
        what = self._spec["do"]
        if what == "kill-host-program":
            self._kill_host_program()
        elif what == "touch":
            file = Path(self._spec["file"])
            file.touch()
            until = time.monotonic() + _HOLD_S
            while file.exists() and time.monotonic() < until:
                time.sleep(0.01)
        elif what == "stop":
            # To this very thread: a signal to the process lets the calling thread run on until another has taken it.
            signal.pthread_kill(threading.get_ident(), signal.SIGSTOP)
        else:
            os.kill(os.getpid(), _SIGNALS[what])
            self.noticed.wait(_NOTICE_S)  # the main thread takes its time, and a step takes milliseconds

    def _kill_host_program(self) -> None:
        until = time.monotonic() + 5
        while time.monotonic() < until:
            found = [pid for ports in self.ports for pid in find_host_programs(*ports)]
            for pid in found:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            if found:
                os.write(2, b"(killed the host program)\n")
                return
            time.sleep(0.002)


def find_host_programs(client_port: int, server_port: int) -> list[int]:
    """The host programs (the Python, not the shell that started it) of the SSH connection between those ports.

    Both ports: connections to two servers may well have the same port of ours, also another test run's.
    """
    mark = f"SSH_CONNECTION=127.0.0.1 {client_port} 127.0.0.1 {server_port}".encode()
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            argv = (folder / "cmdline").read_bytes().split(b"\0")
            if argv[1:3] == [b"-I", b"-c"] and b"vgpumgr_host" in argv[3] and b"pump" not in argv[4:]:
                environment = (folder / "environ").read_bytes().split(b"\0")
                if mark in environment:
                    found.append(int(folder.name))
    return found


def _wrap_connection(bad_luck: _BadLuck) -> None:
    really = ssh.open_connection

    def open_connection(endpoint: Endpoint, deadlines: Deadlines) -> ssh.SshConnection:
        connection = really(endpoint, deadlines)
        ours = connection._socket
        bad_luck.ports.add((ours.getsockname()[1], ours.getpeername()[1]))
        return connection

    ssh.open_connection = open_connection


def _wrap_steps(bad_luck: _BadLuck) -> None:
    really: Callable[..., None] = executor.Executor.execute

    def execute(self: executor.Executor, step: Any) -> None:
        bad_luck.step = step.verb
        bad_luck.at(f"before:{step.verb}")
        really(self, step)
        bad_luck.at(f"after:{step.verb}")

    really_stop: Callable[..., None] = apply._Run.stop

    def stop(self: apply._Run) -> None:
        really_stop(self)
        bad_luck.noticed.set()

    apply._Run.stop = stop  # type: ignore[method-assign]  # that is what this file is for
    executor.Executor.execute = execute  # type: ignore[method-assign]  # that is what this file is for
    for name in ("set_metadata", "attach_device", "detach_device"):
        setattr(Hypervisor, name, _before_write(getattr(Hypervisor, name), bad_luck))


def _before_write(really: Callable[..., None], bad_luck: _BadLuck) -> Callable[..., None]:
    def write(*arguments: Any, **named: Any) -> None:
        bad_luck.at(f"write:{bad_luck.step}")
        really(*arguments, **named)

    return write


def _wrap_requests(bad_luck: _BadLuck) -> None:
    really_greet: Callable[..., None] = Program.greet
    really_exchange: Callable[..., dict[str, Any]] = Program._exchange
    really_send: Callable[..., None] = ssh.RemoteCommand.send

    def greet(self: Program, package: bytes, deadline: Any) -> None:
        bad_luck.program_starts()
        bad_luck.at("request:0")
        really_greet(self, package, deadline)

    def exchange(self: Program, verb: str, fields: dict[str, Any], deadline: Any) -> dict[str, Any]:
        if verb != "ping":
            bad_luck.at(f"request:{self.requests}")
        return really_exchange(self, verb, fields, deadline)

    def send(self: ssh.RemoteCommand, data: bytes, deadline: Any = None) -> None:
        really_send(self, data, deadline)
        if b'"execute"' in data[:200]:
            bad_luck.at(f"sent:{bad_luck.step}")

    Program.greet = greet  # type: ignore[method-assign]  # as above
    Program._exchange = exchange  # type: ignore[method-assign]  # as above
    ssh.RemoteCommand.send = send  # type: ignore[method-assign]  # as above
