"""What the host program read of libvirt → values of core, or the error that says why it could not."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vgpumgr.core.model.domain_dumps import DomainDump, LibvirtDump, SavedDump
from vgpumgr.host.protocol.libvirt import DomainFact, LibvirtFact, LibvirtQuery, SavedFact
from vgpumgr.link.host_text import clean
from vgpumgr.link.program import libvirt_refusals
from vgpumgr.link.values.by_name import declare, render

if TYPE_CHECKING:
    from vgpumgr.errors import HostError
    from vgpumgr.link.domain_query import DomainQuery
    from vgpumgr.names import HostName

declare(DomainFact, DomainDump)
declare(SavedFact, SavedDump, snapshots=lambda row: tuple((one["name"], one["xml"]) for one in row["snapshots"]))
_parse_read = declare(
    LibvirtFact,
    LibvirtDump,
    version=lambda row: row["version"] or 0,
    names=lambda row: tuple((one["name"], one["uuid"]) for one in row["names"] or ()),
)


def render_query(query: DomainQuery, *, wait_s: float) -> LibvirtQuery:
    only = None if query.only is None else sorted(query.only)
    return render(LibvirtQuery, query, names=False, only=only, wait_s=wait_s)


def render_names_query(*, wait_s: float) -> LibvirtQuery:
    return {"names": True, "domains": False, "only": None, "saved": False, "wait_s": wait_s}


def parse(host: HostName, fact: LibvirtFact) -> LibvirtDump | HostError:
    """What was read, or the error if nothing could be read. A part that was not requested is empty, `saved` None."""
    failure = fact["failure"]
    if failure is not None:
        text = clean(failure["message"])
        return libvirt_refusals.translate(host, failure["kind"], text, code=failure["code"], what="read the domains")
    return _parse_read({**fact, "domains": fact["domains"] or []})
