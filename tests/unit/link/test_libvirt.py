"""libvirt on a host, by the host program: a real libvirtd behind a real sshd. What its refusals mean: tests/unit/host/libvirt/."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING

import pytest

from tests.unit.link.conftest import stopped
from tests.unit.link.real_libvirt import (
    HOSTDEV,
    KEY,
    MDEV,
    URI,
    define,
    enter,
    forget_all,
    render_domain,
    virsh,
    vm_uuid,
)
from vgpumgr import errors
from vgpumgr.link import connection
from vgpumgr.link.domain_query import DOMAINS, DOMAINS_AND_SAVED, DomainQuery
from vgpumgr.timing import Timing

if TYPE_CHECKING:
    import subprocess

    from tests.unit.link.conftest import Sshd
    from vgpumgr.timing import Deadlines

pytestmark = pytest.mark.lab

SAVED = DomainQuery(domains=False, saved=True)


@pytest.fixture
def libvirtd(sshd: Sshd) -> subprocess.Popen[bytes]:
    """The libvirtd that the last test left running, or a new one. It has no domain."""
    found = sshd.libvirtd
    if found is None or found.poll() is not None:
        found = sshd.start_libvirtd()
    forget_all(sshd)
    return found


@pytest.fixture
def host(sshd: Sshd, libvirtd: subprocess.Popen[bytes]) -> Sshd:
    assert libvirtd.poll() is None
    return sshd


def test_claims_and_devices_go_in_and_out_of_the_persistent_definition(host: Sshd) -> None:
    """Also one of 500 KB, which is more than any buffer on the way."""
    large = "x" * 500_000
    define(host, 1)
    enter(host)
    with connection.connect(host.endpoint) as link:
        link.lock(by="me", wait_s=5)
        found = link.domains(DOMAINS)
        assert found.version >= 9_000_000
        (before,) = found.domains
        assert (before.name, before.uuid, before.active, before.persistent) == ("vm01", vm_uuid(1), False, True)
        assert before.live_xml is None
        assert not before.managed_save
        link.set_metadata(vm_uuid(1), f"<vgpumgr text='{large}'/>", key=KEY, uri=URI)
        link.attach_device(vm_uuid(1), HOSTDEV)
        (changed,) = link.domains(DomainQuery(only=(vm_uuid(1),))).domains
        assert changed.inactive_xml is not None
        assert [part in changed.inactive_xml for part in (large, MDEV, "ua-vgpu0", "secret1")] == [
            True,
            True,
            True,
            False,
        ]
        link.detach_device(vm_uuid(1), HOSTDEV)
        link.set_metadata(vm_uuid(1), None, key=KEY, uri=URI)
        link.set_metadata(vm_uuid(1), None, key=KEY, uri=URI)  # what is gone may be taken out again
        (after,) = link.domains(DomainQuery(only=(vm_uuid(1),))).domains
        assert after.inactive_xml is not None
        assert MDEV not in after.inactive_xml
        assert URI not in after.inactive_xml
        assert link.domains(DOMAINS_AND_SAVED).saved == ()
    assert "passwd='secret1'" in virsh(host, "dumpxml", "--security-info", "--inactive", "vm01")


def test_what_libvirt_refuses_is_told_and_leaves_the_connection_usable(host: Sshd) -> None:
    define(host, 1)
    enter(host)
    with connection.connect(host.endpoint) as link:
        link.lock(by="me", wait_s=5)
        with pytest.raises(errors.HypervisorError, match="write the claim: Domain not found") as caught:
            link.set_metadata(vm_uuid(9), "<vgpumgr/>", key=KEY, uri=URI)
        assert caught.value.code == 42
        with pytest.raises(errors.HypervisorError, match="attach the device: "):
            link.attach_device(vm_uuid(9), HOSTDEV)
        with pytest.raises(
            errors.ProgramFailed, match=r"BadRequest: step\.xml must be the XML of a vGPU's host device"
        ):
            link.attach_device(vm_uuid(1), "<nonsense/>")
        with pytest.raises(errors.HypervisorError, match="detach the device: "):
            link.detach_device(vm_uuid(1), HOSTDEV)
        link.set_metadata(vm_uuid(1), "<vgpumgr/>", key=KEY, uri=URI)


def test_facts_and_domains_come_in_one_answer_in_and_outside_of_the_lock(host: Sshd) -> None:
    define(host, 1, 2)
    with connection.connect(host.endpoint) as link:
        seen = link.observe(DOMAINS, wait_s=1)
        locked = link.lock(DomainQuery(only=(vm_uuid(2),), saved=True), by="me", wait_s=1)
        unlocked = link.unlock((), DomainQuery(domains=False))
        assert link.program.requests == 3
        assert link.names() == (("vm01", vm_uuid(1)), ("vm02", vm_uuid(2)))
    assert [one.name for one in seen.libvirt.domains] == ["vm01", "vm02"]
    assert [one.name for one in locked.libvirt.domains] == ["vm02"]
    assert (locked.libvirt.saved, seen.libvirt.saved) == ((), None)
    assert (unlocked.libvirt.domains, unlocked.libvirt.version) == ((), seen.libvirt.version)


def test_saved_images_and_snapshots_are_read_of_the_domains_that_have_any(host: Sshd) -> None:
    define(host, 1, 2, 3)
    virsh(
        host,
        "snapshot-create",
        "vm01",
        "/dev/stdin",
        "--redefine",
        text="<domainsnapshot><name>before</name><state>shutoff</state><creationTime>1</creationTime>"
        f"{render_domain('vm01', vm_uuid(1), 'as it was')}</domainsnapshot>",
    )
    virsh(host, "start", "vm03")
    virsh(host, "managedsave", "vm03")
    with connection.connect(host.endpoint) as link:
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


def test_a_libvirtd_that_hangs_costs_its_own_deadline_and_no_fact(
    host: Sshd, libvirtd: subprocess.Popen[bytes], quick: Deadlines
) -> None:
    define(host, 1)
    with stopped(libvirtd.pid), connection.connect(host.endpoint, timing=Timing(deadlines=quick)) as link:
        found = link.lock(DOMAINS, by="me", wait_s=1)
        assert found.snapshot.host == host.endpoint.host
        with pytest.raises(errors.HostDeadline) as caught:
            _ = found.libvirt
        assert caught.value.stage == "libvirt"
        assert "busy" in str(caught.value.hint)
        with pytest.raises(errors.HostDeadline, match="an earlier call has not been answered"):
            link.domains(DOMAINS)
        with pytest.raises(errors.HostDeadline, match="write the claim: "):
            link.set_metadata(vm_uuid(1), "<vgpumgr/>", key=KEY, uri=URI)
        link.program.ping()


def test_without_libvirtd_a_host_still_states_its_facts_and_a_new_one_is_used(
    host: Sshd, libvirtd: subprocess.Popen[bytes]
) -> None:
    """libvirt's library writes to a socket that nobody reads: a SIGPIPE, at which the program would end."""
    with connection.connect(host.endpoint) as link:
        link.names()
        libvirtd.send_signal(signal.SIGKILL)
        libvirtd.wait(60)
        for _ in range(2):
            found = link.observe(DOMAINS, wait_s=1)
            assert found.snapshot.host == host.endpoint.host
            with pytest.raises(errors.Unreachable) as caught:
                _ = found.libvirt
            assert caught.value.stage == "libvirt"
            assert "systemctl start libvirtd" in str(caught.value.hint)
        host.start_libvirtd()
        assert link.domains(DOMAINS).domains == ()
