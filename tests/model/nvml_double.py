"""pynvml over the lab's driver: what the host program asks of NVML, answered in this process."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pynvml

if TYPE_CHECKING:
    from vgpumgr.lab.driver import Driver
    from vgpumgr.lab.model import Gpu, TypeSpec, Vgpu

_MIB = 1 << 20


class Nvml:
    """Stands for the module. What is not here is not supported, as on a card that cannot do it."""

    def __init__(self, driver: Driver) -> None:
        self._driver = driver

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

    def nvmlDeviceGetName(self, gpu: Gpu) -> str:  # noqa: N802
        return gpu.board.name

    def nvmlDeviceGetSupportedVgpus(self, gpu: Gpu) -> list[int]:  # noqa: N802
        return [kind.id for kind in gpu.board.types]

    def nvmlVgpuTypeGetName(self, number: int) -> str:  # noqa: N802
        return self._type(number).name

    def nvmlVgpuTypeGetFramebufferSize(self, number: int) -> int:  # noqa: N802
        return self._type(number).framebuffer_mib * _MIB

    def nvmlVgpuTypeGetMaxInstances(self, gpu: Gpu, number: int) -> int:  # noqa: N802
        del gpu
        return self._type(number).max_instances

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

    def _type(self, number: int) -> TypeSpec:
        with self._driver.reading() as state:
            return next(kind for gpu in state.gpus for kind in gpu.board.types if kind.id == number)

    def _vgpu(self, instance: int) -> Vgpu:
        with self._driver.reading() as state:
            return next(vgpu for gpu in state.gpus for vgpu in gpu.vgpus if vgpu.instance == instance)
