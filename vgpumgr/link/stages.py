"""The stage of the work on each host, for a person who watches: those of errors.Unreachable, then the requests.

A host is in one stage at a time; a closed host is in none. Each stage is a line of the log (`-v`).
"""

from __future__ import annotations

import logging

logger = logging.getLogger(__name__)

_NOW: dict[str, str] = {}
_STEP = "execute"  # the sender of a step logs it
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
    """From now on we wait for the host at that stage."""
    _NOW[host] = stage
    if stage != _STEP:
        logger.info("%s", _DOES.get(stage, stage), extra={"host": host})


def leave(host: str) -> None:
    """We no longer wait for the host."""
    if _NOW.pop(host, None) is not None:
        logger.info("done", extra={"host": host})


def of(host: str) -> str | None:
    """The host's stage; None if we do not wait for it."""
    return _NOW.get(host)
