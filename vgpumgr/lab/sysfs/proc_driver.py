"""/proc/driver/nvidia of a simulated host, in the driver's own format; the host's set-up binds it over /proc/driver.

`params` has only those lines of the real file that are used: the module's parameters at the last boot.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from vgpumgr.lab.driver import answers
from vgpumgr.lab.sysfs.nodes import constant

if TYPE_CHECKING:
    from vgpumgr.lab.driver.model import HostState
    from vgpumgr.lab.sysfs.nodes import Builder

TOP = "/kernel/debug/nvlab/proc-driver"


def build(builder: Builder, state: HostState) -> None:
    """Add TOP/nvidia/{version,params,gpus/ADDRESS/…}."""
    module = state.module
    keys = {"RegistryDwords": module.registry_dwords, "RegistryDwordsPerDevice": module.registry_dwords_per_device}
    shown = answers.of(state.faults, "module-params", " ".join(keys)).split()
    builder.put(
        f"{TOP}/nvidia/version",
        constant(
            f"NVRM version: NVIDIA UNIX x86_64 Kernel Module  {state.driver_version}  (vgpumgr lab)\n"
            "GCC version:  gcc version 12.2.0"
        ),
    )
    builder.put(
        f"{TOP}/nvidia/params",
        constant(
            "\n".join(["ResmanDebugLevel: 4294967295", *(f'{key}: "{keys[key]}"' for key in keys if key in shown)])
        ),
    )
    for minor, gpu in enumerate(state.gpus):
        folder = f"{TOP}/nvidia/gpus/{gpu.pci}"
        lines = (
            f"Model: \t\t {gpu.board.name}",
            f"IRQ:   \t\t {150 + minor}",
            f"GPU UUID: \t {gpu.uuid}",
            "Video BIOS: \t ??.??.??.??.??",
            "Bus Type: \t PCIe",
            "DMA Size: \t 47 bits",
            "DMA Mask: \t 0x7fffffffffff",
            f"Bus Location: \t {gpu.pci}",
            f"Device Minor: \t {minor}",
            "GPU Excluded:\t No",
        )
        builder.put(f"{folder}/information", constant("\n".join(lines)))
        builder.put(f"{folder}/registry", constant('Binary: ""'))
        builder.put(f"{folder}/unbindLock", constant("0"))
