"""Opening a host: which failures are tried once more, and which never."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from vgpumgr import errors
from vgpumgr.controller.hosts import session

DROPPED = errors.Unreachable("kvm01", "banner", "Exceeded MaxStartups")
REFUSED = errors.Unreachable("kvm01", "tcp", "connection refused")
CUT = errors.Unreachable("kvm01", "auth", "the connection was closed")
NO_KEY = errors.AuthenticationFailed("kvm01", "auth", "the host does not take the key")
SILENT = errors.HostDeadline("kvm01", "banner", "no banner within 10 s")


def result(opening: Any, *failures: errors.HostError) -> object:
    """What it comes to where these are the failures of its first tries."""
    left = list(failures)

    def connect(_endpoint: object) -> str:
        if left:
            raise left.pop(0)
        return "link"

    context: Any = SimpleNamespace(connect=connect)
    declaration: Any = SimpleNamespace(endpoint=None)
    try:
        found: object = opening(context, declaration).link
    except errors.HostError as error:
        return error
    return found


@pytest.mark.parametrize(
    ("failures", "once", "patiently"),
    [
        ((), "link", "link"),
        ((DROPPED,), "link", "link"),
        ((DROPPED, DROPPED), DROPPED, DROPPED),
        ((REFUSED,), REFUSED, "link"),
        ((CUT,), CUT, CUT),
        ((NO_KEY,), NO_KEY, NO_KEY),
        ((SILENT,), SILENT, SILENT),
    ],
)
def test_a_dropped_connection_is_made_once_more_and_a_login_never(
    monkeypatch: pytest.MonkeyPatch, failures: tuple[errors.HostError, ...], once: object, patiently: object
) -> None:
    monkeypatch.setattr(session, "_JITTER_S", (0, 0))
    assert result(session.open_session, *failures) == once
    assert result(session.open_session_patiently, *failures) == patiently
