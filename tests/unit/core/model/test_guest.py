"""What a VM's definition says of its memory and firmware, and which of its PCI Express root ports are free."""

from __future__ import annotations

import xml.etree.ElementTree as ET

import pytest

from vgpumgr.core.model.guest import Guest, read_guest
from vgpumgr.core.model.guest_ports import free_ports, port_of

GIB = 1024 * 1024


def read(inner: str) -> Guest:
    return read_guest(ET.fromstring(f"<domain>{inner}</domain>"))


@pytest.mark.parametrize(
    ("memory", "kib"),
    [
        ("<memory unit='KiB'>4194304</memory>", 4 * GIB),
        ("<memory unit='GiB'>4</memory>", 4 * GIB),
        ("<memory>4194304</memory>", 4 * GIB),
        ("<memory unit='furlong'>4</memory>", None),
        ("<memory>much</memory>", None),
        ("<memory/>", None),
        ("", None),
    ],
)
def test_memory(memory: str, kib: int | None) -> None:
    assert read(memory).memory_kib == kib


@pytest.mark.parametrize(
    ("limit", "kib"),
    [
        ("<hard_limit unit='KiB'>65536</hard_limit>", 65536),
        ("<hard_limit unit='KiB'>9007199254740991</hard_limit>", None),
        ("", None),
    ],
)
def test_a_limit_that_is_none(limit: str, kib: int | None) -> None:
    """libvirt writes the largest number for no limit."""
    assert read(f"<memtune>{limit}</memtune>").hard_limit_kib == kib


@pytest.mark.parametrize(
    ("boot", "efi"),
    [
        ("<os firmware='efi'><type>hvm</type></os>", True),
        ("<os><loader readonly='yes' type='pflash'>/usr/share/OVMF/OVMF_CODE.fd</loader></os>", True),
        ("<os firmware='bios'/>", False),
        ("<os><type>hvm</type></os>", False),
        ("", False),
    ],
)
def test_firmware(boot: str, *, efi: bool) -> None:
    assert read(boot).efi is efi


# Which PCI Express root ports of a VM are free, and on which one a device is


# as libvirt 9.0 writes them
ROOT = "<controller type='pci' index='0' model='pcie-root'/>"
PORT = (
    "<controller type='pci' index='{0}' model='pcie-root-port'><model name='pcie-root-port'/><target chassis='{0}' port='0x10'{1}/>"
    "<address type='pci' domain='0x0000' bus='0x00' slot='0x02' function='0x0' multifunction='on'/></controller>"
)
ADDRESS = "<address type='pci' domain='0x0000' bus='{:#04x}' slot='{:#04x}' function='0x0'/>"


def definition(*devices: str) -> ET.Element:
    return ET.fromstring(f"<domain><devices>{ROOT}{''.join(devices)}</devices></domain>")


def interface(bus: int, slot: int = 0) -> str:
    return f"<interface type='network'>{ADDRESS.format(bus, slot)}</interface>"


OTHER_CONTROLLERS = (
    "<controller type='pci' index='3' model='pcie-to-pci-bridge'/>"
    "<controller type='usb' index='4' model='qemu-xhci'/>"
    "<controller type='pci' index='' model='pcie-root-port'/>"
    "<controller type='pci' model='pcie-root-port'/>"
    "<controller type='pci' index='x' model='pcie-root-port'/>"
)
DISK = "<disk><address type='drive' controller='0' bus='1' target='0' unit='0'/></disk>"


@pytest.mark.parametrize(
    ("devices", "free"),
    [
        ([PORT.format(1, ""), PORT.format(2, ""), PORT.format(11, "")], {1, 2, 11}),
        ([PORT.format(1, ""), PORT.format(2, ""), PORT.format(11, ""), interface(2), interface(11)], {1}),
        ([PORT.format(1, ""), interface(0, 3)], {1}),  # the bus of the machine itself takes nothing and blocks nothing
        ([PORT.format(1, ""), DISK], {1}),  # an address of another kind
        ([PORT.format(1, " hotplug='off'"), PORT.format(2, " hotplug='on'")], {2}),
        ([OTHER_CONTROLLERS], set()),
    ],
)
def test_a_root_port_is_free_until_a_device_is_on_its_bus(devices: list[str], free: set[int]) -> None:
    assert free_ports(definition(*devices)) == free


@pytest.mark.parametrize(
    ("address", "port"),
    [
        (ADDRESS.format(5, 0), 5),
        (ADDRESS.format(0, 3), None),  # i440fx: every device is on bus 0
        (ADDRESS.format(7, 1), None),  # behind a pcie-to-pci-bridge
        ("<address type='pci' domain='0x0001' bus='0x05' slot='0x00' function='0x0'/>", None),
        ("<address type='pci' bus='0x05' slot='zero'/>", None),
        ("<address type='drive' bus='5'/>", None),
        ("<address type='pci' bus=''/>", None),
        ("", None),
    ],
)
def test_the_port_of_a_device_is_its_bus_where_it_is_alone_there(address: str, port: int | None) -> None:
    source = "<source><address domain='0x0000' bus='0x41' slot='0x00' function='0x4'/></source>"
    assert port_of(ET.fromstring(f"<hostdev>{source}{address}</hostdev>")) == port


@pytest.mark.parametrize(
    ("tune", "nodes"),
    [
        ("<memory mode='strict' nodeset='1'/>", {1}),
        ("<memory mode='strict' nodeset='0-3,^2,6'/>", {0, 1, 3, 6}),
        ("<memory mode='strict' placement='auto'/>", set()),
        ("<memory nodeset='0-99999999999'/>", set()),
        ("<memory nodeset='²'/>", set()),
        ("<memory nodeset='a-b'/>", set()),
        ("", set()),
    ],
)
def test_the_numa_nodes_that_its_memory_is_pinned_to(tune: str, nodes: set[int]) -> None:
    assert read(f"<numatune>{tune}</numatune>").numa_nodes == nodes


@pytest.mark.parametrize(
    ("tune", "cpus"),
    [
        ("<vcpupin vcpu='0' cpuset='4-6'/><vcpupin vcpu='1' cpuset='8,9,^9'/>", {4, 5, 6, 8}),
        ("<vcpupin vcpu='0' cpuset='4'/><emulatorpin cpuset='1'/><iothreadpin iothread='1' cpuset='30'/>", {1, 4}),
        ("<vcpupin vcpu='0'/><emulatorpin cpuset='0-99999'/>", set()),
        ("<shares>2048</shares>", set()),
    ],
)
def test_the_cpus_that_its_virtual_cpus_and_its_emulator_are_pinned_to(tune: str, cpus: set[int]) -> None:
    assert read(f"<cputune>{tune}</cputune>").cpus == cpus
