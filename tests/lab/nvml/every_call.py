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
from vgpumgr.host.facts.nvml import GpuQuery, read_nvml
from vgpumgr.host.facts.sample import sample
from vgpumgr.host.facts.scheduler import NvmlFailed, ask, opened, set_engine
from vgpumgr.host.files import Root, Unknowns
from vgpumgr.host.protocol import MDEV_VF

if TYPE_CHECKING:
    from collections.abc import Callable

    from vgpumgr.host.protocol import SchedulerSetting


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
    with opened(lambda: nvml):
        for pci in gpus[1:]:  # an empty GPU
            handle = ask(nvml, "nvmlDeviceGetHandleByPciBusId", pci)
            with suppress(NvmlFailed):  # its number is noted
                ask(nvml, "nvmlDeviceSetVgpuHeterogeneousMode", handle, 1)
            for api in (1, 2):
                with suppress(NvmlFailed):
                    set_engine(nvml, handle, "graphics", setting, api=api)
    print(json.dumps(nvml.calls))  # noqa: T201 -- the answer


if __name__ == "__main__":
    main(Root(sys.argv[1]), sys.argv[2:])
