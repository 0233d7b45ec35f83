"""What to read of a host's libvirt."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection

    from vgpumgr.names import VmUuid


@dataclass(frozen=True, slots=True, kw_only=True)
class DomainQuery:
    """What to read of libvirt. `only`: the domains whose documents are read; None: all.

    `saved`: whether to read every domain's managed-save image and snapshots, too.
    """

    only: Collection[VmUuid] | None = None
    domains: bool = True
    saved: bool = False


DOMAINS = DomainQuery()
DOMAINS_AND_SAVED = DomainQuery(saved=True)
