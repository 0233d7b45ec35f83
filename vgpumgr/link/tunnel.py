"""libvirt's own protocol over our SSH connection: a unix socket here, `virt-ssh-helper` there, bytes between.

libvirt's client cannot be interrupted and knows no deadline. Because the socket is ours, it can be: `cut` shuts it down
in both directions and every blocked libvirt call raises at once. A close alone would not do that: libvirt would hang for
ever. So every end of the pump is a shutdown, and one more stands ready for an interpreter that exits without closing.

The socket's path exists only until libvirt has connected to it: nothing is left in /tmp, not even by SIGKILL later.
"""

from __future__ import annotations

import atexit
import contextlib
import shutil
import socket
import tempfile
import threading
from pathlib import Path
from typing import TYPE_CHECKING

from vgpumgr.errors import HostError
from vgpumgr.link import bootstrap
from vgpumgr.link.deadlines import Deadline

if TYPE_CHECKING:
    from vgpumgr.link.ssh import RemoteCommand, SshConnection

HELPER = "virt-ssh-helper qemu:///system"
_NOT_FOUND = 127
_PATH_LIMIT = 100  # sun_path has 108 bytes
_CHUNK = 65536
STAGE = "libvirt"


class _Open:
    """What has to go when the interpreter exits without closing it.

    Daemon threads stop where they are then, and libvirt's last words would wait for the pump. weakref.finalize would do, but
    for its registry, which a thread that ends at that very moment changes while it is walked through (Python 3.11).
    """

    def __init__(self) -> None:
        self._all: set[SocketFolder | Tunnel] = set()
        self._turn = threading.Lock()
        atexit.register(self._remove_all)

    def add(self, one: SocketFolder | Tunnel) -> None:
        with self._turn:
            self._all.add(one)

    def discard(self, one: SocketFolder | Tunnel) -> bool:
        """Whether it was there: then it is the caller's to end."""
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


class SocketFolder:
    """A 0700 directory for one socket, whose path leaves room for the socket's name.

    Whoever opens and closes the link makes and removes it. The tunnel's thread must not: on a busy machine it may come to
    make it when the program is already ending, and it would stay.
    """

    def __init__(self) -> None:
        self.path = Path(tempfile.mkdtemp(prefix="vgpumgr-"))
        if len(str(self.path)) > _PATH_LIMIT:
            self.path.rmdir()
            self.path = Path(tempfile.mkdtemp(prefix="vgpumgr-", dir="/tmp"))
        _open_now.add(self)

    def remove(self) -> None:
        """It and what is in it; again does nothing."""
        if _open_now.discard(self):
            shutil.rmtree(self.path, ignore_errors=True)


class Tunnel:
    """One libvirt connection's way to the host. `path` is where libvirt's client is to connect, once."""

    def __init__(self, connection: SshConnection, folder: SocketFolder, *, timeout_s: float) -> None:
        self._connection = connection
        self._timeout_s = timeout_s
        self._said = ""
        self._ended = threading.Event()
        self._state = threading.Lock()
        self._command: RemoteCommand | None = None
        self._replay: bytearray | None = bytearray()  # what libvirt sent while the far end may still be changed
        self._folder = folder
        self.path = str(folder.path / "s")
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            self._listener.bind(self.path)
            self._listener.listen(1)
        except BaseException:
            self._listener.close()
            folder.remove()
            raise
        self._sockets = [self._listener]
        _open_now.add(self)
        threading.Thread(target=self._serve, name="vgpumgr-tunnel", daemon=True).start()

    @property
    def ended(self) -> bool:
        """Whether no byte goes through any more."""
        return self._ended.is_set()

    def why(self) -> str:
        """What the far end said before it ended, or an empty text."""
        self._ended.wait(1.0)
        return self._said

    def cut(self) -> None:
        """End it now: a libvirt call that waits for bytes raises. May be called from any thread, and again."""
        self._ended.set()
        for one in tuple(self._sockets):
            _shut(one)

    def _serve(self) -> None:
        """From libvirt's connect to the last byte. All that goes wrong here reaches the caller as a closed socket."""
        try:
            command = self._command = self._connection.run(HELPER, stage=STAGE, timeout_s=self._timeout_s)
            ours = self._accept()
            up = threading.Thread(target=self._pump_up, args=(ours,), name="vgpumgr-tunnel-up", daemon=True)
            up.start()
            if not self._pump_down(command, ours) and command.exit_status(1.0) == _NOT_FOUND:
                self._pump_down(self._fall_back(), ours)
        except HostError as error:
            self._said = error.message.removeprefix(f"{error.host}: ")
        except OSError as error:
            self._said = self._said or str(error)
        finally:
            last = self._command
            if last is not None:
                self._said = last.stderr() or self._said
            self.cut()
            self.remove()

    def remove(self) -> None:
        """Give the sockets back, and their folder; again does nothing."""
        if _open_now.discard(self):
            for one in tuple(self._sockets):
                _shut(one)
                one.close()
            self._folder.remove()

    def _accept(self) -> socket.socket:
        self._listener.settimeout(self._timeout_s)
        try:
            ours, _ = self._listener.accept()
        finally:
            self._folder.remove()
        with self._state:
            self._sockets.append(ours)
        if self._ended.is_set():
            raise ConnectionError("the tunnel was closed")
        return ours

    def _pump_down(self, command: RemoteCommand, ours: socket.socket) -> bool:
        """From the host to libvirt, until the far end has no more. Whether anything came at all."""
        came = False
        while chunk := command.receive():
            if not came:
                came = True
                with self._state:
                    self._replay = None  # it lives: from here on nothing need be kept
            ours.sendall(chunk)
        return came

    def _pump_up(self, ours: socket.socket) -> None:
        """From libvirt to the host."""
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
                        # The helper is missing: the chunk goes to its stand-in with the rest of the replay.
                        if self._replay is None and command is self._command:
                            break
        self.cut()

    def _fall_back(self) -> RemoteCommand:
        """The host program's own pump, for a host without virt-ssh-helper; libvirt does not notice."""
        command = self._connection.run(bootstrap.PUMP, stage=STAGE, timeout_s=self._timeout_s)
        deadline = Deadline(self._timeout_s)
        command.send(bootstrap.package(), deadline)
        with self._state:
            command.send(bytes(self._replay or b""), deadline)
            self._replay = None
            self._command = command
        return command


def _shut(one: socket.socket) -> None:
    with contextlib.suppress(OSError):
        one.shutdown(socket.SHUT_RDWR)
