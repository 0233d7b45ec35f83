"""The server in this process: a signal ends it, whatever is under way, and nothing of it is left."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import threading
from typing import TYPE_CHECKING, Any

from vgpumgr.web import server

if TYPE_CHECKING:
    from pathlib import Path


def test_a_signal_ends_it_while_an_answer_is_under_way_and_goes_to_nobody_else(tmp_path: Path) -> None:
    inside, others = threading.Event(), list[int]()

    async def never(_scope: Any, _receive: Any, _send: Any) -> None:
        inside.set()
        await asyncio.Event().wait()

    def visit() -> None:
        with socket.socket(socket.AF_UNIX) as client:
            client.connect(str(tmp_path / "s"))
            client.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
            assert inside.wait(60)
            os.kill(os.getpid(), signal.SIGTERM)
            client.recv(1)

    def handler(number: int, _frame: object) -> None:
        others.append(number)

    before = signal.signal(signal.SIGTERM, handler)
    visitor = threading.Thread(target=visit, daemon=True)
    try:
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(str(tmp_path / "s"))
            listener.listen()
            visitor.start()
            server.serve(listener, never)
        assert signal.getsignal(signal.SIGTERM) is handler
    finally:
        signal.signal(signal.SIGTERM, before)
    visitor.join(60)
    assert others == []
