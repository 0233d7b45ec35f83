"""A copy of what NVIDIA's driver shows on a host: its files, and NVML's answers. Nothing here writes."""

import os
import time
from contextlib import suppress
from glob import escape, glob
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
_FILES = ("sriov_totalvfs", "sriov_numvfs", "sriov_offset", "sriov_stride", "nvidia/*", TYPES + "/*/*")


def capture(root: Root, load_nvml: Callable[[], Any], pause: Callable[[float], None] = time.sleep) -> Capture:
    """The snapshot, and what it was read from. The caller holds the host's lock."""
    calls: List[NvmlCall] = []

    def load() -> Any:
        return Recorder(load_nvml(), calls)

    snapshot = observe(root, load, pause=pause)
    cards = find_cards(root, Unknowns())
    paths = [*_HOST_FILES, *("/proc/driver/nvidia/gpus/{}/information".format(card.pci) for card in cards)]
    functions: List[FunctionFiles] = []
    texts: List[Dict[str, str]] = []
    for card in cards:
        for index, pci in [(None, card.pci), *card.vfs.items()]:
            files = _files(root.path("{}/{}".format(DEVICES, pci)))
            if files not in texts:
                texts.append(files)
            functions.append(_function(root, card.pci, pci, index, texts.index(files)))
    for gpu in snapshot["gpus"]:
        _ask_instances(load, gpu)
    host = {path: _text(root.path(path)) for path in paths}
    return {"snapshot": snapshot, "host": host, "functions": functions, "texts": texts, "calls": calls}


def _function(root: Root, gpu: str, pci: str, index: Optional[int], files: int) -> FunctionFiles:
    top = root.path("{}/{}".format(DEVICES, pci))
    driver, group = None, len(optional_names(top + "/iommu_group/devices") or ())
    with suppress(OSError):
        driver = link_name(top + "/driver")
    return {
        "gpu": gpu,
        "pci": pci,
        "vf_index": index,
        "driver": driver,
        "group": group if os.path.lexists(top + "/iommu_group") else None,
        "vfio_devs": len(optional_names(top + "/vfio-dev") or ()),
        "files": files,
    }


def _files(top: str) -> Dict[str, str]:
    """The driver's files below a function, by path, with their texts. A directory's text is the list of its names."""
    paths = sorted(path for pattern in _FILES for path in glob("{}/{}".format(escape(top), pattern)))
    return {path[len(top) + 1 :]: _text(path) for path in paths}


def _text(path: str) -> str:
    """A file's text, or a directory's names, or `!` and the name of the errno."""
    try:
        if os.path.isdir(path):
            return " ".join(sorted(names_in(path)))
        return read_all(path).decode("utf-8", "replace")
    except OSError as error:
        return "!" + errno_name(error.errno or 0)


def _ask_instances(load: Callable[[], Any], gpu: GpuFact) -> None:
    """Ask NVML for the use (GPM) and the scheduler of the GPU's first GPU instance. The answers are only recorded."""
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
