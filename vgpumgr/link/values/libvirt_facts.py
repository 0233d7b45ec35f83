"""What the host program read of libvirt → values of core, or the error that says why it could not."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vgpumgr.core.model.domain_dumps import DomainDump, LibvirtDump, SavedDump
from vgpumgr.link.host_text import clean
from vgpumgr.link.program import libvirt_refusals
from vgpumgr.names import VmName, VmUuid

if TYPE_CHECKING:
    from vgpumgr.errors import HostError
    from vgpumgr.host import protocol
    from vgpumgr.link.domain_query import DomainQuery
    from vgpumgr.names import HostName


def render_query(query: DomainQuery, *, wait_s: float) -> protocol.LibvirtQuery:
    only: list[str] | None = None if query.only is None else sorted(query.only)
    return {"names": False, "domains": query.domains, "only": only, "saved": query.saved, "wait_s": wait_s}


def render_names_query(*, wait_s: float) -> protocol.LibvirtQuery:
    return {"names": True, "domains": False, "only": None, "saved": False, "wait_s": wait_s}


def parse(host: HostName, fact: protocol.LibvirtFact) -> LibvirtDump | HostError:
    """What was read; a part that was not asked for is empty, and None for `saved`."""
    failure = fact["failure"]
    if failure is not None:
        return _error(host, failure)
    return LibvirtDump(
        version=fact["version"] or 0,
        names=tuple((VmName(row["name"]), VmUuid(row["uuid"])) for row in fact["names"] or ()),
        domains=tuple(map(_domain, fact["domains"] or ())),
        saved=None if fact["saved"] is None else tuple(map(_saved, fact["saved"])),
    )


def _domain(row: protocol.DomainFact) -> DomainDump:
    return DomainDump(
        name=VmName(row["name"]),
        uuid=VmUuid(row["uuid"]),
        active=row["active"],
        persistent=row["persistent"],
        managed_save=row["managed_save"],
        inactive_xml=row["inactive_xml"],
        live_xml=row["live_xml"],
        unreadable=row["unreadable"],
    )


def _saved(row: protocol.SavedFact) -> SavedDump:
    return SavedDump(
        uuid=VmUuid(row["uuid"]),
        image_xml=row["image_xml"],
        snapshots=tuple((one["name"], one["xml"]) for one in row["snapshots"]),
        image_unreadable=row["image_unreadable"],
        snapshots_unreadable=row["snapshots_unreadable"],
    )


def _error(host: HostName, failure: protocol.LibvirtFailure) -> HostError:
    said = clean(failure["message"])
    return libvirt_refusals.translate(host, failure["kind"], said, code=failure["code"], what="read the domains")
