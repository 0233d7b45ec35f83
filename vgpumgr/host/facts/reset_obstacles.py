"""What may keep nvidia-smi from resetting a GPU: a process that has it open, persistence mode, NVLink.

From nvidia-smi's manual page (595): before Ampere, and on NVSwitch systems without Fabric Manager, all GPUs that NVLink
connects are reset in one command. nvidia-persistenced's persistence mode holds the GPU, too (NVSentinel, issue 1690).
"""

import os
from contextlib import suppress
from typing import Any, Callable, List, Set

from ..files import Root
from .clients import open_in
from .pci import INFORMATION
from .scheduler import NvmlFailed, ask, opened

_LINKS = 36  # NVML_NVLINK_MAX_LINKS (nvml.h 13)


def in_the_way(root: Root, load_nvml: Callable[[], Any], address: str) -> List[str]:
    """A sentence for each obstacle. They only explain a failure, so what cannot be read is left out."""
    lines = open_in(root, address)
    with suppress(NvmlFailed, OSError, ImportError), opened(load_nvml) as nvml:
        with suppress(NvmlFailed):
            if ask(nvml, "nvmlDeviceGetPersistenceMode", _handle(nvml, address)):
                turn_off = "nvidia-smi -pm 0 -i {}".format(address)
                lines.append("persistence mode is on and may be what holds the GPU; `{}` turns it off".format(turn_off))
        peers = _peers(nvml, address, os.listdir(root.path(INFORMATION)))
        if peers:
            lines.append("NVLink connects the GPU to {}".format(", ".join(peers)))
    return lines


def _peers(nvml: Any, address: str, gpus: List[str]) -> List[str]:
    """The GPUs that NVLink connects to this one, directly or through an NVSwitch."""
    mine = _ends(nvml, address)
    return sorted(gpu for gpu in gpus if gpu != address and (gpu in mine or mine & _ends(nvml, gpu)))


def _ends(nvml: Any, address: str) -> Set[str]:
    """The PCI addresses of the GPUs and NVSwitches at the other ends of the GPU's active links."""
    handle, addresses = _handle(nvml, address), set()
    for link in range(_LINKS):
        # The board may have fewer links, and what is at a link's end may have no address.
        with suppress(NvmlFailed, ValueError):
            if ask(nvml, "nvmlDeviceGetNvLinkState", handle, link):
                addresses.add(_sysfs_address(ask(nvml, "nvmlDeviceGetNvLinkRemotePciInfo", handle, link).busId))
    return addresses


def _handle(nvml: Any, address: str) -> Any:
    return ask(nvml, "nvmlDeviceGetHandleByPciBusId", address)


def _sysfs_address(bus_id: Any) -> str:
    """0000:81:00.0 for NVML's 00000000:81:00.0."""
    text = bus_id.decode() if isinstance(bus_id, bytes) else str(bus_id)
    domain, _, rest = text.lower().partition(":")
    return "{:04x}:{}".format(int(domain, 16), rest)
