"""What the host program states of domains when libvirt refuses, loses or changes something in between. *Cannot tell* is stated, too."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, cast

import pytest

from vgpumgr.host.libvirt import binding
from vgpumgr.host.libvirt.client import Client
from vgpumgr.host.libvirt.service import Libvirt

if TYPE_CHECKING:
    from collections.abc import Callable

    from vgpumgr.host.protocol.libvirt import DomainFact, LibvirtFact, LibvirtQuery

ALL: LibvirtQuery = {"names": False, "domains": True, "only": None, "saved": True, "wait_s": 5}
INACTIVE, LIVE, IMAGE, SNAPSHOTS, STATE = "inactive", "live", "image", "snapshots", "state"


class Domain:
    """vm01, which runs and has an image and a snapshot; `refuses`: what libvirt says instead of which document."""

    name, uuid = "vm01", "6a1f"

    def __init__(self, refuses: dict[str, binding.LibvirtError], state: tuple[int, int]) -> None:
        self._refuses = refuses
        self._state = state

    def _say(self, what: str) -> str:
        if what in self._refuses:
            raise self._refuses[what]
        return what

    def xml(self, flags: int) -> str:
        return self._say(INACTIVE if flags & binding.XML_INACTIVE else LIVE)

    def image_xml(self) -> str:
        return self._say(IMAGE)

    def snapshots(self) -> list[tuple[str, str]]:
        return [("monday", self._say(SNAPSHOTS))]

    def state(self) -> tuple[int, int]:
        self._say(STATE)
        return self._state

    def free(self) -> None: ...


class Connection:
    def __init__(self, library: Library) -> None:
        self._library = library
        self.alive = library.alive

    def version(self) -> int:
        return 9_000_000

    def domains(self, flags: int = 0) -> list[Domain]:
        return [Domain(self._library.refuses, self._library.state)] if flags in self._library.listed else []


class Library:
    """`opened`: how often; `alive` is for the connections that are opened from now on. `listed`: by which flags vm01 is."""

    def __init__(self) -> None:
        self.opened = 0
        self.refuses: dict[str, binding.LibvirtError] = {}
        self.alive = True
        self.listed = {0, binding.LIST_ACTIVE, binding.LIST_MANAGED_SAVE, binding.LIST_HAS_SNAPSHOT}
        self.state = (1, 1)

    def open(self) -> Connection:
        self.opened += 1
        return Connection(self)


@pytest.fixture
def library() -> Library:
    return Library()


def reader(library: Library) -> Libvirt:
    return Libvirt(Client(cast("Callable[[], binding.Library]", lambda: library)))


def only_domain(found: LibvirtFact) -> DomainFact:
    assert found["domains"] is not None
    (domain,) = found["domains"]
    return domain


BROKEN = binding.LibvirtError(1, "internal error: no such property")
GONE = binding.LibvirtError(binding.NO_DOMAIN, "Domain not found")


@pytest.mark.parametrize("which", [INACTIVE, LIVE])
def test_a_document_that_cannot_be_read_is_said_to_be_so_and_the_other_is_there(library: Library, which: str) -> None:
    library.refuses[which] = BROKEN
    domain = only_domain(reader(library).begin_reading(ALL)())
    assert domain["unreadable"] == BROKEN.message
    assert [domain["inactive_xml"], domain["live_xml"]] == [None if one == which else one for one in (INACTIVE, LIVE)]
    assert (domain["active"], domain["persistent"], domain["managed_save"]) == (True, True, True)


@pytest.mark.parametrize(
    ("listed", "state", "failed"),
    [
        (True, binding.START_FAILED, True),
        (False, binding.START_FAILED, False),  # it is not to start with the host
        (True, (5, 1), False),  # a person shut it down
        (True, (5, 0), False),  # libvirt was restarted since
    ],
)
def test_a_start_failed_only_where_libvirt_says_so_of_a_vm_that_starts_with_its_host(
    library: Library, listed: bool, state: tuple[int, int], failed: bool
) -> None:
    library.listed -= {binding.LIST_ACTIVE}
    library.listed |= {binding.LIST_AUTOSTART | binding.LIST_INACTIVE} if listed else set()
    library.state = state
    assert only_domain(reader(library).begin_reading(ALL)())["start_failed"] is failed
    library.refuses[STATE] = GONE
    assert only_domain(reader(library).begin_reading(ALL)())["start_failed"] is False


def test_an_image_and_snapshots_that_cannot_be_read_are_each_said_to_be_so(library: Library) -> None:
    library.refuses.update({IMAGE: BROKEN, SNAPSHOTS: BROKEN})
    saved = reader(library).begin_reading(ALL)()["saved"]
    assert saved == [
        {
            "uuid": "6a1f",
            "image_xml": None,
            "snapshots": [],
            "image_unreadable": BROKEN.message,
            "snapshots_unreadable": BROKEN.message,
        }
    ]


@pytest.mark.parametrize("which", [INACTIVE, LIVE, IMAGE, SNAPSHOTS])
def test_a_domain_that_disappears_while_it_is_read_is_not_there(library: Library, which: str) -> None:
    library.refuses[which] = GONE
    found = reader(library).begin_reading(ALL)()
    assert found["failure"] is None
    assert found["domains" if which in {INACTIVE, LIVE} else "saved"] == []


def test_a_lost_connection_is_no_unreadable_domain_and_the_next_reading_opens_another(library: Library) -> None:
    library.refuses[INACTIVE], library.alive = BROKEN, False
    libvirt = reader(library)
    found = libvirt.begin_reading(ALL)()
    assert (found["domains"], found["failure"]) == (None, {"kind": "closed", "message": BROKEN.message, "code": 1})
    library.refuses, library.alive = {}, True
    assert only_domain(libvirt.begin_reading(ALL)())["unreadable"] is None
    assert only_domain(libvirt.begin_reading(ALL)())["unreadable"] is None
    assert library.opened == 2


def test_a_call_that_does_not_return_is_waited_for_once_and_then_said_to_be_silent(library: Library) -> None:
    hangs = threading.Event()
    libvirt = Libvirt(Client(cast("Callable[[], binding.Library]", lambda: hangs.wait(30) and library)))
    slow: LibvirtQuery = {**ALL, "wait_s": 0.05}
    late = [libvirt.begin_reading(slow)()["failure"] for _ in range(2)]
    assert late == [
        {"kind": "silent", "message": "no answer within 0.05 s", "code": 0},
        {"kind": "silent", "message": "an earlier call has not been answered yet", "code": 0},
    ]
    hangs.set()
