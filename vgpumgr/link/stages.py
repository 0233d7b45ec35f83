"""At which stage each host of this process is now, for a person who watches: the stages of errors.Unreachable, then the requests.

One thing at a time is done with a host. A host that is closed has none.
"""

from __future__ import annotations

_NOW: dict[str, str] = {}


def enter(host: str, stage: str) -> None:
    """The host is waited for at that stage from now on."""
    _NOW[host] = stage


def leave(host: str) -> None:
    """It is waited for no more."""
    _NOW.pop(host, None)


def of(host: str) -> str | None:
    """Where it is; None if it is not waited for."""
    return _NOW.get(host)
