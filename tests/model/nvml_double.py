"""pynvml over the lab's driver: what the host program asks of NVML, answered in this process."""

from __future__ import annotations

import errno
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pynvml

from tests.model.mig_double import MigDouble
from vgpumgr.lab.driver import places, scheduler
from vgpumgr.lab.driver.model import Engine, Policy

if TYPE_CHECKING:
    from tests.model.machine import Machine
    from vgpumgr.lab.driver.model import Gpu, TypeSpec, Vgpu

_MIB = 1 << 20
_BRANCH = 570  # of the driver that the machines have: one scheduler per GPU, by the first calls


class Nvml(MigDouble):
    """Stands for the module. What is not here is not supported, as on a card that cannot do it."""

    def __init__(self, machine: Machine) -> None:
        self._machine = machine
        self._driver = machine.driver

    def __getattr__(self, name: str) -> Any:
        if not name.startswith("nvml"):
            return getattr(pynvml, name)  # its constants, structures and errors

        def refuse(*_: object) -> Any:
            raise pynvml.NVMLError(pynvml.NVML_ERROR_NOT_SUPPORTED)

        return refuse

    def nvmlInit(self) -> None: ...  # noqa: N802 -- pynvml's names, here and below

    def nvmlShutdown(self) -> None: ...  # noqa: N802

    def nvmlSystemGetNVMLVersion(self) -> str:  # noqa: N802
        return "12.570.172"

    def nvmlDeviceGetHandleByPciBusId(self, pci: str) -> Gpu:  # noqa: N802
        return self._driver.gpu(pci)

    def nvmlDeviceGetMemoryInfo(self, gpu: Gpu) -> Any:  # noqa: N802
        return SimpleNamespace(total=gpu.board.framebuffer_mib * _MIB)

    def nvmlDeviceGetUUID(self, gpu: Gpu) -> str:  # noqa: N802
        return gpu.uuid

    def nvmlDeviceGetGpuFabricInfoV(self, gpu: Gpu, info: Any) -> None:  # noqa: N802
        info._obj.state = gpu.fabric

    def nvmlDeviceGetVgpuHeterogeneousMode(self, gpu: Gpu) -> int:  # noqa: N802
        return int(gpu.mixed)

    def nvmlDeviceSetVgpuHeterogeneousMode(self, gpu: Gpu, wanted: int) -> None:  # noqa: N802
        try:
            self._driver.set_mixed(gpu.pci, mixed=bool(wanted))
        except OSError as error:
            busy = error.errno == errno.EBUSY
            code = pynvml.NVML_ERROR_IN_USE if busy else pynvml.NVML_ERROR_NOT_SUPPORTED
            raise pynvml.NVMLError(code) from error

    def nvmlDeviceGetCreatableVgpus(self, gpu: Gpu) -> list[int]:  # noqa: N802
        return list(self._driver.creatable(gpu.pci))

    def nvmlDeviceGetVgpuTypeCreatablePlacements(self, gpu: Gpu, number: int, _version: int) -> Any:  # noqa: N802
        kind = self._type(number)
        return places.slots(gpu.board, kind), list(places.free(gpu, kind))

    def nvmlDeviceGetName(self, gpu: Gpu) -> str:  # noqa: N802
        return gpu.board.name

    def nvmlDeviceGetSupportedVgpus(self, gpu: Gpu) -> list[int]:  # noqa: N802
        return [kind.id for kind in gpu.board.all_types]

    def nvmlVgpuTypeGetName(self, number: int) -> str:  # noqa: N802
        return self._type(number).name

    def nvmlVgpuTypeGetFramebufferSize(self, number: int) -> int:  # noqa: N802
        return self._figures(number)[0] * _MIB

    def nvmlVgpuTypeGetMaxInstances(self, gpu: Gpu, number: int) -> int:  # noqa: N802
        del gpu
        return self._figures(number)[1]

    def nvmlDeviceGetActiveVgpus(self, gpu: Gpu) -> list[int]:  # noqa: N802
        return [vgpu.instance for vgpu in gpu.vgpus if vgpu.holder_uuid is not None]

    def nvmlVgpuInstanceGetVmID(self, instance: int) -> tuple[str | None, int]:  # noqa: N802
        return self._vgpu(instance).holder_uuid, pynvml.NVML_VGPU_VM_ID_UUID

    def nvmlVgpuInstanceGetMdevUUID(self, instance: int) -> str:  # noqa: N802
        uuid = self._vgpu(instance).uuid
        if uuid is None:
            raise pynvml.NVMLError(pynvml.NVML_ERROR_NOT_SUPPORTED)
        return uuid

    def nvmlVgpuInstanceGetType(self, instance: int) -> int:  # noqa: N802
        return self._vgpu(instance).type.id

    # how a GPU's time is shared

    def nvmlDeviceGetVgpuSchedulerCapabilities(self, gpu: Gpu) -> Any:  # noqa: N802
        del gpu
        caps, told = scheduler.caps(_BRANCH), pynvml.c_nvmlVgpuSchedulerCapabilities_t()
        for at, policy in enumerate(Policy):
            told.supportedSchedulers[at] = policy
        told.isArrModeSupported = caps.arr
        told.minTimeslice, told.maxTimeslice = caps.min_time_slice_ns, caps.max_time_slice_ns
        told.minFrequencyForARR, told.maxFrequencyForARR = caps.min_frequency_hz, caps.max_frequency_hz
        told.minAvgFactorForARR, told.maxAvgFactorForARR = caps.min_factor, caps.max_factor
        return told

    def nvmlDeviceGetVgpuSchedulerState_v2(self, gpu: Gpu, wanted: Any) -> Any:  # noqa: N802
        raise pynvml.NVMLError(pynvml.NVML_ERROR_FUNCTION_NOT_FOUND)

    def nvmlDeviceGetVgpuSchedulerState(self, gpu: Gpu) -> Any:  # noqa: N802
        found, told = scheduler.reading(gpu, Engine.GRAPHICS), pynvml.c_nvmlVgpuSchedulerGetState_t()
        told.schedulerPolicy, told.arrMode = found.policy, found.arr
        if found.arr == scheduler.ARR_ON:
            told.schedulerParams.vgpuSchedDataWithARR.avgFactor = found.factor
            told.schedulerParams.vgpuSchedDataWithARR.timeslice = found.time_slice_ns
        else:
            told.schedulerParams.vgpuSchedData.timeslice = found.time_slice_ns
        return told

    def nvmlDeviceSetVgpuSchedulerState(self, gpu: Gpu, wanted: Any) -> None:  # noqa: N802
        plain = wanted.enableARRMode == scheduler.ARR_OFF
        adaptive = wanted.schedulerParams.vgpuSchedDataWithARR
        order = scheduler.Order(
            policy=wanted.schedulerPolicy,
            arr=wanted.enableARRMode,
            factor=0 if plain else adaptive.avgFactor,
            frequency_hz=0 if plain else adaptive.frequency,
            time_slice_ns=wanted.schedulerParams.vgpuSchedData.timeslice if plain else 0,
        )
        try:
            self._driver.set_scheduler(gpu.pci, order)
        except OSError as error:
            code = (
                pynvml.NVML_ERROR_INVALID_ARGUMENT if error.errno == errno.EINVAL else pynvml.NVML_ERROR_NOT_SUPPORTED
            )
            raise pynvml.NVMLError(code) from error

    def _figures(self, number: int) -> tuple[int, int]:
        """A type's size and maximum; not supported where the driver gives none."""
        kind = self._type(number)
        size, most = self._machine.figures.get(number, (kind.framebuffer_mib, kind.max_instances))
        if size is None or most is None:
            raise pynvml.NVMLError(pynvml.NVML_ERROR_NOT_SUPPORTED)
        return size, most

    def _type(self, number: int) -> TypeSpec:
        with self._driver.reading() as state:
            return next(kind for gpu in state.gpus for kind in gpu.board.all_types if kind.id == number)

    def _vgpu(self, instance: int) -> Vgpu:
        with self._driver.reading() as state:
            return next(vgpu for gpu in state.gpus for vgpu in gpu.vgpus if vgpu.instance == instance)
