"""What is read of domains, in as few exchanges with libvirtd as it allows. It runs in the threads of calls, next to libvirt's objects.

A list answers for all domains at once, and the objects in it need no look-up; the documents are read one by one, several
of them side by side.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, TypeVar

from vgpumgr.core.model.domain_dumps import DomainDump, SavedDump
from vgpumgr.link.libvirt_call import together
from vgpumgr.names import VmName, VmUuid

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Sequence

    import libvirt

T = TypeVar("T")
U = TypeVar("U")

# libvirtd serves five calls of a client at once by default, and at the fifth it warns in its log (max_client_requests).
_AT_ONCE = 4


class _Document(NamedTuple):
    """A domain's XML, or why it could not be read; neither if the domain no longer exists."""

    xml: str | None = None
    unreadable: str | None = None

    @property
    def gone(self) -> bool:
        return self.xml is None and self.unreadable is None


def read_domains(connection: libvirt.virConnect, only: Collection[VmUuid] | None = None) -> tuple[DomainDump, ...]:
    """Every domain, or those of them, ordered by name, without those that disappeared while they were read."""
    import libvirt

    everything, transient, kept = _lists(
        connection, 0, libvirt.VIR_CONNECT_LIST_DOMAINS_TRANSIENT, libvirt.VIR_CONNECT_LIST_DOMAINS_MANAGEDSAVE
    )
    domains = {uuid: one for uuid, one in everything.items() if only is None or uuid in only}
    inactive = _documents(connection, domains, domains.keys() - transient.keys(), libvirt.VIR_DOMAIN_XML_INACTIVE)
    # Only now: a VM that was started in the meantime was started from the definition just read.
    (active,) = _lists(connection, libvirt.VIR_CONNECT_LIST_DOMAINS_ACTIVE)
    live = _documents(connection, domains, domains.keys() & active.keys(), 0)
    found = [
        DomainDump(
            name=VmName(domain.name()),
            uuid=uuid,
            active=uuid in live,
            persistent=uuid in inactive,
            managed_save=uuid in kept,
            inactive_xml=inactive.get(uuid, _Document()).xml,
            live_xml=live.get(uuid, _Document()).xml,
            unreadable=inactive.get(uuid, _Document()).unreadable or live.get(uuid, _Document()).unreadable,
        )
        for uuid, domain in domains.items()
        if not any(uuid in read and read[uuid].gone for read in (inactive, live))
    ]
    return tuple(sorted(found, key=lambda one: (one.name, one.uuid)))


def read_saved_states(connection: libvirt.virConnect) -> tuple[SavedDump, ...]:
    """The managed-save image and snapshots of every domain that has any, ordered by UUID."""
    import libvirt

    kept, snapshotted = _lists(
        connection, libvirt.VIR_CONNECT_LIST_DOMAINS_MANAGEDSAVE, libvirt.VIR_CONNECT_LIST_DOMAINS_HAS_SNAPSHOT
    )
    found = _side_by_side(
        sorted((kept | snapshotted).items()),
        lambda item: _read_saved(connection, item[0], item[1], kept=item[0] in kept),
    )
    return tuple(one for one in found if one is not None)


def _lists(connection: libvirt.virConnect, *selections: int) -> list[dict[VmUuid, libvirt.virDomain]]:
    """The domains that each VIR_CONNECT_LIST_DOMAINS_ flag selects; 0 selects all."""

    def listing(flag: int) -> dict[VmUuid, libvirt.virDomain]:
        return {VmUuid(domain.UUIDString()): domain for domain in connection.listAllDomains(flag)}

    return _side_by_side(selections, listing)


def _documents(
    connection: libvirt.virConnect,
    domains: dict[VmUuid, libvirt.virDomain],
    wanted: Iterable[VmUuid],
    flags: int,
) -> dict[VmUuid, _Document]:
    uuids = sorted(wanted)

    def read(uuid: VmUuid) -> _Document:
        import libvirt

        try:
            return _Document(xml=domains[uuid].XMLDesc(flags))
        except libvirt.libvirtError as error:
            if error.get_error_code() == libvirt.VIR_ERR_NO_DOMAIN:
                return _Document()
            return _Document(unreadable=_reason(connection, error))

    return dict(zip(uuids, _side_by_side(uuids, read), strict=True))


def _read_saved(
    connection: libvirt.virConnect, uuid: VmUuid, domain: libvirt.virDomain, *, kept: bool
) -> SavedDump | None:
    import libvirt

    image_xml = image_unreadable = snapshots_unreadable = None
    snapshots: list[tuple[str, str]] = []
    if kept:
        try:
            image_xml = domain.managedSaveGetXMLDesc(0) if domain.hasManagedSaveImage(0) else None
        except libvirt.libvirtError as error:
            if error.get_error_code() == libvirt.VIR_ERR_NO_DOMAIN:
                return None
            image_unreadable = _reason(connection, error)
    try:
        snapshots.extend((one.getName(), one.getXMLDesc(0)) for one in domain.listAllSnapshots(0))
    except libvirt.libvirtError as error:
        if error.get_error_code() == libvirt.VIR_ERR_NO_DOMAIN:
            return None
        snapshots_unreadable = _reason(connection, error)
    return SavedDump(
        uuid=uuid,
        image_xml=image_xml,
        snapshots=tuple(snapshots),
        image_unreadable=image_unreadable,
        snapshots_unreadable=snapshots_unreadable,
    )


def _reason(connection: libvirt.virConnect, error: libvirt.libvirtError) -> str:
    """Why a document could not be read. Raises the error if the connection itself is lost."""
    if not connection.isAlive():
        raise error
    return error.get_error_message() or str(error)


def _side_by_side(items: Sequence[T], read: Callable[[T], U]) -> list[U]:
    """What `read` returns for each, in their order; at most _AT_ONCE of them wait for an answer at a time."""
    parts = [items[position::_AT_ONCE] for position in range(min(_AT_ONCE, len(items)))]

    def reading(part: Sequence[T]) -> Callable[[], list[U]]:
        return lambda: [read(item) for item in part]

    values = together([reading(part) for part in parts])
    return [values[position % _AT_ONCE][position // _AT_ONCE] for position in range(len(items))]
