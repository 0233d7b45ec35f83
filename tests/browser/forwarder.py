"""A port on loopback that leads to a unix socket, as the end of an ssh tunnel does: a browser opens no unix sockets."""

from __future__ import annotations

import contextlib
import socket
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@contextmanager
def forwarding(path: Path) -> Iterator[int]:
    """The port. It is closed, and with it each connection, at the end."""
    open_sockets: list[socket.socket] = []
    threads: list[threading.Thread] = []

    def run(work: object, *arguments: socket.socket) -> None:
        threads.append(threading.Thread(target=work, args=arguments))  # type: ignore[arg-type]
        threads[-1].start()

    def copy(source: socket.socket, target: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(65536):
                target.sendall(data)
        for end in (source, target):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)

    def accept() -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = listener.accept()
                server = socket.socket(socket.AF_UNIX)
                open_sockets.extend((client, server))
                server.connect(str(path))
                run(copy, client, server)
                run(copy, server, client)

    listener = socket.create_server(("127.0.0.1", 0))
    run(accept, *())
    try:
        yield listener.getsockname()[1]
    finally:
        listener.shutdown(socket.SHUT_RDWR)
        threads[0].join()
        for one in open_sockets:
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
        for thread in threads:
            thread.join()
        for one in (listener, *open_sockets):
            one.close()
