"""A small HTTP server with one page, for Prometheus: on a unix socket or on a given address.

Each client has its own thread. The duration of a connection and the number of clients are limited, so that slow or
numerous clients block nobody. The page is at most a second old; if it cannot be made, the answer is 503.
"""

from __future__ import annotations

import contextlib
import functools
import ipaddress
import logging
import re
import socket
import threading
import time
from contextlib import contextmanager
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from vgpumgr.errors import ExportError, Unexpected, UsageError, VgpumgrError
from vgpumgr.metrics import socket_place
from vgpumgr.wording import Option, say

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    Page = Callable[[str], tuple[bytes, str]]
    """From an Accept header to the body and its Content-Type. Raises VgpumgrError."""

PATH = "/metrics"
_CLIENT_S = 10.0
AT_ONCE = 32  # beyond that, the oldest client is dropped for a new one: a scrape takes milliseconds
_FORMATS = 4  # Accept headers whose pages are kept: Prometheus sends one
_NO_DESCRIPTOR_S = 0.2
_INDEX = f'<!doctype html><title>vgpumgr</title><p>vgpumgr: <a href="{PATH}">metrics</a></p>\n'.encode()
_PLAIN = "text/plain; charset=utf-8"
logger = logging.getLogger(__name__)


def parse_address(text: str) -> tuple[str, int]:
    """Parse `127.0.0.1:9836` or `[::1]:9836`; port 0: any free port.

    Raises UsageError for a port alone: it would be open to everybody by default.
    """
    found = re.fullmatch(r"(?:\[([0-9a-f:.]+)\]|([0-9.]+)):([0-9]{1,5})", text, re.IGNORECASE)
    with contextlib.suppress(ValueError):
        if found is not None and int(found[3]) < 2**16:
            ip = ipaddress.IPv6Address(found[1]) if found[1] else ipaddress.IPv4Address(found[2])
            return str(ip), int(found[3])
    raise UsageError(
        f"not an address to listen on: {text!r}", hint="write ADDRESS:PORT, for example 127.0.0.1:9836 or [::1]:9836"
    )


@contextmanager
def on_address(address: tuple[str, int]) -> Iterator[tuple[socket.socket, str]]:
    """A socket that listens at the address, and the page's URL. Raises ExportError."""
    ip, port = address
    is_v6 = ":" in ip
    try:
        listener = socket.create_server(address, family=socket.AF_INET6 if is_v6 else socket.AF_INET)
    except OSError as error:
        raise ExportError(
            f"cannot listen on {ip} port {port}: {error.strerror}",
            hint=say(
                "`ss -ltnp 'sport = :{}'` names who does; use {} with another address or port", port, Option("--listen")
            ),
        ) from error
    with listener:
        yield listener, f"http://{f'[{ip}]' if is_v6 else ip}:{listener.getsockname()[1]}{PATH}"


@contextmanager
def on_socket(path: Path) -> Iterator[tuple[socket.socket, str]]:
    """A unix socket that listens at `path`, and the page's place in words. Raises ExportError."""
    with socket_place.listening(path) as listener:
        yield listener, f"{PATH} on the unix socket {path}"


def serve(listener: socket.socket, page: Page, *, failed: Callable[[VgpumgrError], None]) -> None:
    """Answer all clients until an exception (a signal's) ends it. `failed` is called if the page cannot be made."""
    with _Server(listener, page, failed) as server:
        server.serve_forever(poll_interval=0.2)


def fresh(page: Page, *, clock: Callable[[], float] = time.monotonic) -> Page:
    """The page, made at most once in a second; requests that come meanwhile wait for it. A failure is not cached."""
    turn = threading.Lock()
    made = functools.lru_cache(_FORMATS)(lambda accept, _second: page(accept))

    def current(accept: str) -> tuple[bytes, str]:
        with turn:
            return made(accept, int(clock()))

    return current


class _Server(ThreadingHTTPServer):
    """Listens on the given socket, which the caller still owns."""

    def __init__(self, listener: socket.socket, page: Page, failed: Callable[[VgpumgrError], None]) -> None:
        super().__init__(("", 0), _Handler, bind_and_activate=False)
        self.socket.close()
        self.socket = listener
        self.page = fresh(page)
        self.failed = failed
        self._since: dict[socket.socket, float] = {}  # the oldest first
        self._turn = threading.Lock()

    def get_request(self) -> tuple[socket.socket, Any]:
        """The next client. If no descriptor is left, the oldest client is dropped and the loop pauses briefly."""
        try:
            found: tuple[socket.socket, Any] = super().get_request()
        except OSError:
            self._cut(1)
            time.sleep(_NO_DESCRIPTOR_S)
            raise
        with self._turn:
            self._since[found[0]] = time.monotonic()
            over = len(self._since) - AT_ONCE
        self._cut(over)
        return found

    def service_actions(self) -> None:
        """Called by the loop several times a second: drops clients whose time is over, even if they still send data."""
        late = time.monotonic() - _CLIENT_S
        with self._turn:
            over = sum(since < late for since in self._since.values())
        self._cut(over)

    def _cut(self, number: int) -> None:
        """End the oldest connections; each one's thread notices and closes it."""
        with self._turn:
            for client in list(self._since)[: max(0, number)]:
                del self._since[client]
                with contextlib.suppress(OSError):
                    client.shutdown(socket.SHUT_RDWR)

    def shutdown_request(self, request: Any) -> None:
        with self._turn:
            self._since.pop(request, None)
        super().shutdown_request(request)

    def handle_error(self, request: Any, client_address: Any) -> None:  # noqa: ARG002 -- socketserver's signature
        """A client that went away or was too slow is not our problem."""
        logger.debug("a client was dropped")


def _path(target: str) -> str | None:
    """The path of a request's target; None if the target is no URL, such as a bracket that is never closed."""
    try:
        return urlsplit(target).path
    except ValueError:
        return None


class _Handler(BaseHTTPRequestHandler):
    server: _Server
    server_version = "vgpumgr"
    sys_version = ""
    timeout = _CLIENT_S

    def do_GET(self) -> None:
        match _path(self.path):
            case None:
                self._answer(HTTPStatus.BAD_REQUEST, b"the request names no URL\n", _PLAIN)
            case "/":
                self._answer(HTTPStatus.OK, _INDEX, "text/html; charset=utf-8")
            case "/metrics":
                self._answer(*self._page())
            case _:
                self._answer(HTTPStatus.NOT_FOUND, f"not found: try {PATH}\n".encode(), _PLAIN)

    do_HEAD = do_GET  # noqa: N815 -- http.server finds it by this name

    def _page(self) -> tuple[HTTPStatus, bytes, str]:
        try:
            body, content_type = self.server.page(self.headers.get("Accept", ""))
        except VgpumgrError as error:
            self.server.failed(error)
            return HTTPStatus.SERVICE_UNAVAILABLE, f"{error.message}\n".encode(errors="replace"), _PLAIN
        except Exception as error:
            logger.exception("unexpected")
            self.server.failed(Unexpected.of(error, about=PATH))
            return HTTPStatus.INTERNAL_SERVER_ERROR, b"failed; see the server's own output\n", _PLAIN
        return HTTPStatus.OK, body, content_type

    def _answer(self, status: HTTPStatus, body: bytes, content_type: str) -> None:
        self.send_response(status)
        self.send_header("Content-Type", content_type)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Cache-Control", "no-store")
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def log_message(self, format: str, *values: Any) -> None:  # noqa: A002 -- http.server's signature
        logger.debug(format, *values)
