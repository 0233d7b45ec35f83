"""The stage of each host of this process, for a person who watches: those of errors.Unreachable, then the requests.

One thing at a time is done with a host. A host that is closed has none. Each stage is a line of the log (`-v`).
"""

from __future__ import annotations

import logging

logger = logging.getLogger(__name__)

_NOW: dict[str, str] = {}
_STEP = "execute"  # whoever sends one says which
_DOES = {
    "config": "reading ssh_config",
    "dns": "looking up its name",
    "tcp": "connecting",
    "banner": "connected; waiting for sshd",
    "kex": "exchanging keys",
    "auth": "logging in",
    "program": "logged in; sending the host program",
    "lock": "taking the lock, reading facts",
    "observe": "reading facts",
    "libvirt": "asking libvirt",
    "sample": "reading usage",
    "unlock": "reading what has changed, releasing the lock",
}


def enter(host: str, stage: str) -> None:
    """The host is waited for at that stage from now on."""
    _NOW[host] = stage
    if stage != _STEP:
        logger.info("%s", _DOES.get(stage, stage), extra={"host": host})


def leave(host: str) -> None:
    """It is waited for no more."""
    if _NOW.pop(host, None) is not None:
        logger.info("done", extra={"host": host})


def of(host: str) -> str | None:
    """Where it is; None if it is not waited for."""
    return _NOW.get(host)
