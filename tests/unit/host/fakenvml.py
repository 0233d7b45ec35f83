"""pynvml's functions as the host program uses them, over a driver that keeps nvml.h's rules for the scheduler.

Its scheduler lives in a file, so that it outlives a host program that is killed; what is on the GPUs it reads off the
fake host. The structures are pynvml's own.
"""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pynvml

from tests.unit.host.fakehost import GPU_A, GPU_B, MDEV, UUID_A, UUID_B, VM

if TYPE_CHECKING:
    from pathlib import Path

    from tests.unit.host.fakehost import FakeHost

GRAPHICS = 1
VIDEO = (2, 3)
BEST_EFFORT, EQUAL_SHARE, FIXED_SHARE = 1, 2, 3
CAPS = {
    "supportedSchedulers": (1, 2, 3),
    "maxTimeslice": 30_000_000,
    "minTimeslice": 1_000_000,
    "isArrModeSupported": 1,
    "maxFrequencyForARR": 960,
    "minFrequencyForARR": 63,
    "maxAvgFactorForARR": 60,
    "minAvgFactorForARR": 1,
}


class FakeNvml:
    """Two GPUs; `fail` maps a function to the error number it raises; 0: it does nothing, and says that it did.

    `api` 1: a driver without the `_v2` calls. `video`: which engines there are besides graphics. `video_takes`: they take
    any policy, not best effort alone. `host`: where the driver sees its vGPUs, and keeps its scheduler.
    """

    NVMLError = pynvml.NVMLError

    def __init__(
        self,
        *,
        mig: int = 0,
        mixed: int = 0,
        fabric: int = 0,
        active: int = 0,
        api: int = 1,
        video: tuple[int, ...] = VIDEO,
        video_takes: bool = False,
        host: FakeHost | None = None,
        caps: dict[str, Any] | None = None,
        **fail: int,
    ) -> None:
        self.fail = fail
        self.opened = 0
        self.calls: list[str] = []
        self.answers: dict[str, Any] = {
            "nvmlInit": lambda: self._open(1),
            "nvmlShutdown": lambda: self._open(-1),
            "nvmlSystemGetNVMLVersion": lambda: "12.570.133",
            "nvmlDeviceGetHandleByPciBusId": lambda pci: pci,
            "nvmlDeviceGetMemoryInfo": lambda pci: SimpleNamespace(total=46068 << 20),
            "nvmlDeviceGetTemperature": lambda pci, sensor: {pynvml.NVML_TEMPERATURE_GPU: 47}[sensor],
            "nvmlDeviceGetPowerUsage": lambda pci: 118_250,
            "nvmlDeviceGetUUID": lambda pci: {GPU_A: UUID_A, GPU_B: UUID_B}[pci],
            "nvmlDeviceGetName": lambda pci: "NVIDIA A40",
            "nvmlDeviceGetMigMode": lambda pci: [mig, mig],
            "nvmlDeviceGetGpuFabricInfoV": lambda pci, info: setattr(info._obj, "state", fabric),
            "nvmlDeviceGetVgpuHeterogeneousMode": lambda pci: mixed,
            "nvmlDeviceGetSupportedVgpus": lambda pci: [562, 560],
            "nvmlDeviceGetCreatableVgpus": lambda pci: [562, 560],
            "nvmlDeviceGetVgpuTypeCreatablePlacements": lambda pci, number, version: {
                560: (4, [32, 36]),
                562: (8, [24, 40]),
            }[number],
            "nvmlVgpuTypeGetName": lambda number: f"NVIDIA A40-{ {560: 4, 562: 8}[number] }Q",
            "nvmlVgpuTypeGetFramebufferSize": lambda number: {560: 4096, 562: 8192}[number] << 20,
            "nvmlVgpuTypeGetMaxInstances": lambda pci, number: {560: 12, 562: 6}[number],
            "nvmlDeviceGetActiveVgpus": lambda pci: [3251634213] if active and pci == GPU_A else [],
            "nvmlVgpuInstanceGetVmID": lambda instance: (VM.upper(), 1),
            "nvmlVgpuInstanceGetMdevUUID": lambda instance: MDEV,
            "nvmlVgpuInstanceGetType": lambda instance: 560,
            "nvmlDeviceGetVgpuSchedulerCapabilities": self._get_caps,
            "nvmlDeviceGetVgpuSchedulerState": self._get,
            "nvmlDeviceSetVgpuSchedulerState": self._set,
        }
        if api == 2:
            self.answers["nvmlDeviceGetVgpuSchedulerState_v2"] = self._get_v2
            self.answers["nvmlDeviceSetVgpuSchedulerState_v2"] = self._set_v2
        else:
            self.fail.setdefault("nvmlDeviceGetVgpuSchedulerState_v2", pynvml.NVML_ERROR_FUNCTION_NOT_FOUND)
        self.caps = {**CAPS, **(caps or {})}
        self.active = active
        self._mig = mig
        self._engines = (GRAPHICS, *video)
        self._video_takes = video_takes
        self._host = host
        self._memory = "{}"

    def _open(self, step: int) -> None:
        self.opened += step

    def __getattr__(self, name: str) -> Any:
        if name.startswith(("c_nvml", "NVML_")):
            return getattr(pynvml, name)
        if self.fail.get(name) == pynvml.NVML_SUCCESS:
            return lambda *_: pynvml.NVML_SUCCESS
        if name in self.fail:
            return lambda *_: (_ for _ in ()).throw(pynvml.NVMLError(self.fail[name]))
        if name not in self.answers:
            raise AttributeError(name)
        self.calls.append(name)
        return self.answers[name]

    # the driver's scheduler

    @property
    def _file(self) -> Path | None:
        return None if self._host is None else self._host.path("/proc/driver/fake-scheduler")

    def state(self, pci: str = GPU_A, engine: int = GRAPHICS) -> dict[str, int]:
        """What the driver has for one engine: policy, arr, factor, slice (ns), as set."""
        text = self._file.read_text() if self._file and self._file.exists() else self._memory
        default = {"policy": BEST_EFFORT, "arr": 0, "factor": 0, "slice": 0}
        found: dict[str, int] = json.loads(text).get(f"{pci} {engine}", default)
        return found

    def put(self, pci: str, engine: int, **state: int) -> None:
        """Let the driver have this, as another tool would set it."""
        text = self._file.read_text() if self._file and self._file.exists() else self._memory
        self._memory = json.dumps({**json.loads(text), f"{pci} {engine}": {**self.state(pci, engine), **state}})
        if self._file:
            self._file.parent.mkdir(parents=True, exist_ok=True)
            self._file.write_text(self._memory)

    def _get_caps(self, pci: str) -> Any:
        caps = pynvml.c_nvmlVgpuSchedulerCapabilities_t()
        for key, value in self.caps.items():
            setattr(caps, key, value)
        return caps

    def _get(self, pci: str) -> Any:
        self._refuse_mig()
        state, said = self.state(pci), pynvml.c_nvmlVgpuSchedulerGetState_t()
        said.schedulerPolicy = state["policy"]
        said.arrMode = state["arr"]
        if self.active:  # "0 when there is no active scheduling"
            if state["arr"] == pynvml.NVML_VGPU_SCHEDULER_ARR_DISABLE:
                said.schedulerParams.vgpuSchedData.timeslice = state["slice"]
            else:
                said.schedulerParams.vgpuSchedDataWithARR.avgFactor = state["factor"]
                said.schedulerParams.vgpuSchedDataWithARR.timeslice = state["slice"]
        return said

    def _get_v2(self, pci: str, said: Any) -> Any:
        self._refuse_mig()
        if said.engineId not in self._engines:
            raise pynvml.NVMLError(pynvml.NVML_ERROR_INVALID_ARGUMENT)
        state = self.state(pci, said.engineId)
        said.schedulerPolicy = state["policy"]
        said.avgFactor, said.timeslice = (state["factor"], state["slice"]) if self.active else (0, 0)
        return said

    def _set(self, pci: str, wanted: Any) -> None:
        self._refuse_set(pci, GRAPHICS, wanted.schedulerPolicy)
        if wanted.enableARRMode == pynvml.NVML_VGPU_SCHEDULER_ARR_DISABLE:
            self._take(
                pci, GRAPHICS, wanted, arr=1, factor=0, time_slice=wanted.schedulerParams.vgpuSchedData.timeslice
            )
            return
        data = wanted.schedulerParams.vgpuSchedDataWithARR
        self._take_arr(pci, GRAPHICS, wanted, arr=wanted.enableARRMode, factor=data.avgFactor, frequency=data.frequency)

    def _set_v2(self, pci: str, wanted: Any) -> None:
        if wanted.engineId not in self._engines:
            raise pynvml.NVMLError(pynvml.NVML_ERROR_INVALID_ARGUMENT)
        self._refuse_set(pci, wanted.engineId, wanted.schedulerPolicy)
        self._take_arr(pci, wanted.engineId, wanted, arr=2, factor=wanted.avgFactor, frequency=wanted.frequency)

    def _refuse_set(self, pci: str, engine: int, policy: int) -> None:
        self._refuse_mig()
        if policy not in self.caps["supportedSchedulers"]:
            raise pynvml.NVMLError(pynvml.NVML_ERROR_INVALID_ARGUMENT)
        if engine != GRAPHICS and policy != BEST_EFFORT and not self._video_takes:
            raise pynvml.NVMLError(pynvml.NVML_ERROR_NOT_SUPPORTED)
        if self._vgpu_exists(pci):  # "if any vGPU instance currently exists on the device"
            raise pynvml.NVMLError(pynvml.NVML_ERROR_NOT_SUPPORTED)

    def _refuse_mig(self) -> None:
        if self._mig:
            raise pynvml.NVMLError(pynvml.NVML_ERROR_NOT_SUPPORTED)

    def _vgpu_exists(self, pci: str) -> bool:
        if self._host is None:
            return False
        functions = [self._host.path(self._host.function(f"{pci[:-1]}{number}")) for number in range(8)]
        return any(
            (function / "nvidia/current_vgpu_type").exists()
            and (function / "nvidia/current_vgpu_type").read_text().strip() != "0"
            for function in functions
        ) or any(list(function.glob("*-*-*-*-*")) for function in functions)

    def _take_arr(self, pci: str, engine: int, wanted: Any, *, arr: int, factor: int, frequency: int) -> None:
        low, high = self.caps["minFrequencyForARR"], self.caps["maxFrequencyForARR"]
        clamped = min(max(frequency, low), high) if frequency else 480
        self._take(pci, engine, wanted, arr=arr, factor=factor or 33, time_slice=1_000_000_000 // clamped)

    def _take(self, pci: str, engine: int, wanted: Any, *, arr: int, factor: int, time_slice: int) -> None:
        low, high = self.caps["minTimeslice"], self.caps["maxTimeslice"]
        clamped = min(max(time_slice, low), high) if time_slice else 2_000_000
        self.put(pci, engine, policy=wanted.schedulerPolicy, arr=arr, factor=factor, slice=clamped)
