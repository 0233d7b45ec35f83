"""The meaning of log lines of the kernel, nvidia-vgpud and nvidia-vgpu-mgr, as far as it is known.

Sources, by the letter in each row: X NVIDIA's Xid catalogue (docs.nvidia.com/deploy/xid-errors). S the open kernel part
of 525.85.07 (nvidia-vgpu-vfio). R open-gpu-kernel-modules 595. K the kernel's drivers/pci/iov.c. Public reports: G
NVIDIA/gpu-operator #527, U DualCoder/vgpu_unlock #110, H kernel/hypeman (docs/GPU.md), V a V100 in equal-size mode
(R535), C CubeCOS with an RTX PRO 6000 in MIG mode (R580), D a diagnosis of mdevs that a killed QEMU left, N
mrzenc/vgpu4nixos #4, P nvidia-vgpud on a card without vGPU.
"""

from __future__ import annotations

import re
from typing import Final

_Rows = tuple[tuple[str, str, str], ...]

# What lasts until somebody does something about it.
_LASTING: Final[_Rows] = (
    (r"Xid \(PCI:\S+\): 79\b", "X", "the GPU has fallen off the bus: it takes a reboot of the host, or a power cycle"),
    (r"Xid \(PCI:\S+\): (48|94|95)\b", "X", "its memory has an error that cannot be corrected: reset or replace it"),
    (r"Xid \(PCI:\S+\): (119|120)\b", "X", "its firmware (GSP) does not answer: it needs a reset"),
    (r"Xid \(PCI:\S+\): 74\b", "X", "an NVLink has failed"),
    (r"VF FLR failed", "D", "the function could not be reset: it stays unusable until the host is rebooted"),
    (r"vfio_pci_core_device not found", "H", "the function was unbound from nvidia: turn SR-IOV off and on again"),
    (r"Failed to destroy vGPU device", "S", "a vGPU was removed while it was in use, and the driver has lost it"),
    (r"RmInitAdapter failed", "R", "the driver cannot start the GPU"),
    (r"API mismatch", "R", "the driver was updated, but the old module is loaded: reboot the host"),
    (r"not enough MMIO resources for SR-IOV", "K", "the firmware gave the card too little: Above 4G Decoding, SR-IOV"),
    (r"Failed to initialize RM client", "N", "nvidia-vgpu-mgr does not find the driver that it belongs to"),
    (r"failed to send vGPU configuration info to RM", "P", "nvidia-vgpud gave up: the GPUs get no vGPU types from it"),
)
# Why one step was refused.
_OF_A_STEP: Final[_Rows] = (
    (r"vgpu create request: 0x38\b", "C", "no GPU instance there fits the type"),
    (r"vgpu create request: 0x56\b", "V", "not possible beside the vGPUs there: another size, or the GPU is full"),
    (r"start failed\. status: \S+ Timeout", "G", "nvidia-vgpu-mgr did not answer: is it running?"),
    (r"start failed\. status: ", "U", "the vGPU's plugin could not start it; nvidia-vgpu-mgr's own lines say why"),
    (r"No vGPU exists on current device", "S", "there was no vGPU any more: something else removed it"),
)
_KNOWN: Final = (*_LASTING, *_OF_A_STEP)
_MEANINGS: Final = tuple((re.compile(pattern, re.IGNORECASE), text) for pattern, _, text in _KNOWN)


def meaning(line: str) -> str | None:
    """What a line means, if that is known."""
    return next((text for pattern, text in _MEANINGS if pattern.search(line)), None)


def lasting(line: str) -> str | None:
    """What a line means, if its cause lasts until a reboot, or until somebody removes it; else None."""
    return next((text for pattern, text in _MEANINGS[: len(_LASTING)] if pattern.search(line)), None)
