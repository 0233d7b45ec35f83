"""What all refusals of a host's key or certificate have in common."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from vgpumgr.errors import HostKeyRefused
from vgpumgr.wording import say

if TYPE_CHECKING:
    from vgpumgr.core.model.endpoint import Endpoint
    from vgpumgr.link.ssh.known_hosts import KnownKey


def refused(endpoint: Endpoint, message: str, *, hint: str, details: tuple[str, ...] = ()) -> HostKeyRefused:
    """The error for a refused host key or certificate."""
    return HostKeyRefused(endpoint.host, "kex", message, hint=hint, details=details)


def known_lines(keys: tuple[KnownKey, ...]) -> tuple[str, ...]:
    """A line for each key, with the place where it stands."""
    return tuple(say("{} has {} {}", one.where, one.type, one.fingerprint) for one in keys)


def nor(endpoint: Endpoint, verb: str) -> str:
    """The end of a sentence about the user's known_hosts: `, nor VERB FILE` about the site's; empty without it."""
    return f", nor {verb} {endpoint.site_known_hosts}" if Path(endpoint.site_known_hosts).is_file() else ""
