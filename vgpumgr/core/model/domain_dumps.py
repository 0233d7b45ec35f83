"""OBSERVED, from libvirt: one domain's documents as they were read. domain_xml interprets them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from vgpumgr.names import VmName, VmUuid


@dataclass(frozen=True, slots=True, kw_only=True)
class DomainDump:
    """A domain's XML, dumped without VIR_DOMAIN_XML_SECURE.

    `inactive_xml` is None for a transient domain, `live_xml` for one that is shut off. `unreadable` says why one of the
    documents could not be read; such a domain may hold any device. `start_failed`: it is to start with the host, but
    its last start failed.
    """

    name: VmName
    uuid: VmUuid
    active: bool
    persistent: bool
    managed_save: bool
    inactive_xml: str | None
    live_xml: str | None
    unreadable: str | None = None
    start_failed: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class SavedDump:
    """What could come back for one domain: the XML of its managed-save image, and (name, XML) of each snapshot.

    `image_xml` is None without an image. `image_unreadable` and `snapshots_unreadable` say why they could not be read.
    """

    uuid: VmUuid
    image_xml: str | None = None
    snapshots: tuple[tuple[str, str], ...] = ()
    image_unreadable: str | None = None
    snapshots_unreadable: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LibvirtDump:
    """What was read from a host's libvirt, ordered by name. `version` is encoded as libvirt does it: 9000000 is 9.0.0.

    `names`: the name and UUID of every domain, if requested. `saved`: every domain with a managed-save image or
    snapshots; None if not requested.
    """

    version: int
    names: tuple[tuple[VmName, VmUuid], ...] = ()
    domains: tuple[DomainDump, ...] = ()
    saved: tuple[SavedDump, ...] | None = None
