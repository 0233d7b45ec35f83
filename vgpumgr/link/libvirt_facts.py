"""What the host program read of libvirt → values of core, or the error that says why it could not."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from vgpumgr.core.model.domain_dumps import DomainDump, LibvirtDump, SavedDump
from vgpumgr.errors import HostDeadline, HypervisorError, Unreachable
from vgpumgr.link import refusals
from vgpumgr.link.libvirt_refusals import BUSY, STAGE, START, hint_of
from vgpumgr.names import VmName, VmUuid

if TYPE_CHECKING:
    from collections.abc import Collection

    from vgpumgr.errors import HostError
    from vgpumgr.host import protocol
    from vgpumgr.names import HostName

_MISSING = "is libvirt installed there? apt-get install libvirt-daemon-system, or dnf install libvirt-daemon-kvm"


@dataclass(frozen=True, slots=True, kw_only=True)
class DomainQuery:
    """What to read of libvirt. `only`: of which domains the documents are read; None: of all. `saved`: see LibvirtDump."""

    only: Collection[VmUuid] | None = None
    domains: bool = True
    saved: bool = False


NO_DOMAINS = DomainQuery(domains=False)  # libvirt's version alone
DOMAINS = DomainQuery()
DOMAINS_AND_SAVED = DomainQuery(saved=True)


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
    message, code = refusals.clean(failure["message"]), failure["code"]
    match failure["kind"]:
        case "missing":
            return Unreachable(host, STAGE, f"no libvirt library: {message}", hint=_MISSING)
        case "closed":
            return Unreachable(host, STAGE, f"libvirt does not answer: {message}", hint=hint_of(code, message) or START)
        case "silent":
            return HostDeadline(host, STAGE, f"read the domains: {message}", hint=BUSY)
        case "refused":
            return HypervisorError(host, f"read the domains: {message}", code=code, hint=hint_of(code, message))
