"""The program that `lab start` gives libvirt as a VM's emulator: QEMU, with a harmless device in place of each vGPU.

The kernel under a lab has no VFIO, and a guest needs none to be seen as running. libvirt prepares the VM as always;
then this opens each vGPU's /dev/vfio node, as QEMU would, puts a virtio-rng-pci with the same id and guest address in
place of the vfio-pci device, and becomes QEMU (tried with libvirt 9.0 and QEMU 7.2).
"""

from __future__ import annotations

import resource
import xml.etree.ElementTree as ET

PATH = "usr/lib/vgpumgr-lab/qemu-system-x86_64"
PROGRAM = """#!/usr/bin/python3 -IS
import json, os, sys

QEMU = "/usr/bin/qemu-system-x86_64"


def opened(function):
    # The IOMMU group, and a virtual function's own device.
    yield "/dev/vfio/" + os.path.basename(os.readlink(function + "/iommu_group"))
    if os.path.isdir(function + "/vfio-dev") and "/pci/" in function:
        for name in os.listdir(function + "/vfio-dev"):
            yield "/dev/vfio/devices/" + name


def in_its_place(word):
    device = json.loads(word) if word.startswith("{") else {}
    if not str(device.get("driver", "")).startswith("vfio-pci"):
        return word
    for node in opened(device.get("sysfsdev") or "/sys/bus/pci/devices/" + device["host"]):
        os.set_inheritable(os.open(node, os.O_RDWR), True)
    kept = {key: device[key] for key in ("id", "bus", "addr", "multifunction") if key in device}
    return json.dumps({"driver": "virtio-rng-pci", **kept})


words = sys.argv[1:]
for at, word in enumerate(words[:-1]):
    if word == "-device":
        words[at + 1] = in_its_place(words[at + 1])
os.execv(QEMU, [QEMU, *words])
"""
_KIB = 1024
_ENOUGH_KIB = 1024 * 1024


def prepared(document: str) -> str:
    """A VM's definition as `lab start` gives it to libvirt: with this emulator, and with a limit of locked memory.

    By itself libvirt sets that limit to the VM's memory and 1 GiB, and a container may lack CAP_SYS_RESOURCE for that.
    So the definition has a limit that this machine allows.
    """
    domain = ET.fromstring(document)
    emulator = domain.find("./devices/emulator")
    if emulator is None:
        devices = domain.find("./devices")
        assert devices is not None
        emulator = ET.SubElement(devices, "emulator")
    emulator.text = f"/{PATH}"
    _, most = resource.getrlimit(resource.RLIMIT_MEMLOCK)
    if most != resource.RLIM_INFINITY and domain.find("memtune") is None:
        limit = ET.SubElement(ET.SubElement(domain, "memtune"), "hard_limit", unit="KiB")
        limit.text = str(min(most // _KIB, _ENOUGH_KIB))
    return ET.tostring(domain, encoding="unicode")
