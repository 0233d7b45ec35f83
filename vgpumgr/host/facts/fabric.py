"""NVSwitches and Fabric Manager.

A guest with a whole GPU has CUDA only if Fabric Manager has activated the GPU's partition. The configuration file, its
FABRIC_MODE and the program's name are from the Fabric Manager User Guide. Nothing here queries Fabric Manager.
"""

import re
from ctypes import byref
from typing import Any, Collection, Optional, Sequence

from ..files import Root, Unknowns, directory, is_there, names_in, read, read_all
from ..protocol.snapshot import FabricFact, FabricManager
from .mig import NOT_THERE
from .pci import DEVICES, Card
from .scheduler import NvmlFailed, ask

CONFIGURATION = "/usr/share/nvidia/nvswitch/fabricmanager.cfg"
PROGRAM = "/usr/bin/nv-fabricmanager"

_PROCESS = "nv-fabricmanager"[:15]  # TASK_COMM_LEN cuts a process's name
_CLASS, _VENDOR = "0x0680", "0x10de"  # other bridge, NVIDIA
_MODE = re.compile(r"\s*FABRIC_MODE\s*=\s*(\d{1,3})\s*")


def read_fabric(
    root: Root, cards: Sequence[Card], processes: Optional[Collection[str]], unknown: Unknowns
) -> FabricFact:
    """What is known of the fabric without asking NVML.

    `processes`: the names of all processes; null if they could not be read.
    """
    gpus = {each.pci for each in cards}.union(*(each.vfs.values() for each in cards))
    return {
        "switches": _count_switches(root, gpus, unknown),
        "manager": _manager(root, processes, unknown),
        "mode": _mode(root, unknown),
    }


def _count_switches(root: Root, gpus: Collection[str], unknown: Unknowns) -> Optional[int]:
    try:
        with directory(root.path(DEVICES)) as devices:
            return sum(_is_switch(devices, name) for name in names_in(root.path(DEVICES)) if name not in gpus)
    except OSError as error:
        unknown.failed("fabric.switches", error)
        return None


def _is_switch(devices: int, address: str) -> bool:
    try:
        return read(address + "/class", devices)[:6] == _CLASS and read(address + "/vendor", devices) == _VENDOR
    except OSError:  # a function that is going away, or of which nothing can be read: find_cards says so
        return False


def _manager(root: Root, processes: Optional[Collection[str]], unknown: Unknowns) -> Optional[FabricManager]:
    if processes is None:  # `handles` has the reason
        return None
    if _PROCESS in processes:
        return "running"
    try:
        return "stopped" if is_there(root.path(PROGRAM)) else "absent"
    except OSError as error:
        unknown.failed("fabric.manager", error)
        return None


def _mode(root: Root, unknown: Unknowns) -> Optional[int]:
    """The mode in the last FABRIC_MODE line, which is what counts; null if the file or such a line is missing."""
    try:
        lines = read_all(root.path(CONFIGURATION)).decode("utf-8", "replace").splitlines()
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        unknown.failed("fabric.mode", error)
        return None
    modes = [int(match[1]) for match in map(_MODE.fullmatch, lines) if match is not None]
    return modes[-1] if modes else None


def is_on_fabric(nvml: Any, handle: Any) -> bool:
    """Whether NVML says that the GPU is on a fabric, whatever its state there. Raises NvmlFailed."""
    info = nvml.c_nvmlGpuFabricInfo_v2_t()
    try:
        ask(nvml, "nvmlDeviceGetGpuFabricInfoV", handle, byref(info))
    except NvmlFailed as error:
        if error.code in NOT_THERE:  # before Hopper, and before R535
            return False
        raise
    return bool(info.state & 0xFF)  # a byte in nvml.h; 0 is NVML_GPU_FABRIC_STATE_NOT_SUPPORTED
