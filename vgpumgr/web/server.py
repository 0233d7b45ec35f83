"""Serves an application on a unix socket until a signal ends it."""

from __future__ import annotations

import contextlib
import signal
from typing import TYPE_CHECKING

import uvicorn

if TYPE_CHECKING:
    import socket
    from collections.abc import Iterator

    from starlette.types import ASGIApp

_STOPPING = (signal.SIGINT, signal.SIGTERM)


def serve(listener: socket.socket, application: ASGIApp) -> None:
    """Answer all clients until SIGINT or SIGTERM. What is under way then is dropped: it only reads."""
    config = uvicorn.Config(
        application,
        loop="asyncio",
        http="h11",
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        timeout_graceful_shutdown=0,
    )
    _Server(config).run(sockets=[listener])


class _Server(uvicorn.Server):
    """uvicorn itself would send the signal to its own process once more, for whoever had its handler before."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        before = {number: signal.signal(number, self._stop) for number in _STOPPING}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def _stop(self, _number: int, _frame: object) -> None:
        self.should_exit = True
