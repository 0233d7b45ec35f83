"""The controller's own machine as a host: the host program is a child of this process, and no SSH is involved.

The child gets what sshd would give it: a socket for its input and output and one for its errors, a session of its own
(a Ctrl-C at the terminal does not reach it), `/` as its directory, and a plain environment. Like everything on a
connection, it ends with its input: when that is closed here, and when this process dies, however that happens.
"""

from __future__ import annotations

import contextlib
import os
import pwd
import select
import signal
import socket
import subprocess
import threading
from dataclasses import replace
from typing import TYPE_CHECKING

from vgpumgr.errors import BecomeFailed, ProgramFailed
from vgpumgr.link.deadlines import Bounded, Deadline

if TYPE_CHECKING:
    from vgpumgr.core.model.endpoint import Endpoint

_STDERR_BYTES = 8192
_END_S = 2.0  # a program whose input has ended needs milliseconds
_SEND_S = 3600.0  # if no deadline is given
_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


class LocalCommand:
    """A command that runs as a child of this process. The caller can write to it, read its output and end it."""

    def __init__(self, process: subprocess.Popen[bytes], channel: socket.socket, errors: socket.socket) -> None:
        self._process = process
        self._channel = channel
        self._errors = errors
        self._said = bytearray()
        self._using = threading.Lock()  # of the sockets, until they are closed
        self._closed = False
        errors.setblocking(False)

    def send(self, data: bytes, deadline: Deadline | None = None) -> None:
        """Send all of `data`. Raises ConnectionError if the command no longer reads, TimeoutError at the deadline."""
        with self._using:
            if self._closed:
                raise ConnectionError("the command's input is closed")
            self._channel.settimeout(max(_SEND_S if deadline is None else deadline.remaining(), 0.001))
            self._channel.sendall(data)

    def receive(self, deadline: Deadline | None = None) -> bytes:
        """Wait for output and return some of it, b"" at its end.

        Raises TimeoutError at the deadline; without a deadline it waits as long as it takes.
        """
        with self._using:
            return b"" if self._closed else self._receive(deadline)

    def stderr(self) -> str:
        """Return the tail of what the command has written to stderr so far."""
        with self._using:
            if not self._closed:
                self._drain_stderr()
        return bytes(self._said).decode(errors="replace").strip()

    def exit_status(self, timeout_s: float) -> int | None:
        """Return the exit status, or None if the command did not end within `timeout_s` or was killed by a signal."""
        try:
            status = self._process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            return None
        return status if status >= 0 else None

    def end(self) -> None:
        """Close the command's input and output, which should end it; otherwise kill it. Never blocks."""
        with contextlib.suppress(OSError):
            self._channel.shutdown(socket.SHUT_RDWR)
        # At the very end of the process there are no new threads (RuntimeError); the kernel then closes the sockets.
        with contextlib.suppress(RuntimeError):
            Bounded(self._reap, name="child-end")

    def _reap(self) -> None:
        try:
            self._process.wait(_END_S)
        except subprocess.TimeoutExpired:
            # Nobody can end sudo but root. It ends with the program, whose input has ended.
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
        with self._using:
            self._closed = True
            self._channel.close()
            self._errors.close()

    def _receive(self, deadline: Deadline | None) -> bytes:
        poll = select.poll()
        for one in (self._channel, self._errors):
            poll.register(one, select.POLLIN)
        while True:
            descriptors = {number for number, _ in poll.poll(None if deadline is None else deadline.remaining() * 1000)}
            if not descriptors:
                raise TimeoutError
            if self._errors.fileno() in descriptors and not self._drain_stderr():
                poll.unregister(self._errors)
            if self._channel.fileno() in descriptors:
                with contextlib.suppress(ConnectionError):
                    return self._channel.recv(65536)
                return b""

    def _drain_stderr(self) -> bool:
        """Read what stderr has now, and keep its tail. Returns False once stderr has ended."""
        with contextlib.suppress(BlockingIOError, ConnectionError):
            while more := self._errors.recv(65536):
                self._said += more
                del self._said[:-_STDERR_BYTES]
            return False
        return True


class ThisMachine:
    """A "connection" to the machine that this runs on. `close` ends its commands, and never blocks."""

    is_far = False
    broken_at: str | None = None
    forced_by: str | None = None

    def __init__(self, endpoint: Endpoint) -> None:
        uid = os.geteuid()
        user = _name(uid)
        if uid != 0 and not endpoint.become:
            raise BecomeFailed(
                endpoint.host,
                "become",
                f"this controller runs as {user}, and the host program needs root",
                hint="write ansible_become: true for the host, if sudo lets the user without a password; or run vgpumgr as root",
            )
        self.endpoint = replace(endpoint, user=user, become=uid != 0)
        self._command: LocalCommand | None = None
        self._closed = False

    @property
    def alive(self) -> bool:
        return not self._closed

    def find_silent(self) -> str | None:
        """Return None always: no jump host is used that could fall silent."""
        return None

    def run(self, command: str, *, stage: str, timeout_s: float) -> LocalCommand:  # noqa: ARG002 -- as over SSH
        """Start a command, which is one of our constants. Only one runs at a time."""
        ours, theirs = socket.socketpair()
        errors, their_errors = socket.socketpair()
        try:
            process = subprocess.Popen(
                ["/bin/sh", "-c", command],
                stdin=theirs.fileno(),
                stdout=theirs.fileno(),
                stderr=their_errors.fileno(),
                cwd="/",
                env=_environment(),
                start_new_session=True,
            )
        except OSError as error:
            raise ProgramFailed(
                self.endpoint.host,
                f"no process could be started here: {error.strerror}",
                hint="ulimit -u, and free memory",
            ) from error
        finally:
            theirs.close()
            their_errors.close()
        self._command = LocalCommand(process, ours, errors)
        return self._command

    def close(self) -> None:
        self._closed = True
        if self._command is not None:
            self._command.end()


def _name(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return f"uid {uid}"


def _environment() -> dict[str, str]:
    """Return the environment that a login would have. PATH is ours, then the usual folders of a system's programs."""
    path = ":".join(filter(None, (os.environ.get("PATH"), _PATH)))
    return {"PATH": path, "HOME": "/", "LANG": "C.UTF-8"}
