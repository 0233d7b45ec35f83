"""The devices that a definition's QEMU arguments pass through, of which libvirt knows nothing."""

from __future__ import annotations

import xml.etree.ElementTree as ET

import pytest

from vgpumgr.core.model.domain_xml import read_arguments

QEMU = "http://libvirt.org/schemas/domain/qemu/1.0"
UUID = "4ec65b3b-df53-5795-94f7-e5a802cc5fc9"


@pytest.mark.parametrize(
    ("value", "named"),
    [
        ("vfio-pci,host=41:00.0,multifunction=on", ["0000:41:00.0"]),
        ("vfio-pci,id=gpu,host=0001:41:00.4", ["0001:41:00.4"]),
        (f"vfio-pci,sysfsdev=/sys/bus/mdev/devices/{UUID},display=off", [UUID]),
        ("vfio-pci,sysfsdev=/sys/bus/pci/devices/0000:41:00.5/", ["0000:41:00.5"]),
        ('{"driver":"vfio-pci","host":"0000:41:00.0","id":"gpu"}', ["0000:41:00.0"]),
        ("{'driver': 'vfio-pci', 'host': '0000:41:00.0'}", ["0000:41:00.0"]),
        ("vfio-pci-nohotplug,ramfb=on,host=41:00.0", ["0000:41:00.0"]),
        ("virtio-net-pci,host=41:00.0", []),
        ("vfio-pci,host=what", []),
        ("vfio-pci,host=", []),
        ("", []),
    ],
)
def test_what_a_qemu_argument_passes_through_is_named(value: str, named: list[str]) -> None:
    domain = ET.Element("domain")
    ET.SubElement(ET.SubElement(domain, f"{{{QEMU}}}commandline"), f"{{{QEMU}}}arg", value=value)
    assert [str(device.source) for device in read_arguments(domain)] == named
