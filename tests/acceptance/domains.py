"""A VM's definition as libvirtd holds it, read with virsh over plain ssh; and when two of them are equivalent.

virsh does what vgpumgr must not: it dumps with passwords, so that their loss is seen.
"""

from __future__ import annotations

import xml.etree.ElementTree as ET
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.lab_fixtures import Lab

OURS = "{urn:vgpumgr:domain:2}vgpumgr"
VNC_PASSWORD = "geheim"


def dump(lab: Lab, host: str, vm: str) -> str:
    """The inactive definition, with what libvirt keeps secret."""
    return lab.must(host, "virsh", "dumpxml", "--inactive", "--security-info", vm)


def define(lab: Lab, host: str, document: str) -> None:
    lab.must(host, "cat > /root/define.xml && virsh define /root/define.xml && rm /root/define.xml", text=document)


def settle(lab: Lab, host: str, vm: str) -> str:
    """Define a VM once as it is: libvirt orders the controllers of a new one at its first re-parse. The baseline."""
    define(lab, host, dump(lab, host, vm))
    return dump(lab, host, vm)


def new_vm(name: str, *, machine: str = "q35") -> str:
    """The document of a VM with a VNC password."""
    return f"""<domain type='qemu'>
  <name>{name}</name>
  <memory unit='MiB'>64</memory>
  <vcpu>1</vcpu>
  <os><type arch='x86_64' machine='{machine}'>hvm</type></os>
  <on_poweroff>destroy</on_poweroff>
  <devices>
    <graphics type='vnc' port='-1' autoport='yes' passwd='{VNC_PASSWORD}'/>
    <memballoon model='none'/>
  </devices>
</domain>
"""


def hostdevs(document: str) -> dict[str, ET.Element]:
    """Alias → hostdev."""
    found = ET.fromstring(document).findall("devices/hostdev")
    return {_attribute(device, "alias", "name"): device for device in found}


def device_of(hostdev: ET.Element) -> str:
    """What a hostdev names: the mdev's UUID, or the PCI address of the function."""
    address = hostdev.find("source/address")
    assert address is not None
    if hostdev.get("type") == "mdev":
        return address.attrib["uuid"]
    domain, bus, slot, function = (int(address.attrib[key], 16) for key in ("domain", "bus", "slot", "function"))
    return f"{domain:04x}:{bus:02x}:{slot:02x}.{function:x}"


def claim_states(document: str) -> dict[str, str]:
    """Slot → state of our claims."""
    return {claim.attrib["slot"]: claim.attrib["state"] for claim in ET.fromstring(document).iter() if _is_claim(claim)}


def _is_claim(element: ET.Element) -> bool:
    return element.tag == "{urn:vgpumgr:domain:2}claim"


def without_ours(document: str) -> str:
    """The definition without our claims and our devices: what must be left of it after detach."""
    root = ET.fromstring(document)
    metadata = root.find("metadata")
    if metadata is not None:
        for element in metadata.findall(OURS):
            metadata.remove(element)
    devices = _devices(root)
    for device in devices.findall("hostdev"):
        if _attribute(device, "alias", "name").startswith("ua-vgpu"):
            devices.remove(device)
    return ET.tostring(root, encoding="unicode")


def left_behind(before: str, after: str) -> list[str]:
    """The root ports that libvirt added, and that nothing sits on: the only thing that may be new after a detach."""
    known = {_controller(one) for one in ET.fromstring(before).iter("controller")}
    root = ET.fromstring(after)
    occupied = {int(address.attrib["bus"], 16) for address in root.iter("address") if address.get("type") == "pci"}
    return [
        index
        for kind, index in (_controller(one) for one in root.iter("controller") if one.get("model") == "pcie-root-port")
        if (kind, index) not in known and int(index) not in occupied
    ]


def assert_equivalent(before: str, after: str) -> None:
    """Equal but for an empty <metadata/>, the order of controllers, and root ports that libvirt added and nothing uses.

    Guest addresses are part of what is compared, so no device that was there may change its own.
    """
    ignored = left_behind(before, after)
    assert _normal(after, ignored) == _normal(before, ())


def _normal(document: str, ignored_ports: list[str] | tuple[str, ...]) -> list[str]:
    root = ET.fromstring(document)
    metadata = root.find("metadata")
    if metadata is not None and len(metadata) == 0:
        root.remove(metadata)
    devices = _devices(root)
    controllers = devices.findall("controller")
    for controller in controllers:
        devices.remove(controller)
    kept = [one for one in controllers if one.get("type") != "pci" or one.get("index") not in ignored_ports]
    devices[:0] = sorted(kept, key=lambda one: (_controller(one)[0], int(_controller(one)[1])))
    ET.indent(root)
    return ET.canonicalize(ET.tostring(root, encoding="unicode"), strip_text=True).replace("><", ">\n<").splitlines()


def _devices(root: ET.Element) -> ET.Element:
    found = root.find("devices")
    assert found is not None
    return found


def _controller(element: ET.Element) -> tuple[str, str]:
    return element.get("type", ""), element.get("index", "")


def _attribute(element: ET.Element, child: str, name: str) -> str:
    found = element.find(child)
    return "" if found is None else found.get(name, "")
