"""How to reach one host, according to the inventory."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from vgpumgr.names import HostName


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """Everything the link needs. `key_file` None means that no key was named; `known_hosts` is a file's path."""

    host: HostName
    address: str
    port: int
    user: str
    key_file: str | None
    known_hosts: str
