"""Bad luck for a controller: at a named moment of its work it does something to itself or to its host.

Told by the product's own seam (vgpumgr/link/moments.py) in the one process that is to suffer; nothing is patched.

    before:VERB   a step of the plan is about to be executed        after:VERB   it has been executed
    sent:VERB     the step's request has been sent, and no answer was read
    write:VERB    the step's request is about to be sent
    request:N     the Nth request (0 is the start of the program) is about to be sent to the host program
    send:VERB     a request of that verb is about to be
    moment:K      the Kth of all moments on the host `on`; how many there are, `count` tells: {"count": FILE}

What is then done: `kill`, `stop`, `int`, `term` are signals to itself; `kill-host-program` ends the host program of this
connection; `cut` the connection; `touch` makes a file and waits until it is removed again. With `note` that file is told
which moment it was, and how many requests that write had been begun before it.
`delay_ms` instead of `at` means: that long after the host program was started.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import signal
import socket
import sys
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vgpumgr.link import moments
from vgpumgr.link.program import bootstrap

if TYPE_CHECKING:
    from collections.abc import Mapping

_SIGNALS = {"kill": signal.SIGKILL, "int": signal.SIGINT, "term": signal.SIGTERM}
_HOLD_S = 60.0
_NOTICE_S = 1.0
WRITE = ("send", "execute")


def install(spec: Mapping[str, Any]) -> None:
    """Listen from now on. Each strikes once."""
    sys.addaudithook(_BadLuck(spec).hear)


class _BadLuck:
    def __init__(self, spec: Mapping[str, Any]) -> None:
        self._spec = spec
        self._struck = False
        self._step = ""
        self._requests = 0
        self._moments = 0
        self._writes = 0
        self._noticed = threading.Event()
        self._sockets: list[socket.socket] = []

    def hear(self, event: str, arguments: tuple[Any, ...]) -> None:
        """Python's audit hook."""
        if event == "socket.connect":
            self._connecting(*arguments)
        elif event == moments.EVENT:
            self._moment(*arguments)

    def _connecting(self, one: socket.socket, address: object) -> None:
        if one.family in (socket.AF_INET, socket.AF_INET6) and isinstance(address, tuple):
            self._sockets.append(one)

    def _moment(self, host: str, kind: moments.Kind, of: str) -> None:
        if self._spec.get("on", host) != host:
            return
        if kind == "interrupted":
            self._noticed.set()
            return
        self._moments += 1
        if "count" in self._spec:
            with Path(self._spec["count"]).open("a", encoding="utf-8") as file:
                file.write(f"{kind} {of}\n")
        for point in self._points(kind, of):
            self._at(point, f"{kind} {of}")
        self._at(f"moment:{self._moments}", f"{kind} {of}")
        self._writes += (kind, of) == WRITE

    def _points(self, kind: moments.Kind, of: str) -> list[str]:
        """The names of this moment."""
        match kind:
            case "begin":
                self._step = of
                return [f"before:{of}"]
            case "end":
                return [f"after:{of}"]
            case "start":
                self._program_starts()
                return ["request:0"]
            case "send":
                self._requests += 1
                return [
                    f"request:{self._requests}",
                    f"send:{of}",
                    *([f"write:{self._step}"] if of == "execute" else ()),
                ]
            case "sent" if of == "execute":
                return [f"sent:{self._step}"]
            case _:
                return []

    def _at(self, point: str, name: str) -> None:
        if not self._struck and self._spec.get("at") == point:
            self._struck = True
            if "note" in self._spec:
                said = {"moment": name, "number": self._moments, "writes": self._writes}
                Path(self._spec["note"]).write_text(json.dumps(said), encoding="utf-8")
            self._strike()

    def _program_starts(self) -> None:
        if "delay_ms" in self._spec:
            timer = threading.Timer(self._spec["delay_ms"] / 1000, self._strike)
            timer.daemon = True
            timer.start()

    def _strike(self) -> None:
        what = self._spec["do"]
        if what == "kill-host-program":
            self._kill_host_program()
        elif what == "cut":
            for one in self._sockets:
                with contextlib.suppress(OSError):
                    one.shutdown(socket.SHUT_RDWR)
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
            self._noticed.wait(_NOTICE_S)  # the main thread takes its time, and a step takes milliseconds

    def _kill_host_program(self) -> None:
        until = time.monotonic() + 5
        while time.monotonic() < until:
            found = [pid for one in self._sockets for pid in find_host_programs(one)]
            for pid in found:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            if found:
                os.write(2, b"(killed the host program)\n")
                return
            time.sleep(0.002)


def find_host_programs(ours: socket.socket) -> list[int]:
    """The host programs (the Python, not the shell that started it) of the SSH connection on that socket.

    By both ports: connections to two servers may well have the same port of ours, also another test run's.
    """
    try:
        client_port, server_port = ours.getsockname()[1], ours.getpeername()[1]
    except OSError:  # closed by now
        return []
    mark = f"SSH_CONNECTION=127.0.0.1 {client_port} 127.0.0.1 {server_port}".encode()
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            argv = (folder / "cmdline").read_bytes().split(b"\0")
            if (b"-c", bootstrap.LOADER.encode()) in itertools.pairwise(argv):
                environment = (folder / "environ").read_bytes().split(b"\0")
                if mark in environment:
                    found.append(int(folder.name))
    return found
