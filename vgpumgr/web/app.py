"""The addresses of `serve` and their headers. Everything is read-only: GET and HEAD."""

from __future__ import annotations

import asyncio
import json
import logging
import math
from concurrent.futures import ThreadPoolExecutor
from http import HTTPStatus
from typing import TYPE_CHECKING, TypeVar

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.responses import Response
from starlette.routing import Route

from vgpumgr import errors, resources
from vgpumgr.documents import error as error_documents
from vgpumgr.web import openapi, viewer
from vgpumgr.web.openapi import API
from vgpumgr.web.told import Told, status_of

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from starlette.requests import Request

    from vgpumgr.web.told import Site

Result = TypeVar("Result")

HOSTS = ("localhost", "127.0.0.1")
"""What a request may call this server, with any port: a tunnel's end, and what leads to the socket by itself."""
STATIC = {"page.css": "text/css", "serve.js": "text/javascript"}
_AT_ONCE = 64  # requests that wait for hosts; more wait for their turn
_HEADERS = {
    "Content-Security-Policy": "default-src 'none'; style-src 'self'; script-src 'self'; img-src data:; "
    "base-uri 'none'; form-action 'self'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}
_HTML = "text/html"
logger = logging.getLogger(__name__)


def application(site: Site) -> Starlette:
    """The application that serves a site."""
    # Not the loop's own executor: the end of the loop would wait for its threads, and so for a host that hangs.
    pool = ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="answer")

    async def away(work: Callable[[], Result]) -> Result:
        return await asyncio.get_running_loop().run_in_executor(pool, work)

    def document(name: str) -> Callable[[Request], Awaitable[Response]]:
        async def answer(request: Request) -> Response:
            query = [*request.path_params.items(), *request.query_params.multi_items()]
            told = await away(lambda: site.document(name, query, viewer.of(request)))
            return _json(told)

        return answer

    def page(name: str) -> Callable[[Request], Awaitable[Response]]:
        async def answer(request: Request) -> Response:
            text, told = await away(lambda: site.page(name, request.query_params.multi_items(), viewer.of(request)))
            return _answer(text, _HTML, _status(told), told.age_s)

        return answer

    async def described(_request: Request) -> Response:
        return _json(Told(document=await away(lambda: openapi.document(site.operations()))))

    async def static(request: Request) -> Response:
        name = request.path_params["name"]
        if name not in STATIC:
            raise HTTPException(404)
        return _answer(resources.template_text(name), STATIC[name])

    async def refused(request: Request, error: Exception) -> Response:
        status = error.status_code if isinstance(error, HTTPException) else 500
        ours = _refusal(request, status, error)
        if request.url.path.startswith(API):
            response = _json(Told(document=None, error=ours), status)
        else:
            response = _answer(site.error_page(ours), _HTML, status)
        if status == HTTPStatus.METHOD_NOT_ALLOWED:
            response.headers["Allow"] = "GET, HEAD"
        return response

    first = next(iter(site.pages))
    return Starlette(
        routes=[
            *(Route(API + one.name + one.in_path(":path"), document(one.name)) for one in site.operations()),
            Route(f"{API}openapi.json", described),
            *(Route("/" if name == first else f"/{name}", page(name)) for name in site.pages),
            Route("/static/{name}", static),
        ],
        exception_handlers={HTTPException: refused, Exception: refused},
        # A page of another site may have its name lead to the local end of somebody's tunnel (DNS rebinding).
        middleware=[Middleware(TrustedHostMiddleware, allowed_hosts=HOSTS, www_redirect=False)],
    )


def _refusal(request: Request, status: int, error: Exception) -> errors.VgpumgrError:
    match status:
        case HTTPStatus.NOT_FOUND:
            return errors.UnknownName(
                f"there is nothing at {request.url.path!r}", hint=f"{API}openapi.json names what is there"
            )
        case HTTPStatus.METHOD_NOT_ALLOWED:
            return errors.UsageError(
                f"{request.method} is not taken: this server only reads", hint="GET and HEAD are answered"
            )
        case _:
            logger.critical("%s: unexpected", request.url.path, exc_info=error)
            return errors.Unexpected.of(error, about=request.url.path)


def _status(told: Told) -> int:
    return 200 if told.error is None else status_of(told.error)


def _json(told: Told, status: int | None = None) -> Response:
    document = told.document if told.error is None else error_documents.document(told.error)
    return _answer(json.dumps(document, indent=1) + "\n", "application/json", status or _status(told), told.age_s)


def _answer(text: str, media: str, status: int = 200, age_s: float | None = None) -> Response:
    age = {} if age_s is None else {"Age": str(math.ceil(age_s))}
    body = text.encode(errors="replace")
    return Response(body, status_code=status, media_type=media, headers={**_HEADERS, **age})
