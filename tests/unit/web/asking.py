"""A request to an application within the process: ASGI, without a socket."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit

if TYPE_CHECKING:
    from starlette.types import ASGIApp


@dataclass(frozen=True, slots=True, kw_only=True)
class Response:
    """`headers` by their names in small letters."""

    status: int
    headers: dict[str, str]
    text: str


def ask(application: ASGIApp, target: str, method: str = "GET", *, host: str = "localhost") -> Response:
    """Send one request, and return what a client would see. `host`: what it calls the server."""
    return asyncio.run(_ask(application, target, method, host))


async def asked(application: ASGIApp, targets: list[str]) -> list[Response]:
    """Send requests at once."""
    return await asyncio.gather(*(_ask(application, target, "GET") for target in targets))


async def _ask(application: ASGIApp, target: str, method: str, host: str = "localhost") -> Response:
    url, sent = urlsplit(target), list[dict[str, Any]]()

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: Any) -> None:
        sent.append(message)

    scope = {
        "type": "http",
        "http_version": "1.1",
        "method": method,
        "scheme": "http",
        "path": unquote(url.path),
        "raw_path": url.path.encode(),
        "query_string": url.query.encode(),
        "root_path": "",
        "headers": [(b"host", host.encode())],
        "server": ("localhost", 80),
    }
    try:
        await application(scope, receive, send)
    except RuntimeError:  # a bug is raised once more, for the server's log, when the client has had its answer
        assert sent
    start, *parts = sent
    return Response(
        status=start["status"],
        headers={name.decode(): value.decode() for name, value in start["headers"]},
        text=b"".join(part.get("body", b"") for part in parts).decode(),
    )
