"""A process that runs all of the host program that speaks to NVML, and says which calls it made.

Arguments: a root that looks like a host, and the PCI addresses of its GPUs. One JSON line: {function: [its answers]}, 0 for
success, else NVML's error number.
"""

from __future__ import annotations

import json
import sys
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from vgpumgr.host.facts import nvml_binding
from vgpumgr.host.facts.facts import observe
from vgpumgr.host.facts.nvml import GpuQuery, read_nvml
from vgpumgr.host.facts.reset_obstacles import in_the_way
from vgpumgr.host.facts.sample import sample
from vgpumgr.host.facts.scheduler import NvmlFailed, ask, opened, set_engine
from vgpumgr.host.files import Root, Unknowns
from vgpumgr.host.protocol.gpu import MDEV_VF
from vgpumgr.host.steps.instance_steps import cut, fill, remove
from vgpumgr.host.steps.mig_gpu import open_gpu, running_in

if TYPE_CHECKING:
    from collections.abc import Callable

    from vgpumgr.host.protocol.steps import SchedulerSetting


class Recorder:
    """The binding, each call of it noted."""

    def __init__(self) -> None:
        self.calls: dict[str, list[int]] = {}

    def __getattr__(self, name: str) -> Any:
        found = getattr(nvml_binding, name)
        return self._noted(name, found) if name.startswith("nvml") else found

    def _noted(self, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any) -> Any:
            try:
                answer = function(*arguments)
            except nvml_binding.NVMLError as error:
                self.calls.setdefault(name, []).append(error.value)
                raise
            self.calls.setdefault(name, []).append(0)
            return answer

        return call


def main(root: Root, gpus: list[str]) -> None:
    nvml, unknown = Recorder(), Unknowns()
    requests = [GpuQuery(pci=pci, types=True, framework=MDEV_VF) for pci in gpus]
    read_nvml(lambda: nvml, requests, unknown)
    sample(root, lambda: nvml, {})
    setting: SchedulerSetting = {
        "policy": "equal-share",
        "arr": None,
        "averaging_factor": None,
        "frequency_hz": None,
        "time_slice_ns": None,
    }
    divide(root, nvml, gpus[0])
    in_the_way(root, lambda: nvml, gpus[0])
    with opened(lambda: nvml):
        for pci in gpus[1:]:  # an empty GPU
            handle = ask(nvml, "nvmlDeviceGetHandleByPciBusId", pci)
            with suppress(NvmlFailed):  # its number is noted
                ask(nvml, "nvmlDeviceSetVgpuHeterogeneousMode", handle, 1)
            with suppress(NvmlFailed):
                ask(nvml, "nvmlDeviceSetMigMode", handle, 1)
            for api in (1, 2):
                with suppress(NvmlFailed):
                    set_engine(nvml, handle, "graphics", setting, api=api)
    print(json.dumps(nvml.calls))  # noqa: T201 -- the answer


def divide(root: Root, nvml: Recorder, pci: str) -> None:
    """Make and remove a GPU instance, and ask who runs in those that are there. Nothing where MIG is off."""
    snapshot = observe(root, lambda: nvml)
    with open_gpu(lambda: nvml, pci) as gpu:
        for found in gpu.found:
            running_in(gpu, found.fact, pci, snapshot)
            fact = found.fact
            with suppress(NvmlFailed):
                made = cut(gpu, fact["profile_id"], fact["start"], fact["size"])
                with suppress(NvmlFailed):
                    fill(gpu, made)
                remove(gpu, made)


if __name__ == "__main__":
    main(Root(sys.argv[1]), sys.argv[2:])
