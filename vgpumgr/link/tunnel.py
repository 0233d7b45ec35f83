"""libvirt's own protocol over our SSH connection: a unix socket here, `virt-ssh-helper` there, bytes in between.

libvirt's client cannot be interrupted and has no deadlines. Because the socket is ours, we can add them: `cut` shuts it
down in both directions, and every blocked libvirt call raises at once. A close alone would not do that: libvirt would hang
forever. So the pump always ends with a shutdown, and another one is registered for an interpreter that exits without
closing.

The socket has an abstract name (unix(7)) and no file, so nothing is left in /tmp even if this process is killed. Such a
name has no permissions, and /proc/net/unix shows it to every user of this machine. So only a connection from this very
process is accepted (SO_PEERCRED), and any other client is disconnected.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import secrets
import socket
import struct
import threading
from typing import TYPE_CHECKING

from vgpumgr.errors import HostError
from vgpumgr.link import bootstrap
from vgpumgr.link.deadlines import Deadline
from vgpumgr.link.libvirt_refusals import STAGE

if TYPE_CHECKING:
    from vgpumgr.link.ssh import RemoteCommand, SshConnection

HELPER = "virt-ssh-helper qemu:///system"
_NOT_FOUND = 127
_SUN_PATH = 108  # bytes; libvirt treats all of them as the name, so ours is padded with zeros
_UCRED = struct.Struct("iII")  # pid, uid, gid
_BACKLOG = 64  # other clients must not keep libvirt out
_LEAST_S = 0.001  # 0 would neither wait nor time out
_CHUNK = 65536


class _Open:
    """The tunnels to cut when the interpreter exits without closing them.

    Daemon threads simply stop then, and libvirt's final messages would wait for the pump. weakref.finalize would do, except
    that a thread which ends at that very moment changes its registry while it is iterated over (Python 3.11).
    """

    def __init__(self) -> None:
        self._all: set[Tunnel] = set()
        self._turn = threading.Lock()
        atexit.register(self._remove_all)

    def add(self, one: Tunnel) -> None:
        with self._turn:
            self._all.add(one)

    def discard(self, one: Tunnel) -> bool:
        """Whether it was registered; if so, the caller must end it."""
        with self._turn:
            was = one in self._all
            self._all.discard(one)
            return was

    def _remove_all(self) -> None:
        with self._turn:
            left = tuple(self._all)
        for one in left:
            one.remove()


_open_now = _Open()


class Tunnel:
    """One libvirt connection's path to the host. libvirt's client connects to `path`, once, from this process."""

    def __init__(self, connection: SshConnection, *, timeout_s: float) -> None:
        self._connection = connection
        self._timeout_s = timeout_s
        self.refused: HostError | None = None  # why the SSH server refused to run our command
        self._said = ""
        self._ended = threading.Event()
        self._state = threading.Lock()
        self._command: RemoteCommand | None = None
        self._replay: bytearray | None = bytearray()  # what libvirt sent while the far end can still be replaced
        name = f"vgpumgr-{secrets.token_hex(16)}"
        self.path = f"@{name}"  # libvirt's spelling (virNetSocketNewConnectUNIX)
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            self._listener.bind(b"\0" + name.encode("ascii").ljust(_SUN_PATH - 1, b"\0"))
            self._listener.listen(_BACKLOG)
        except BaseException:
            self._listener.close()
            raise
        self._sockets = [self._listener]
        _open_now.add(self)
        threading.Thread(target=self._serve, name="vgpumgr-tunnel", daemon=True).start()

    @property
    def ended(self) -> bool:
        """Whether bytes no longer pass."""
        return self._ended.is_set()

    @property
    def connected(self) -> bool:
        """Whether the SSH connection below it is still up."""
        return self._connection.alive

    def why(self) -> str:
        """The far end's last message before it ended, or an empty string."""
        self._ended.wait(1.0)
        return self._said

    def cut(self) -> None:
        """End it now: a libvirt call that waits for bytes raises. It can be called from any thread, and repeatedly."""
        self._ended.set()
        for one in tuple(self._sockets):
            _shut(one)

    def _serve(self) -> None:
        """Run from libvirt's connect to the last byte. Any failure here reaches the caller as a closed socket."""
        try:
            command = self._command = self._connection.run(HELPER, stage=STAGE, timeout_s=self._timeout_s)
            ours = self._accept()
            up = threading.Thread(target=self._pump_up, args=(ours,), name="vgpumgr-tunnel-up", daemon=True)
            up.start()
            if not self._pump_down(command, ours) and command.exit_status(1.0) == _NOT_FOUND:
                self._pump_down(self._fall_back(), ours)
        except HostError as error:
            self.refused = error
            self._said = error.what
        except OSError as error:
            self._said = self._said or str(error)
        finally:
            last = self._command
            if last is not None:
                self._said = last.stderr() or self._said
            self.cut()
            self.remove()

    def remove(self) -> None:
        """Close the sockets; repeating it does nothing."""
        if _open_now.discard(self):
            for one in tuple(self._sockets):
                _shut(one)
                one.close()

    def _accept(self) -> socket.socket:
        until = Deadline(self._timeout_s)
        while True:
            self._listener.settimeout(max(_LEAST_S, until.remaining()))
            ours, _ = self._listener.accept()
            if _peer(ours) == os.getpid():
                break
            ours.close()
        self._listener.close()  # and its name is gone
        with self._state:
            self._sockets.append(ours)
        if self._ended.is_set():
            raise ConnectionError("the tunnel was closed")
        return ours

    def _pump_down(self, command: RemoteCommand, ours: socket.socket) -> bool:
        """Pump from the host to libvirt, until the far end has no more. Returns whether anything came at all."""
        came = False
        while chunk := command.receive():
            if not came:
                came = True
                with self._state:
                    self._replay = None  # the far end works: from here on nothing need be kept
            ours.sendall(chunk)
        return came

    def _pump_up(self, ours: socket.socket) -> None:
        """Pump from libvirt to the host."""
        with contextlib.suppress(OSError):
            while chunk := ours.recv(_CHUNK):
                with self._state:
                    command = self._command
                    if self._replay is not None:
                        self._replay += chunk
                assert command is not None
                try:
                    command.send(chunk)
                except ConnectionError:
                    with self._state:
                        # The helper is missing: the chunk goes to its replacement with the rest of the replay.
                        if self._replay is None and command is self._command:
                            break
        self.cut()

    def _fall_back(self) -> RemoteCommand:
        """Switch to the host program's own pump, for a host without virt-ssh-helper; libvirt does not notice."""
        command = self._connection.run(bootstrap.PUMP, stage=STAGE, timeout_s=self._timeout_s)
        deadline = Deadline(self._timeout_s)
        command.send(bootstrap.package(far=self._connection.is_far), deadline)
        with self._state:
            command.send(bytes(self._replay or b""), deadline)
            self._replay = None
            self._command = command
        return command


def _peer(one: socket.socket) -> int:
    """The pid of the process that connected, from the kernel; 0 if it is not visible in our pid namespace."""
    pid: int = _UCRED.unpack(one.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _UCRED.size))[0]
    return pid


def _shut(one: socket.socket) -> None:
    with contextlib.suppress(OSError):
        one.shutdown(socket.SHUT_RDWR)
