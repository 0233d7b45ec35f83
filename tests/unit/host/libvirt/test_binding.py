"""Our few calls of libvirt beside libvirt-python's, both on libvirt's test driver, whose domains all of a process share."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import libvirt
import pytest

from vgpumgr.host.libvirt import binding as ours
from vgpumgr.host.libvirt.client import Client
from vgpumgr.host.libvirt.service import Libvirt

if TYPE_CHECKING:
    from collections.abc import Iterator

    from vgpumgr.host.protocol.libvirt import LibvirtQuery

URI = "test:///default"
DOMAIN = """<domain type='test'><name>vm{0}</name><uuid>6a1f0000-0000-0000-0000-00000000000{0}</uuid>
<memory>65536</memory><os><type>hvm</type></os></domain>"""
ALL: LibvirtQuery = {"names": True, "domains": True, "only": None, "saved": True, "wait_s": 10}


@pytest.fixture
def judge() -> Iterator[libvirt.virConnect]:
    """libvirt-python's connection; beside the driver's own running domain, one is shut off and one is transient."""
    connection = libvirt.open(URI)
    kept = connection.defineXML(DOMAIN.format(1))
    fleeting = connection.createXML(DOMAIN.format(2))
    yield connection
    for snapshot in kept.listAllSnapshots():
        snapshot.delete()
    kept.undefineFlags(libvirt.VIR_DOMAIN_UNDEFINE_MANAGED_SAVE | libvirt.VIR_DOMAIN_UNDEFINE_SNAPSHOTS_METADATA)
    fleeting.destroy()
    connection.close()


@pytest.fixture
def connection(judge: libvirt.virConnect) -> Iterator[ours.Connection]:
    del judge
    opened = ours.Library().open(URI)
    yield opened
    opened.close()


def test_the_constants_are_libvirts() -> None:
    assert {
        name: value
        for name, value in vars(ours).items()
        if name.isupper() and isinstance(value, int) and name[0] != "_"
    } == {
        "LIST_ACTIVE": libvirt.VIR_CONNECT_LIST_DOMAINS_ACTIVE,
        "LIST_INACTIVE": libvirt.VIR_CONNECT_LIST_DOMAINS_INACTIVE,
        "LIST_AUTOSTART": libvirt.VIR_CONNECT_LIST_DOMAINS_AUTOSTART,
        "LIST_TRANSIENT": libvirt.VIR_CONNECT_LIST_DOMAINS_TRANSIENT,
        "LIST_MANAGED_SAVE": libvirt.VIR_CONNECT_LIST_DOMAINS_MANAGEDSAVE,
        "LIST_HAS_SNAPSHOT": libvirt.VIR_CONNECT_LIST_DOMAINS_HAS_SNAPSHOT,
        "XML_INACTIVE": libvirt.VIR_DOMAIN_XML_INACTIVE,
        "METADATA_ELEMENT": libvirt.VIR_DOMAIN_METADATA_ELEMENT,
        "AFFECT_LIVE": libvirt.VIR_DOMAIN_AFFECT_LIVE,
        "AFFECT_CONFIG": libvirt.VIR_DOMAIN_AFFECT_CONFIG,
        "NO_DOMAIN": libvirt.VIR_ERR_NO_DOMAIN,
        "NO_DOMAIN_METADATA": libvirt.VIR_ERR_NO_DOMAIN_METADATA,
    }
    assert ours.START_FAILED == (libvirt.VIR_DOMAIN_SHUTOFF, libvirt.VIR_DOMAIN_SHUTOFF_FAILED)


@pytest.mark.parametrize("flags", [0, ours.LIST_ACTIVE, ours.LIST_TRANSIENT, ours.LIST_MANAGED_SAVE])
def test_domains_are_listed_and_dumped_as_libvirt_python_does_it(
    judge: libvirt.virConnect, connection: ours.Connection, flags: int
) -> None:
    found = connection.domains(flags)
    assert [(one.name, one.uuid, one.xml(), one.xml(ours.XML_INACTIVE)) for one in found] == [
        (one.name(), one.UUIDString(), one.XMLDesc(), one.XMLDesc(libvirt.VIR_DOMAIN_XML_INACTIVE))
        for one in judge.listAllDomains(flags)
    ]
    assert found or flags == ours.LIST_MANAGED_SAVE
    for one in found:
        one.free()


def test_the_version_and_the_life_of_a_connection(judge: libvirt.virConnect, connection: ours.Connection) -> None:
    assert connection.version() == judge.getLibVersion()
    assert connection.alive


def test_a_vm_is_started_and_its_state_is_the_one_that_libvirt_python_sees(
    judge: libvirt.virConnect, connection: ours.Connection
) -> None:
    vm = judge.lookupByName("vm1")
    one = connection.lookup(vm.UUIDString())
    assert one.state() == tuple(map(int, vm.state()))
    one.start()
    assert one.state() == tuple(map(int, vm.state()))
    assert vm.isActive()
    with pytest.raises(ours.LibvirtError):
        one.start()
    vm.destroy()
    one.free()


def test_snapshots_and_a_saved_image_are_read(judge: libvirt.virConnect, connection: ours.Connection) -> None:
    vm = judge.lookupByName("vm1")
    vm.snapshotCreateXML("<domainsnapshot><name>before</name></domainsnapshot>")
    (one,) = [domain for domain in connection.domains(ours.LIST_HAS_SNAPSHOT) if domain.name == "vm1"]
    assert one.snapshots() == [("before", vm.snapshotLookupByName("before").getXMLDesc())]
    assert one.image_xml() is None
    one.free()


def test_a_refusal_has_libvirts_code_and_words(judge: libvirt.virConnect, connection: ours.Connection) -> None:
    (one,) = [domain for domain in connection.domains() if domain.name == "vm1"]
    judge.lookupByName("vm1").undefine()
    with pytest.raises(ours.LibvirtError) as caught:
        one.xml()
    assert caught.value.code == libvirt.VIR_ERR_NO_DOMAIN
    assert "vm1" in caught.value.message
    one.free()
    judge.defineXML(DOMAIN.format(1))
    with pytest.raises(ours.LibvirtError, match="nowhere"):
        ours.Library().open("test:///nowhere")


def test_an_element_is_written_into_the_definition_and_taken_out(
    judge: libvirt.virConnect, connection: ours.Connection
) -> None:
    vm = judge.lookupByName("vm1")
    one = connection.lookup(vm.UUIDString())
    one.set_metadata("<claim name='Jos\u00e9'/>", key="v", uri="urn:x")
    assert vm.metadata(libvirt.VIR_DOMAIN_METADATA_ELEMENT, "urn:x") == '<claim name="Jos&#xE9;"/>'
    one.set_metadata(None, key="v", uri="urn:x")
    with pytest.raises(libvirt.libvirtError, match="not found"):
        vm.metadata(libvirt.VIR_DOMAIN_METADATA_ELEMENT, "urn:x")
    one.free()


def test_what_the_driver_refuses_of_a_device_is_what_it_refuses_the_judge(
    judge: libvirt.virConnect, connection: ours.Connection
) -> None:
    vm = judge.lookupByName("vm1")
    one = connection.lookup(vm.UUIDString())
    calls = ((one.attach_device, vm.attachDeviceFlags), (one.detach_device, vm.detachDeviceFlags))
    for (mine, judged), affect in itertools.product(calls, (ours.AFFECT_CONFIG, ours.AFFECT_LIVE)):
        with pytest.raises(ours.LibvirtError) as caught:
            mine("<hostdev/>", affect)
        with pytest.raises(libvirt.libvirtError) as expected:
            judged("<hostdev/>", affect)
        assert (caught.value.code, caught.value.message) == (
            expected.value.get_error_code(),
            expected.value.get_error_message(),
        )
    one.free()


def test_a_vm_that_is_not_there_cannot_be_looked_up(connection: ours.Connection) -> None:
    with pytest.raises(ours.LibvirtError) as caught:
        connection.lookup("6a1f0000-0000-0000-0000-000000000009")
    assert caught.value.code == libvirt.VIR_ERR_NO_DOMAIN


class OnTestDriver(ours.Library):
    def open(self, uri: str = URI) -> ours.Connection:
        return super().open(uri)


@pytest.mark.usefixtures("judge")
def test_everything_is_stated_in_the_order_of_names_and_what_was_not_asked_for_is_null() -> None:
    reader = Libvirt(Client(OnTestDriver))
    found = reader.begin_reading(ALL)()
    assert found["failure"] is None
    assert found["names"] is not None
    assert [one["name"] for one in found["names"]] == ["test", "vm1", "vm2"]
    assert found["domains"] is not None
    assert [
        (one["name"], one["active"], one["persistent"], one["inactive_xml"] is None, one["live_xml"] is None)
        for one in found["domains"]
    ] == [("test", True, True, False, False), ("vm1", False, True, False, True), ("vm2", True, False, True, False)]
    one_vm: LibvirtQuery = {**ALL, "names": False, "saved": False, "only": [found["names"][1]["uuid"]]}
    again = reader.begin_reading(one_vm)()
    assert (again["names"], again["saved"], again["version"]) == (None, None, found["version"])
    assert again["domains"] == found["domains"][1:2]


def test_a_host_without_the_library_says_so() -> None:
    def missing() -> ours.Library:
        raise OSError("libvirt.so.0: cannot open shared object file: No such file or directory")

    found = Libvirt(Client(missing)).begin_reading(ALL)()
    assert found["failure"] == {
        "kind": "missing",
        "message": "libvirt.so.0: cannot open shared object file: No such file or directory",
        "code": 0,
    }
    assert {found["version"], found["names"], found["domains"], found["saved"]} == {None}
