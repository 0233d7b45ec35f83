"""PCI functions in /sys: the files that libvirt's nodedev, lspci and the host program read."""

from __future__ import annotations

import errno
import struct
from typing import TYPE_CHECKING

from vgpumgr.lab.driver import answers, ill_host, kstrto
from vgpumgr.lab.driver.addresses import vf_pci
from vgpumgr.lab.driver.errors import os_error
from vgpumgr.lab.sysfs.nodes import binary, constant, text_file

if TYPE_CHECKING:
    from collections.abc import Collection

    from vgpumgr.lab.driver.model import Gpu
    from vgpumgr.lab.sysfs.nodes import Builder

VENDOR = 0x10DE
_SUBSYSTEM = 0x145A  # any number does
_CLASS = 0x030200  # 3D controller
_REVISION = 0xA1
_CONFIG_BYTES = 256
_CAPABILITY_LIST = 0x10  # PCI_STATUS_CAP_LIST
_EXPRESS_AT = 0x40
_EXPRESS = struct.pack("<BBH", 0x10, 0, 0x0002)  # PCI_CAP_ID_EXP, the last one, an endpoint of version 2
_CPUS = 16  # of each NUMA node


def device_path(pci: str) -> str:
    """The function's directory; each card is on its own root bus."""
    return f"/devices/pci{pci.rpartition(':')[0]}/{pci}"


def build(builder: Builder, gpu: Gpu, faults: Collection[str]) -> None:
    """Add the physical function and, if SR-IOV is on, its virtual functions."""
    top = device_path(gpu.pci)
    _function(builder, gpu, gpu.pci, gpu.first_group, faults)
    if not gpu.board.vfs or ill_host.SRIOV_OFF in faults:
        return
    for folder in answers.of(faults, "pf-files", "").split():
        builder.put(f"{top}/{folder}otherwise", constant(""))
    builder.put(f"{top}/sriov_totalvfs", constant(str(gpu.board.vfs)))
    builder.put(
        f"{top}/sriov_numvfs",
        text_file(lambda: f"{gpu.board.vfs if gpu.vfs_on else 0}\n", lambda text: _write_numvfs(gpu, text)),
    )
    builder.put(f"{top}/sriov_offset", constant(str(gpu.board.vf_offset)))
    builder.put(f"{top}/sriov_stride", constant("1"))
    builder.put(f"{top}/sriov_vf_device", constant(f"{gpu.board.pci_device_id:x}"))
    builder.put(f"{top}/sriov_drivers_autoprobe", constant("1"))
    if not gpu.vfs_on or ill_host.driver_of(faults, gpu.pci) != ill_host.NVIDIA:
        return
    for vf in range(gpu.board.vfs):
        address = vf_pci(gpu, vf)
        _function(builder, gpu, address, gpu.first_group + 1 + vf, faults)
        builder.link(f"{top}/virtfn{vf}", device_path(address))
        builder.link(f"{device_path(address)}/physfn", top)


def build_switch(builder: Builder, number: int) -> None:
    """Add an NVSwitch of an HGX H100 baseboard (10de:22a3).

    The switches are on a bus of their own, where no GPU is; `number` is this one's device there.
    """
    top = device_path(f"0000:07:{number:02x}.0")
    for name, text in {"vendor": f"0x{VENDOR:04x}", "device": "0x22a3", "class": "0x068000"}.items():
        builder.put(f"{top}/{name}", constant(text))
    uevent = f"PCI_CLASS=68000\nPCI_ID={VENDOR:04X}:22A3\nPCI_SLOT_NAME={top.rpartition('/')[2]}\n"
    builder.put(f"{top}/uevent", text_file(lambda: uevent, lambda _: None))
    builder.put(f"{top}/config", binary(_config(0x22A3)))
    builder.link(f"{top}/subsystem", "/bus/pci")
    builder.link(f"/bus/pci/devices/{top.rpartition('/')[2]}", top)


def _function(builder: Builder, gpu: Gpu, address: str, group: int, faults: Collection[str]) -> None:
    top, driver = device_path(address), ill_host.driver_of(faults, address)
    device = gpu.board.pci_device_id
    modalias = (
        f"pci:v{VENDOR:08X}d{device:08X}sv{VENDOR:08X}sd{_SUBSYSTEM:08X}"
        f"bc{_CLASS >> 16:02X}sc{_CLASS >> 8 & 0xFF:02X}i{_CLASS & 0xFF:02X}"
    )
    uevent = (
        f"DRIVER={driver}\nPCI_CLASS={_CLASS:X}\nPCI_ID={VENDOR:04X}:{device:04X}\n"
        f"PCI_SUBSYS_ID={VENDOR:04X}:{_SUBSYSTEM:04X}\nPCI_SLOT_NAME={address}\nMODALIAS={modalias}\n"
    )
    constants = {
        "vendor": f"0x{VENDOR:04x}",
        "device": f"0x{device:04x}",
        "subsystem_vendor": f"0x{VENDOR:04x}",
        "subsystem_device": f"0x{_SUBSYSTEM:04x}",
        "class": f"0x{_CLASS:06x}",
        "revision": f"0x{_REVISION:02x}",
        "irq": "0",
        "enable": "1",
        "numa_node": str(gpu.numa_node),
        "local_cpulist": f"{_CPUS * gpu.numa_node}-{_CPUS * (gpu.numa_node + 1) - 1}",
        "modalias": modalias,
        "resource": "\n".join(["0x0000000000000000 0x0000000000000000 0x0000000000000000"] * 13),
    }
    for name, text in constants.items():
        builder.put(f"{top}/{name}", constant(text))
    # A write asks the kernel to send the event again (udevadm trigger); nobody listens here.
    builder.put(f"{top}/uevent", text_file(lambda: uevent, lambda _: None))
    builder.put(f"{top}/config", binary(_config(device)))
    builder.link(f"{top}/subsystem", "/bus/pci")
    builder.link(f"/bus/pci/devices/{address}", top)
    if driver is not None:
        builder.link(f"{top}/driver", f"/bus/pci/drivers/{driver}")
        builder.link(f"/bus/pci/drivers/{driver}/{address}", top)
    if ill_host.IOMMU_OFF in faults:
        return
    builder.link(f"{top}/iommu_group", f"/kernel/iommu_groups/{group}")
    builder.link(f"/kernel/iommu_groups/{group}/devices/{address}", top)
    builder.put(f"/kernel/iommu_groups/{group}/type", constant("DMA-FQ"))


def _config(device: int) -> bytes:
    """The configuration space's standard header (PCI 3.0, 6.1) and the PCI Express capability.

    The capability decides where libvirt puts the function in a q35 guest: on a root port, or behind a PCI bridge.
    """
    status = _CAPABILITY_LIST
    head = struct.pack("<HHHHB3sBBBB", VENDOR, device, 0, status, _REVISION, _CLASS.to_bytes(3, "little"), 0, 0, 0, 0)
    tail = struct.pack("<HHIB", VENDOR, _SUBSYSTEM, 0, _EXPRESS_AT)
    return ((head.ljust(0x2C, b"\0") + tail).ljust(_EXPRESS_AT, b"\0") + _EXPRESS).ljust(_CONFIG_BYTES, b"\0")


def _write_numvfs(gpu: Gpu, text: str) -> None:
    """Refuse a write to sriov_numvfs, as with a real card: there, sriov-manage switches SR-IOV on.

    Writing the present number is accepted. Raises OSError: first the kernel's own checks (drivers/pci/iov.c), then
    ENOENT.
    """
    number = kstrto.unsigned(text, 16)
    if number > gpu.board.vfs:
        raise os_error(errno.ERANGE)
    if number == (gpu.board.vfs if gpu.vfs_on else 0):
        return
    # The kernel's answer if the driver offers no sriov_configure. NVIDIA's does not: its sriov-manage binds the card to
    # pci-pf-stub for this.
    raise os_error(errno.ENOENT)
