"""What the host program reads of libvirt: a real libvirtd, its library on the host, the wire, our values."""

from __future__ import annotations

import signal
import subprocess
from dataclasses import asdict
from typing import TYPE_CHECKING

import libvirt
import pytest

from tests.unit.link.real_libvirt import define, render_domain, virsh, vm_uuid
from vgpumgr import errors
from vgpumgr.core.model.domain_dumps import LibvirtDump
from vgpumgr.link import connection
from vgpumgr.link.domain_query import DOMAINS, NO_DOMAINS, DomainQuery
from vgpumgr.link.program import libvirt_refusals
from vgpumgr.link.values import libvirt_facts
from vgpumgr.names import HostName
from vgpumgr.timing import Timing

if TYPE_CHECKING:
    from tests.unit.link.conftest import Sshd
    from vgpumgr.host import protocol
    from vgpumgr.timing import Deadlines

HOST = HostName("kvm01")
SAVED = DomainQuery(domains=False, saved=True)
lab = pytest.mark.lab


@lab
@pytest.mark.usefixtures("libvirtd")
def test_many_large_documents_come_whole_in_order_and_without_a_password(sshd: Sshd) -> None:
    """Ten domains with 300 KB each: more than any buffer on the way."""
    text = "".join(f"{number:06}" for number in range(50_000))
    define(sshd, *range(1, 11), description=text)
    assert "secret1" in virsh(sshd, "dumpxml", "--security-info", "vm01")
    with connection.connect(sshd.endpoint) as link:
        found = link.domains(DOMAINS).domains
        assert [one.name for one in found] == [f"vm{number:02}" for number in range(1, 11)]
        assert all(one.inactive_xml is not None and text in one.inactive_xml for one in found)
        assert "secret1" not in str(found)


@lab
@pytest.mark.usefixtures("libvirtd")
def test_saved_images_and_snapshots_are_read_of_the_domains_that_have_any(sshd: Sshd) -> None:
    define(sshd, 1, 2, 3)
    virsh(
        sshd,
        "snapshot-create",
        "vm01",
        "/dev/stdin",
        "--redefine",
        text="<domainsnapshot><name>before</name><state>shutoff</state><creationTime>1</creationTime>"
        f"{render_domain('vm01', vm_uuid(1), 'as it was')}</domainsnapshot>",
    )
    virsh(sshd, "start", "vm03")
    virsh(sshd, "managedsave", "vm03")
    with connection.connect(sshd.endpoint) as link:
        first, third = link.domains(SAVED).saved or ()
    assert (first.uuid, third.uuid) == (vm_uuid(1), vm_uuid(3))
    ((name, xml),) = first.snapshots
    assert (name, first.image_xml) == ("before", None)
    assert "as it was" in xml
    assert "secret1" not in xml
    assert third.snapshots == ()
    assert third.image_xml is not None
    assert vm_uuid(3) in third.image_xml
    assert "secret1" not in third.image_xml
    assert {first.image_unreadable, first.snapshots_unreadable, third.image_unreadable} == {None}


@lab
@pytest.mark.usefixtures("libvirtd")
def test_an_image_that_cannot_be_read_is_said_to_be_so_and_hides_nothing_else(sshd: Sshd) -> None:
    define(sshd, 1)
    virsh(sshd, "start", "vm01")
    virsh(sshd, "managedsave", "vm01")
    image = [*sshd.inside, "truncate", "-s", "10", "/var/lib/libvirt/qemu/save/vm01.save"]
    subprocess.run(image, check=True, timeout=10)
    with connection.connect(sshd.endpoint) as link:
        (found,) = link.domains(SAVED).saved or ()
    assert found.image_xml is None
    assert found.image_unreadable
    assert (found.snapshots, found.snapshots_unreadable) == ((), None)


@lab
def test_facts_and_domains_come_in_one_answer_in_and_outside_of_the_lock(sshd: Sshd) -> None:
    sshd.start_libvirtd()
    define(sshd, 1, 2)
    with connection.connect(sshd.endpoint) as link:
        requests = link.program.requests
        seen = link.observe(DOMAINS, wait_s=1)
        locked = link.lock(DomainQuery(only=(vm_uuid(2),), saved=True), by="me", wait_s=1)
        unlocked = link.unlock((), NO_DOMAINS)
        assert link.program.requests == requests + 3
        assert link.names() == (("vm01", vm_uuid(1)), ("vm02", vm_uuid(2)))
    assert [one.name for one in seen.libvirt.domains] == ["vm01", "vm02"]
    assert [one.name for one in locked.libvirt.domains] == ["vm02"]
    assert (locked.libvirt.saved, seen.libvirt.saved) == ((), None)
    assert (unlocked.libvirt.domains, unlocked.libvirt.version) == ((), seen.libvirt.version)


@lab
def test_a_running_vm_has_both_documents_and_a_transient_one_only_that_of_the_running_vm(sshd: Sshd) -> None:
    sshd.start_libvirtd()
    define(sshd, 1)
    virsh(sshd, "start", "vm01")
    virsh(sshd, "create", "/dev/stdin", text=render_domain("vm02", vm_uuid(2)))
    try:
        with connection.connect(sshd.endpoint) as link:
            first, second = link.domains(DOMAINS).domains
    finally:  # libvirtd's end would leave their QEMUs running
        for name in ("vm01", "vm02"):
            virsh(sshd, "destroy", name)
    assert (first.active, first.persistent, second.active, second.persistent) == (True, True, True, False)
    assert first.inactive_xml is not None
    assert first.live_xml is not None
    assert "<domain type='qemu' id='" in first.live_xml
    assert second.inactive_xml is None
    assert second.live_xml is not None


@lab
def test_a_host_without_libvirtd_still_states_its_facts(sshd: Sshd) -> None:
    with connection.connect(sshd.endpoint) as link:
        found = link.observe(DOMAINS, wait_s=1)
        assert found.snapshot.host == sshd.endpoint.host
        with pytest.raises(errors.Unreachable) as caught:
            _ = found.libvirt
        assert caught.value.stage == "libvirt"
        assert "libvirt-sock" in caught.value.message
        assert "systemctl start libvirtd" in str(caught.value.hint)
        sshd.start_libvirtd()
        assert link.domains(DOMAINS).domains == ()


@lab
def test_a_libvirtd_that_hangs_costs_its_own_deadline_and_no_fact(sshd: Sshd, quick: Deadlines) -> None:
    daemon = sshd.start_libvirtd()
    with connection.connect(sshd.endpoint, timing=Timing(deadlines=quick)) as link:
        link.names()
        daemon.send_signal(signal.SIGSTOP)
        found = link.observe(DOMAINS, wait_s=1)
        assert found.snapshot.host == sshd.endpoint.host
        with pytest.raises(errors.HostDeadline) as caught:
            _ = found.libvirt
        assert caught.value.stage == "libvirt"
        assert "busy" in str(caught.value.hint)
        with pytest.raises(errors.HostDeadline, match="an earlier call has not been answered"):
            link.domains(DOMAINS)
        link.program.ping()
    daemon.send_signal(signal.SIGCONT)


@lab
def test_a_libvirtd_that_was_killed_between_two_answers_ends_no_host_program(sshd: Sshd) -> None:
    """libvirt's library writes to a socket that nobody reads: a SIGPIPE, at which the program would end."""
    daemon = sshd.start_libvirtd()
    with connection.connect(sshd.endpoint) as link:
        link.names()
        daemon.kill()
        daemon.wait(10)
        for _ in range(2):
            with pytest.raises(errors.Unreachable) as caught:
                link.names()
            assert caught.value.stage == "libvirt"
        link.program.ping()


def failed(kind: protocol.LibvirtRefusal, code: int = 0) -> protocol.LibvirtFact:
    failure: protocol.LibvirtFailure = {"kind": kind, "message": "it said so", "code": code}
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
def test_what_could_not_be_read_says_what_to_do(
    fact: protocol.LibvirtFact, kind: type[errors.HostError], hint: str
) -> None:
    error = libvirt_facts.parse(HOST, fact)
    assert isinstance(error, kind)
    assert "it said so" in str(error)
    assert hint in str(error.hint)


def test_a_part_that_was_not_asked_for_is_empty_and_no_saved_states_are_none() -> None:
    found = libvirt_facts.parse(HOST, {**failed("closed"), "version": 9_000_000, "failure": None})
    assert found == LibvirtDump(version=9_000_000, names=(), domains=(), saved=None)


def test_each_fact_of_a_domain_and_of_what_is_saved_is_the_value_of_the_same_name() -> None:
    """Above all why a document could not be read: such a domain may hold any device."""
    domain: protocol.DomainFact = {
        "name": "vm01",
        "uuid": "6a1f",
        "active": True,
        "persistent": False,
        "managed_save": True,
        "inactive_xml": "<i/>",
        "live_xml": "<l/>",
        "unreadable": "why",
    }
    saved: protocol.SavedFact = {
        "uuid": "6a1f",
        "image_xml": "<s/>",
        "snapshots": [{"name": "monday", "xml": "<m/>"}],
        "image_unreadable": "why not",
        "snapshots_unreadable": "nor these",
    }
    whole: protocol.LibvirtFact = {
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
