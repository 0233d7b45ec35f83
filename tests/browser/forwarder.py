"""A port on loopback that leads to a unix socket, as the end of an ssh tunnel does: a browser opens no unix sockets."""

from __future__ import annotations

import contextlib
import socket
import threading
from contextlib import contextmanager
from socketserver import BaseRequestHandler, ThreadingTCPServer
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@contextmanager
def forwarding(path: Path) -> Iterator[int]:
    """The port. It ends once its clients and the server have closed what they had open."""

    class Connection(BaseRequestHandler):
        def handle(self) -> None:
            with socket.socket(socket.AF_UNIX) as server:
                server.connect(str(path))
                back = threading.Thread(target=_copy, args=(server, self.request))
                back.start()
                _copy(self.request, server)
                back.join()

    with ThreadingTCPServer(("127.0.0.1", 0), Connection) as forwarder:
        thread = threading.Thread(target=forwarder.serve_forever)
        thread.start()
        yield forwarder.server_address[1]
        forwarder.shutdown()
        thread.join()


def _copy(source: socket.socket, target: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while data := source.recv(65536):
            target.sendall(data)
        target.shutdown(socket.SHUT_WR)
