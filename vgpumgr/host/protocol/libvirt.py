"""What is read of libvirt."""

from typing import List, Literal, Optional, TypedDict


class LibvirtQuery(TypedDict):
    """What to read of libvirt's domains. `only`: the UUIDs whose documents are read, null for all.

    `saved`: whether to read the managed-save images and snapshots of all domains. `wait_s`: the longest wait for it.
    """

    names: bool
    domains: bool
    only: Optional[List[str]]
    saved: bool
    wait_s: float


class NameFact(TypedDict):
    """A domain's name and UUID."""

    name: str
    uuid: str


class DomainFact(TypedDict):
    """A domain's documents, dumped without VIR_DOMAIN_XML_SECURE.

    `inactive_xml` is null for a transient domain, `live_xml` for one that is shut off. `unreadable` says why a document
    could not be read. `start_failed`: it is to start with the host, but its last start failed, and it is shut off.
    """

    name: str
    uuid: str
    active: bool
    start_failed: bool
    persistent: bool
    managed_save: bool
    inactive_xml: Optional[str]
    live_xml: Optional[str]
    unreadable: Optional[str]


class SnapshotDocument(TypedDict):
    """One of a domain's snapshots."""

    name: str
    xml: str


class SavedFact(TypedDict):
    """The saved states of one domain, which may come back. `image_xml` is null if it has no managed-save image.

    The last two keys say why the image or the snapshots could not be read.
    """

    uuid: str
    image_xml: Optional[str]
    snapshots: List[SnapshotDocument]
    image_unreadable: Optional[str]
    snapshots_unreadable: Optional[str]


# Why nothing could be read: the host has no usable libvirt library; the connection could not be opened; a call was
# refused; no answer came in time.
LibvirtRefusal = Literal["missing", "closed", "refused", "silent"]


class LibvirtFailure(TypedDict):
    """Why libvirt could not be read. `message` and `code` are libvirt's own if it refused."""

    kind: LibvirtRefusal
    message: str
    code: int


class LibvirtFact(TypedDict):
    """The query's answer: lists sorted by name, null if not requested. `version`: libvirt's (9000000 is 9.0.0).

    Everything is null if `failure` says why nothing could be read.
    """

    version: Optional[int]
    names: Optional[List[NameFact]]
    domains: Optional[List[DomainFact]]
    saved: Optional[List[SavedFact]]
    failure: Optional[LibvirtFailure]
