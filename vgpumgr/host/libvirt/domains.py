"""What libvirt knows about the host's domains: names, documents, saved states. It interprets no document."""

from typing import Callable, Dict, Iterable, List, NamedTuple, Optional

from ..protocol.libvirt import (
    DomainFact,
    LibvirtFact,
    LibvirtFailure,
    LibvirtQuery,
    LibvirtRefusal,
    NameFact,
    SavedFact,
)
from .binding import (
    LIST_ACTIVE,
    LIST_AUTOSTART,
    LIST_HAS_SNAPSHOT,
    LIST_INACTIVE,
    LIST_MANAGED_SAVE,
    LIST_TRANSIENT,
    NO_DOMAIN,
    START_FAILED,
    XML_INACTIVE,
    Connection,
    Domain,
    LibvirtError,
)
from .client import Client, Unavailable


def failed(kind: LibvirtRefusal, message: str, code: int = 0) -> LibvirtFact:
    """The fact that nothing could be read, and why."""
    failure: LibvirtFailure = {"kind": kind, "message": message, "code": code}
    return {"version": None, "names": None, "domains": None, "saved": None, "failure": failure}


def begin_reading(client: Client, query: LibvirtQuery) -> Callable[[], LibvirtFact]:
    """Start to read what the query requests. The returned function waits for the answer, at most the query's time."""
    finish = client.begin(lambda connection, _turn: _answer(connection, query), query["wait_s"])

    def wait() -> LibvirtFact:
        try:
            return finish()
        except Unavailable as error:
            return failed(error.kind, error.message, error.code)

    return wait


def _answer(connection: Connection, query: LibvirtQuery) -> LibvirtFact:
    everything = _listed(connection, 0)
    try:
        return {
            "version": connection.version(),
            "names": [_name(domain) for domain in everything.values()] if query["names"] else None,
            "domains": _domains(connection, everything, query["only"]) if query["domains"] else None,
            "saved": _saved_states(connection, everything) if query["saved"] else None,
            "failure": None,
        }
    finally:
        for domain in everything.values():
            domain.free()


def _name(domain: Domain) -> NameFact:
    return {"name": domain.name, "uuid": domain.uuid}


class _Document(NamedTuple):
    """A domain's XML, or why it could not be read; neither if the domain no longer exists."""

    xml: Optional[str] = None
    unreadable: Optional[str] = None

    @property
    def gone(self) -> bool:
        return self.xml is None and self.unreadable is None


_NOT_READ = _Document()


def _domains(connection: Connection, everything: Dict[str, Domain], only: Optional[List[str]]) -> List[DomainFact]:
    """Every domain, or those of `only`, without those that disappeared while they were read."""
    domains = {uuid: domain for uuid, domain in everything.items() if only is None or uuid in only}
    if not domains:
        return []
    transient, saves = _uuids(connection, LIST_TRANSIENT), _uuids(connection, LIST_MANAGED_SAVE)
    inactive = _documents(connection, (one for one in domains.values() if one.uuid not in transient), XML_INACTIVE)
    # Only now: a VM that was started in the meantime was started from the definition just read.
    active = _uuids(connection, LIST_ACTIVE)
    live = _documents(connection, (one for one in domains.values() if one.uuid in active), 0)
    failed_ones = _failed_to_start(connection)
    return [
        {
            "name": domain.name,
            "uuid": uuid,
            "active": uuid in live,
            "start_failed": uuid in failed_ones and uuid not in live,
            "persistent": uuid in inactive,
            "managed_save": uuid in saves,
            "inactive_xml": inactive.get(uuid, _NOT_READ).xml,
            "live_xml": live.get(uuid, _NOT_READ).xml,
            "unreadable": inactive.get(uuid, _NOT_READ).unreadable or live.get(uuid, _NOT_READ).unreadable,
        }
        for uuid, domain in domains.items()
        if not any(uuid in documents and documents[uuid].gone for documents in (inactive, live))
    ]


def _failed_to_start(connection: Connection) -> "frozenset[str]":
    """The domains that are to start with the host, and whose last start failed.

    After a failed start libvirt has the reason FAILED for "shut off" (qemuProcessStart, qemu_process.c), until the next
    start or its own restart. A VM that a person shut down has another reason.
    """
    uuids = set()
    for domain in connection.domains(LIST_AUTOSTART | LIST_INACTIVE):
        try:
            if domain.state() == START_FAILED:
                uuids.add(domain.uuid)
        except LibvirtError as error:
            if error.code != NO_DOMAIN:
                raise
        finally:
            domain.free()
    return frozenset(uuids)


def _saved_states(connection: Connection, everything: Dict[str, Domain]) -> List[SavedFact]:
    """The managed-save image and snapshots of every domain that has any."""
    saves, snapshotted = _uuids(connection, LIST_MANAGED_SAVE), _uuids(connection, LIST_HAS_SNAPSHOT)
    states = (
        _saved(connection, domain, kept=uuid in saves)
        for uuid, domain in everything.items()
        if uuid in saves or uuid in snapshotted
    )
    return [one for one in states if one is not None]


def _saved(connection: Connection, domain: Domain, *, kept: bool) -> Optional[SavedFact]:
    fact: SavedFact = {
        "uuid": domain.uuid,
        "image_xml": None,
        "snapshots": [],
        "image_unreadable": None,
        "snapshots_unreadable": None,
    }
    if kept:
        try:
            fact["image_xml"] = domain.image_xml()
        except LibvirtError as error:
            if error.code == NO_DOMAIN:
                return None
            fact["image_unreadable"] = _reason(connection, error)
    try:
        fact["snapshots"] = [{"name": name, "xml": xml} for name, xml in domain.snapshots()]
    except LibvirtError as error:
        if error.code == NO_DOMAIN:
            return None
        fact["snapshots_unreadable"] = _reason(connection, error)
    return fact


def _listed(connection: Connection, flags: int) -> Dict[str, Domain]:
    """The domains that the flags select, ordered by name. The caller frees them."""
    domains = sorted(connection.domains(flags), key=lambda one: (one.name, one.uuid))
    return {one.uuid: one for one in domains}


def _uuids(connection: Connection, flags: int) -> "frozenset[str]":
    domains = connection.domains(flags)
    for domain in domains:
        domain.free()
    return frozenset(domain.uuid for domain in domains)


def _documents(connection: Connection, domains: Iterable[Domain], flags: int) -> Dict[str, _Document]:
    return {domain.uuid: _document(connection, domain, flags) for domain in domains}


def _document(connection: Connection, domain: Domain, flags: int) -> _Document:
    try:
        return _Document(xml=domain.xml(flags))
    except LibvirtError as error:
        if error.code == NO_DOMAIN:
            return _Document()
        return _Document(unreadable=_reason(connection, error))


def _reason(connection: Connection, error: LibvirtError) -> str:
    """Why a document could not be read. Raises the error if the connection itself is lost."""
    if not connection.alive:
        raise error
    return error.message
