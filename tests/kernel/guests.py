"""Guests of a host VM that run: where their devices are, and one that lets go of a device although no system runs in it."""

from __future__ import annotations

import contextlib
import re
import xml.etree.ElementTree as ET
from typing import TYPE_CHECKING

from tests.kernel import seen

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.kernel.vm import Vm

LIKE = "vm04"  # q35, without a vGPU
NATIVE = "native"
# QEMU asks a guest with ACPI hotplug, q35's default, by ACPI. With PCIe's own it asks by the port's button, and a port whose power
# no system has turned on needs no answer (pcie_cap_slot_unplug_request_cb, hw/pci/pcie.c).
_NATIVE_HOTPLUG = (
    "<qemu:commandline xmlns:qemu='http://libvirt.org/schemas/domain/qemu/1.0'><qemu:arg value='-global'/>"
    "<qemu:arg value='ICH9-LPC.acpi-pci-hotplug-with-bridge-support=off'/></qemu:commandline>"
)


def free_ports(document: str) -> list[int]:
    """The buses of the root ports that no device of a definition is on."""
    tree = ET.fromstring(document)
    controllers = tree.iterfind("devices/controller[@model='pcie-root-port']")
    ports = {int(controller.get("index", "0")) for controller in controllers}
    taken = {int(address.get("bus", "0"), 0) for address in tree.iterfind("devices/*/address[@type='pci']")}
    return sorted(ports - taken)


def buses(document: str) -> dict[str, int]:
    """mdev UUID → guest PCI bus."""
    found = {}
    for device in ET.fromstring(document).iterfind("devices/hostdev"):
        source, address = device.find("source/address"), device.find("address")
        assert source is not None
        assert address is not None
        found[source.get("uuid", "")] = int(address.get("bus", "0"), 0)
    return found


def running(vm: Vm, guest: str) -> str:
    """What libvirt says is in the running guest."""
    return vm.must("virsh -q dumpxml", guest)


@contextlib.contextmanager
def native(vm: Vm) -> Iterator[str]:
    """A guest that runs, with PCIe's own hotplug."""
    document = re.sub(r"<uuid>.*?</uuid>|<mac .*?/>", "", seen.definition(vm, LIKE))
    document = document.replace(f"<name>{LIKE}<", f"<name>{NATIVE}<").replace(
        "</domain>", f"{_NATIVE_HOTPLUG}</domain>"
    )
    vm.must("cat >/run/native.xml && virsh -q define /run/native.xml", text=document)
    vm.start_guest(NATIVE)
    yield NATIVE
    vm.ssh(f"virsh -q destroy {NATIVE}; virsh -q undefine {NATIVE}")
