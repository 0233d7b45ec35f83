"""The PCI Express root ports of a VM that a device can be plugged into while it runs.

libvirt gives each a bus of its own: controller N is the port to the guest's bus N, which has one slot. Hotplug can be
disabled for a port (`<target hotplug='off'/>`; libvirt 6.3, formatdomain, "Controllers").
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import xml.etree.ElementTree as ET


@dataclass(frozen=True, slots=True, kw_only=True)
class FreePorts:
    """The guest PCI buses of the free ports, by the live and by the inactive definition of a VM that runs."""

    live: frozenset[int]
    inactive: frozenset[int]


def free_ports(tree: ET.Element) -> frozenset[int]:
    """The buses behind a definition's root ports that have no device."""
    ports: set[int] = set()
    for controller in tree.iterfind("devices/controller[@type='pci'][@model='pcie-root-port']"):
        target = controller.find("target")
        bus = _number(controller.get("index"))
        if bus and (target is None or target.get("hotplug") != "off"):
            ports.add(bus)
    return frozenset(ports - {_number(each.get("bus")) for each in tree.iterfind("devices/*/address[@type='pci']")})


def port_of(device: ET.Element) -> int | None:
    """The bus of a device's root port.

    None without a guest PCI address, or if that is not slot 0, function 0 of another bus than 0 (in domain 0).
    """
    address = device.find("address")
    if address is None or address.get("type") != "pci":
        return None
    rest = {_number(address.get(key, "0")) for key in ("domain", "slot", "function")}
    return (_number(address.get("bus")) or None) if rest == {0} else None


def _number(text: str | None) -> int | None:
    """A number as libvirt writes it, 5 or 0x05; None if there is none."""
    try:
        return int(text or "", 0)
    except ValueError:
        return None
