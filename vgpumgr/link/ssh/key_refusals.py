"""What every refusal of a host's key or certificate has."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from vgpumgr.errors import HostKeyRefused
from vgpumgr.wording import say

if TYPE_CHECKING:
    from vgpumgr.core.model.endpoint import Endpoint
    from vgpumgr.link.ssh.known_hosts import KnownKey


def refused(endpoint: Endpoint, message: str, *, hint: str, details: tuple[str, ...] = ()) -> HostKeyRefused:
    """Every refusal of a host's key or certificate."""
    return HostKeyRefused(endpoint.host, "kex", message, hint=hint, details=details)


def known_lines(keys: tuple[KnownKey, ...]) -> tuple[str, ...]:
    """Where these keys stand."""
    return tuple(say("{} has {} {}", one.where, one.type, one.fingerprint) for one in keys)


def nor(endpoint: Endpoint, verb: str) -> str:
    """What is not so of the user's file is not so of the site's either, if there is one."""
    return f", nor {verb} {endpoint.site_known_hosts}" if Path(endpoint.site_known_hosts).is_file() else ""
