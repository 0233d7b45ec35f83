"""A way to a host's sshd that breaks after so many pieces of the conversation."""

from __future__ import annotations

import contextlib
import selectors
import socket
import struct
import threading
from typing import TYPE_CHECKING

from vgpumgr.lab import fleet
from vgpumgr.lab.machine.sshd import ADDRESS

if TYPE_CHECKING:
    from pathlib import Path
    from typing import Self

    from tests.lab_fixtures import Lab

CLOSE, RESET, FREEZE = "close", "reset", "freeze"
_PIECE = 16384
_NO_LINGER = struct.pack("ii", 1, 0)


class Proxy:
    """Listens on loopback for one connection. After `cut_after` pieces, both directions counted, it closes (FIN), resets
    (RST) or freezes: then both ends stay open and nothing goes through until `close`.
    """

    def __init__(self, port: int, *, cut_after: int | None = None, how: str = CLOSE) -> None:
        self.pieces = 0
        self.cut = threading.Event()
        self._target = port
        self._cut_after = cut_after
        self._how = how
        self._sockets: list[socket.socket] = []
        self._listener = socket.create_server((ADDRESS, 0))
        self.port: int = self._listener.getsockname()[1]
        self._wake, self._woken = socket.socketpair()
        self._thread = threading.Thread(target=self._serve, name="proxy")
        self._thread.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End what still stands, both ways at once."""
        self._woken.close()
        self._thread.join(10)
        assert not self._thread.is_alive()
        for one in (*self._sockets, self._wake, self._listener):
            one.close()

    def _serve(self) -> None:
        with selectors.DefaultSelector() as selector:
            selector.register(self._wake, selectors.EVENT_READ)
            selector.register(self._listener, selectors.EVENT_READ)
            if self._wake in {key.fileobj for key, _ in selector.select()}:
                return
            ours, _ = self._listener.accept()
            theirs = socket.create_connection((ADDRESS, self._target))
            self._sockets += [ours, theirs]
            selector.unregister(self._listener)
            for one in self._sockets:
                one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                selector.register(one, selectors.EVENT_READ)
            with contextlib.suppress(OSError):
                self._forward(selector, {ours: theirs, theirs: ours})

    def _forward(self, selector: selectors.BaseSelector, other: dict[socket.socket, socket.socket]) -> None:
        while True:
            for key, _ in selector.select():
                if key.fileobj is self._wake:
                    return
                assert isinstance(key.fileobj, socket.socket)
                if self.pieces == self._cut_after:
                    self._break()
                    if self._how == FREEZE:
                        self._wake.recv(1)
                    return
                piece = key.fileobj.recv(_PIECE)
                if not piece:
                    self._end()
                    return
                other[key.fileobj].sendall(piece)
                self.pieces += 1

    def _break(self) -> None:
        self.cut.set()
        if self._how == RESET:
            for one in self._sockets:
                one.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _NO_LINGER)
                one.close()
        elif self._how == CLOSE:
            self._end()

    def _end(self) -> None:
        for one in self._sockets:
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)


def inventory_through(lab: Lab, host: str, proxy: Proxy, folder: Path) -> dict[str, str]:
    """The environment of a controller that reaches this host by the proxy: an inventory and known_hosts for its port."""
    port = fleet.read(lab.layout).host(host).port
    (folder / "inventory").mkdir(parents=True)
    known = lab.layout.known_hosts.read_text(encoding="utf-8")
    (folder / "known_hosts").write_text(known.replace(f"]:{port} ", f"]:{proxy.port} "), encoding="utf-8")
    for file in lab.layout.inventory.glob("*.yml"):
        text = file.read_text(encoding="utf-8").replace(f"ansible_port: {port}\n", f"ansible_port: {proxy.port}\n")
        text = text.replace(str(lab.layout.known_hosts), str(folder / "known_hosts"))
        (folder / "inventory" / file.name).write_text(text, encoding="utf-8")
    return {"VGPUMGR_INVENTORY": str(folder / "inventory")}
