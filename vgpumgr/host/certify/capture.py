"""A copy of what NVIDIA's driver shows on a host: its files, and NVML's answers. Nothing here writes."""

import os
import time
from contextlib import suppress
from typing import Any, Callable, Dict, List, Optional

from ..facts.facts import observe
from ..facts.mdev import TYPES
from ..facts.pci import DEVICES, find_cards
from ..facts.scheduler import NvmlFailed, ask, opened
from ..files import Root, Unknowns, link_name, names_in, optional_names, read_all
from ..protocol.capture import Capture, FunctionFiles, NvmlCall
from ..protocol.gpu import GpuFact
from ..refusal import errno_name
from .recorder import Recorder

_HOST_FILES = ("/proc/driver/nvidia/version", "/proc/driver/nvidia/params")
_INFORMATION = "/proc/driver/nvidia/gpus/{}/information"
_SRIOV = ("sriov_totalvfs", "sriov_numvfs", "sriov_offset", "sriov_stride")


def capture(root: Root, load_nvml: Callable[[], Any], pause: Callable[[float], None] = time.sleep) -> Capture:
    """The snapshot, and what it was read from. The caller holds the host's lock."""
    calls: List[NvmlCall] = []

    def load() -> Any:
        return Recorder(load_nvml(), calls)

    snapshot = observe(root, load, pause=pause)
    host = {path: _text(root.path(path)) for path in _HOST_FILES}
    functions: List[FunctionFiles] = []
    texts: List[Dict[str, str]] = []
    for card in find_cards(root, Unknowns()):
        host[_INFORMATION.format(card.pci)] = _text(root.path(_INFORMATION.format(card.pci)))
        for index, pci in [(None, card.pci), *card.vfs.items()]:
            files = _files(root.path("{}/{}".format(DEVICES, pci)))
            if files not in texts:
                texts.append(files)
            functions.append(_function(root, card.pci, pci, index, texts.index(files)))
    for gpu in snapshot["gpus"]:
        _ask_instances(load, gpu)
    return {"snapshot": snapshot, "host": host, "functions": functions, "texts": texts, "calls": calls}


def _function(root: Root, gpu: str, pci: str, index: Optional[int], files: int) -> FunctionFiles:
    top = root.path("{}/{}".format(DEVICES, pci))
    driver, group = None, optional_names(top + "/iommu_group/devices")
    with suppress(OSError):
        driver = link_name(top + "/driver")
    return {
        "gpu": gpu,
        "pci": pci,
        "vf_index": index,
        "driver": driver,
        "group": None if not os.path.lexists(top + "/iommu_group") else len(group or ()),
        "vfio_devs": len(optional_names(top + "/vfio-dev") or ()),
        "files": files,
    }


def _files(top: str) -> Dict[str, str]:
    """The driver's files below a function, by path, with their texts. A directory's text is the list of its names."""
    found = {name: _text("{}/{}".format(top, name)) for name in _SRIOV if os.path.exists("{}/{}".format(top, name))}
    for name in sorted(optional_names(top + "/nvidia") or ()):
        found["nvidia/" + name] = _text("{}/nvidia/{}".format(top, name))
    for kind in sorted(optional_names("{}/{}".format(top, TYPES)) or ()):
        folder = "{}/{}/{}".format(top, TYPES, kind)
        for name in sorted(optional_names(folder) or ()):
            path = "{}/{}".format(folder, name)
            found["{}/{}/{}".format(TYPES, kind, name)] = (
                " ".join(sorted(names_in(path))) if os.path.isdir(path) else _text(path)
            )
    return found


def _text(path: str) -> str:
    try:
        return read_all(path).decode("utf-8", "replace")
    except OSError as error:
        return "!" + errno_name(error.errno or 0)


def _ask_instances(load: Callable[[], Any], gpu: GpuFact) -> None:
    """Ask what NVML says of a GPU instance: its engines' use (GPM), and its scheduler. Only the record matters."""
    instances = (gpu["mig"]["instances"] if gpu["mig"] is not None else None) or []
    if not instances:
        return
    number = instances[0]["id"]
    with suppress(Exception), opened(load) as nvml:  # whatever a driver or a binding lacks is no answer
        handle = ask(nvml, "nvmlDeviceGetHandleByPciBusId", gpu["pci"])
        sample = ask(nvml, "nvmlGpmSampleAlloc")
        try:
            with suppress(NvmlFailed):
                ask(nvml, "nvmlGpmMigSampleGet", handle, number, sample)
        finally:
            ask(nvml, "nvmlGpmSampleFree", sample)
        query = nvml.c_nvmlVgpuSchedulerStateInfo_v2_t()
        query.engineId = 1
        instance = ask(nvml, "nvmlDeviceGetGpuInstanceById", handle, number)
        ask(nvml, "nvmlGpuInstanceGetVgpuSchedulerState_v2", instance, query)
