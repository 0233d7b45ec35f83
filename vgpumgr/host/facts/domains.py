"""What libvirt knows about the host's domains: names, documents, and what could come back. It interprets no document.

A libvirt call cannot be interrupted. So each reading has a thread of its own, beside the one that answers requests: it can
be waited for with a deadline, and runs while /sys is read. One that hangs ends with this program.
"""

import signal
import threading
from typing import Callable, Dict, Iterable, List, NamedTuple, Optional

from ..protocol import DomainFact, LibvirtFact, LibvirtFailure, LibvirtQuery, LibvirtRefusal, NameFact, SavedFact
from .libvirt_binding import (
    LIST_ACTIVE,
    LIST_HAS_SNAPSHOT,
    LIST_MANAGED_SAVE,
    LIST_TRANSIENT,
    NO_DOMAIN,
    XML_INACTIVE,
    Connection,
    Domain,
    Library,
    LibvirtError,
)


def failed(kind: LibvirtRefusal, message: str, code: int = 0) -> LibvirtFact:
    """The fact that nothing could be read, and why."""
    failure: LibvirtFailure = {"kind": kind, "message": message, "code": code}
    return {"version": None, "names": None, "domains": None, "saved": None, "failure": failure}


class Libvirt:
    """Reads what is asked for. It opens one connection, on first use, and keeps it as long as it works."""

    def __init__(self, load: Callable[[], Library] = Library) -> None:
        self._load = load
        self._library: Optional[Library] = None
        self._connection: Optional[Connection] = None
        self._running: Optional[threading.Thread] = None

    def begin(self, query: LibvirtQuery) -> Callable[[], LibvirtFact]:
        """Start to read. The result is a function that waits for the answer, as long as the query says."""
        found: List[LibvirtFact] = []
        late = failed("silent", "no answer within {:g} s".format(query["wait_s"]))
        if self._running is not None and self._running.is_alive():
            return lambda: late

        def run() -> None:
            # This program ends at a SIGPIPE, as its controller has gone then; but libvirtd may go, too.
            signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGPIPE})
            found.append(self._read(query))

        thread = threading.Thread(target=run, name="libvirt", daemon=True)
        self._running = thread
        thread.start()

        def wait() -> LibvirtFact:
            thread.join(query["wait_s"])
            return found[0] if found else late

        return wait

    def _read(self, query: LibvirtQuery) -> LibvirtFact:
        try:
            if self._library is None:
                self._library = self._load()
        except (OSError, AttributeError, ImportError) as error:
            return failed("missing", str(error))
        try:
            if self._connection is None:
                self._connection = self._library.open()
        except LibvirtError as error:
            return failed("closed", error.message, error.code)
        try:
            return _answer(self._connection, query)
        except LibvirtError as error:
            if self._connection.alive:
                return failed("refused", error.message, error.code)
            self._connection = None  # what is left of it goes with this program: closing could hang
            return failed("closed", error.message, error.code)


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
    """Every domain, or those of them, without those that disappeared while they were read."""
    domains = {uuid: domain for uuid, domain in everything.items() if only is None or uuid in only}
    if not domains:
        return []
    transient, kept = _uuids(connection, LIST_TRANSIENT), _uuids(connection, LIST_MANAGED_SAVE)
    inactive = _documents(connection, (one for one in domains.values() if one.uuid not in transient), XML_INACTIVE)
    # Only now: a VM that was started in the meantime was started from the definition just read.
    active = _uuids(connection, LIST_ACTIVE)
    live = _documents(connection, (one for one in domains.values() if one.uuid in active), 0)
    return [
        {
            "name": domain.name,
            "uuid": uuid,
            "active": uuid in live,
            "persistent": uuid in inactive,
            "managed_save": uuid in kept,
            "inactive_xml": inactive.get(uuid, _NOT_READ).xml,
            "live_xml": live.get(uuid, _NOT_READ).xml,
            "unreadable": inactive.get(uuid, _NOT_READ).unreadable or live.get(uuid, _NOT_READ).unreadable,
        }
        for uuid, domain in domains.items()
        if not any(uuid in read and read[uuid].gone for read in (inactive, live))
    ]


def _saved_states(connection: Connection, everything: Dict[str, Domain]) -> List[SavedFact]:
    """The managed-save image and snapshots of every domain that has any."""
    kept, snapshotted = _uuids(connection, LIST_MANAGED_SAVE), _uuids(connection, LIST_HAS_SNAPSHOT)
    read = (
        _saved(connection, domain, kept=uuid in kept)
        for uuid, domain in everything.items()
        if uuid in kept or uuid in snapshotted
    )
    return [one for one in read if one is not None]


def _saved(connection: Connection, domain: Domain, *, kept: bool) -> Optional[SavedFact]:
    found: SavedFact = {
        "uuid": domain.uuid,
        "image_xml": None,
        "snapshots": [],
        "image_unreadable": None,
        "snapshots_unreadable": None,
    }
    if kept:
        try:
            found["image_xml"] = domain.image_xml()
        except LibvirtError as error:
            if error.code == NO_DOMAIN:
                return None
            found["image_unreadable"] = _reason(connection, error)
    try:
        found["snapshots"] = [{"name": name, "xml": xml} for name, xml in domain.snapshots()]
    except LibvirtError as error:
        if error.code == NO_DOMAIN:
            return None
        found["snapshots_unreadable"] = _reason(connection, error)
    return found


def _listed(connection: Connection, flags: int) -> Dict[str, Domain]:
    """The domains that the flags select, ordered by name. The caller frees them."""
    found = sorted(connection.domains(flags), key=lambda one: (one.name, one.uuid))
    return {one.uuid: one for one in found}


def _uuids(connection: Connection, flags: int) -> "frozenset[str]":
    found = connection.domains(flags)
    for domain in found:
        domain.free()
    return frozenset(domain.uuid for domain in found)


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
