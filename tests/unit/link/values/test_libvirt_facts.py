"""What the host program says of libvirt, as values. A real libvirtd: tests/unit/link/test_libvirt.py."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

import libvirt
import pytest

from vgpumgr import errors
from vgpumgr.core.model.domain_dumps import LibvirtDump
from vgpumgr.link.program import libvirt_refusals
from vgpumgr.link.values import libvirt_facts
from vgpumgr.names import HostName

if TYPE_CHECKING:
    from vgpumgr.host.protocol.libvirt import DomainFact, LibvirtFact, LibvirtFailure, LibvirtRefusal, SavedFact

HOST = HostName("kvm01")


def failed(kind: LibvirtRefusal, code: int = 0) -> LibvirtFact:
    failure: LibvirtFailure = {"kind": kind, "message": "it said so", "code": code}
    return {"version": None, "names": None, "domains": None, "saved": None, "failure": failure}


@pytest.mark.parametrize(
    ("fact", "kind", "hint"),
    [
        (failed("missing"), errors.Unreachable, "is libvirt installed there"),
        (failed("closed"), errors.Unreachable, "systemctl start"),
        (failed("closed", libvirt_refusals.ACCESS_DENIED), errors.Unreachable, "log in as root"),
        (failed("silent"), errors.HostDeadline, "busy"),
        (failed("refused", libvirt_refusals.NO_DOMAIN), errors.HypervisorError, "run the same command again"),
    ],
)
def test_what_could_not_be_read_says_what_to_do(fact: LibvirtFact, kind: type[errors.HostError], hint: str) -> None:
    error = libvirt_facts.parse(HOST, fact)
    assert isinstance(error, kind)
    assert "it said so" in str(error)
    assert hint in str(error.hint)


def test_a_part_that_was_not_asked_for_is_empty_and_no_saved_states_are_none() -> None:
    found = libvirt_facts.parse(HOST, {**failed("closed"), "version": 9_000_000, "failure": None})
    assert found == LibvirtDump(version=9_000_000, names=(), domains=(), saved=None)


def test_each_fact_of_a_domain_and_of_what_is_saved_is_the_value_of_the_same_name() -> None:
    """Above all why a document could not be read: such a domain may hold any device."""
    domain: DomainFact = {
        "name": "vm01",
        "uuid": "6a1f",
        "active": True,
        "persistent": False,
        "managed_save": True,
        "start_failed": True,
        "inactive_xml": "<i/>",
        "live_xml": "<l/>",
        "unreadable": "why",
    }
    saved: SavedFact = {
        "uuid": "6a1f",
        "image_xml": "<s/>",
        "snapshots": [{"name": "monday", "xml": "<m/>"}],
        "image_unreadable": "why not",
        "snapshots_unreadable": "nor these",
    }
    whole: LibvirtFact = {
        **failed("closed"),
        "version": 1,
        "failure": None,
        "domains": [domain],
        "saved": [saved],
    }
    found = libvirt_facts.parse(HOST, whole)
    assert isinstance(found, LibvirtDump)
    assert [asdict(one) for one in found.domains] == [domain]
    assert [asdict(one) for one in found.saved or ()] == [{**saved, "snapshots": (("monday", "<m/>"),)}]


def test_the_numbers_of_errors_are_libvirts_own() -> None:
    names = [name for name, value in vars(libvirt_refusals).items() if name.isupper() and type(value) is int]
    assert len(names) == 7
    for name in names:
        assert getattr(libvirt_refusals, name) == getattr(libvirt, f"VIR_ERR_{name}"), name
