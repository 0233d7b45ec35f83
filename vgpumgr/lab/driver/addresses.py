"""PCI addresses of a card's virtual functions, and the key that identifies a vGPU."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from vgpumgr.lab.driver.model import Gpu, Vgpu


def vf_pci(gpu: Gpu, vf: int) -> str:
    """A VF's address: its routing id is the PF's plus offset plus index (0000:41:00.4 … .7, 0000:41:01.0 …)."""
    domain, number = gpu.pci.partition(":")[0], routing(gpu.pci) + gpu.board.vf_offset + vf
    return f"{domain}:{number >> 8:02x}:{number >> 3 & 0x1F:02x}.{number & 7}"


def routing(pci: str) -> int:
    """A function's routing id: its bus, device and number."""
    _, bus, rest = pci.split(":")
    device, number = rest.split(".")
    return int(bus, 16) << 8 | int(device, 16) << 3 | int(number)


def key_of(gpu: Gpu, vgpu: Vgpu) -> str:
    """The key for Driver.find(): the mdev's UUID; without one the VF's address, and without a VF the GPU's."""
    return vgpu.uuid or (vf_pci(gpu, vgpu.vf) if vgpu.vf is not None else gpu.pci)
