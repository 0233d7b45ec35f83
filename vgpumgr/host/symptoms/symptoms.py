"""The symptoms of a host: its NVIDIA functions, their drivers and modules, and what the other files here read."""

import os
import re
import time
from typing import List, Optional

from ..facts.driver_log import of_this_boot
from ..facts.gpu import SRIOV_MANAGE
from ..facts.pci import CLASSES, DEVICES, VENDOR
from ..files import Root, Unknowns, directory, link_name, names_in, optional_names, read
from ..protocol.symptoms import FunctionFact, ModuleVersionFact, Symptoms
from .clients import read_clients
from .guests import read_on_shutdown
from .mdevctl import read_definitions
from .units import read_units

_MODULES = ("nvidia", "nvidia_vgpu_vfio", "nouveau", "nova_core")
_LIBRARIES = ("/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu", "/usr/lib64", "/usr/lib")
_LIBRARY = re.compile(r"libnvidia-ml\.so\.(\d{3,4}(?:\.\d{1,4}){1,2})")


def read_symptoms(root: Root) -> Symptoms:
    unknown = Unknowns()
    return {
        "functions": _functions(root, unknown),
        "modules": _modules(root, unknown),
        "library": _library(root),
        "host_driver": os.path.exists(root.path(SRIOV_MANAGE)),
        "units": read_units(root, unknown),
        "clients": read_clients(root, unknown),
        "definitions": read_definitions(root, unknown),
        "on_shutdown": read_on_shutdown(root, unknown),
        "log": of_this_boot(root),
        "clock": int(time.time()),
        "unknown": unknown.rows,
    }


def _functions(root: Root, unknown: Unknowns) -> List[FunctionFact]:
    facts: List[FunctionFact] = []
    try:
        with directory(root.path(DEVICES)) as devices:
            for address in sorted(os.listdir(devices)):
                try:
                    fact = _function(devices, address)
                except OSError as error:
                    unknown.failed("functions[{}]".format(address), error)
                    continue
                if fact is not None:
                    facts.append(fact)
    except OSError as error:
        unknown.failed("functions", error)
    return facts


def _function(devices: int, address: str) -> Optional[FunctionFact]:
    if read(address + "/vendor", devices) != VENDOR or read(address + "/class", devices)[:6] not in CLASSES:
        return None
    with directory(address, devices) as function:
        names = os.listdir(function)
        vfs = read("sriov_totalvfs", function) if "sriov_totalvfs" in names else ""
        return {
            "pci": address,
            "pci_id": "{}:{}".format(VENDOR[2:], read("device", function)[2:].lower()),
            "physfn": link_name("physfn", function) if "physfn" in names else None,
            "driver": link_name("driver", function) if "driver" in names else None,
            "total_vfs": int(vfs) if vfs.isdigit() else None,
            "iommu_group": "iommu_group" in names,
        }


def _modules(root: Root, unknown: Unknowns) -> Optional[List[ModuleVersionFact]]:
    facts: List[ModuleVersionFact] = []
    for name in _MODULES:
        folder = root.path("/sys/module/" + name)
        try:
            names = optional_names(folder)
            if names is not None:
                version = read(folder + "/version") if "version" in names else None
                facts.append({"name": name, "version": version})
        except OSError as error:
            unknown.failed("modules", error)
            return None
    return facts


def _library(root: Root) -> Optional[str]:
    """The version in the name of NVML's library, which the packages of the driver's programs install.

    Null if there is no such library, or more than one.
    """
    for folder in _LIBRARIES:
        try:
            names = names_in(root.path(folder))
        except OSError:
            continue
        found = [match[1] for match in map(_LIBRARY.fullmatch, names) if match is not None]
        if found:
            return found[0] if len(found) == 1 else None
    return None
