"""Who asks, and what that person may do."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, cast

if TYPE_CHECKING:
    from starlette.requests import Request

_SCOPE: Final = "vgpumgr.viewer"  # the key of ASGI's scope


@dataclass(frozen=True, slots=True, kw_only=True)
class Viewer:
    """`name`: as a login in front of this server, or a token, says it; None: nobody says it.

    `owner`: whose VMs alone may be seen; None: everybody's. `may_change`: what it asks may change something.
    """

    name: str | None = None
    owner: str | None = None
    may_change: bool = True


LOCAL: Final = Viewer()
"""A person who may connect to the socket may do all that the server does."""


def of(request: Request) -> Viewer:
    """Who sent the request."""
    return cast("Viewer", request.scope.get(_SCOPE, LOCAL))
