"""pynvml's calls of MIG over the lab's driver."""

from __future__ import annotations

import errno
from contextlib import contextmanager
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, NamedTuple

import pynvml

from vgpumgr.lab.driver import mig

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.model.machine import Machine
    from vgpumgr.lab.driver.model import Gpu, GpuInstance, TypeSpec

_CODES = {
    errno.EOPNOTSUPP: pynvml.NVML_ERROR_NOT_SUPPORTED,
    errno.EINVAL: pynvml.NVML_ERROR_INVALID_ARGUMENT,
    errno.ENOSPC: pynvml.NVML_ERROR_INSUFFICIENT_RESOURCES,
    errno.EBUSY: pynvml.NVML_ERROR_IN_USE,
}
_FIRST_WITH_COUNT = 575  # nvml.h of that branch is the first that has the call
_SLICES = {number: slices for slices, number in mig.COMPUTE_PROFILES.items()}


class Handle(NamedTuple):
    """A GPU instance, or a compute instance in it."""

    pci: str
    serial: int


class MigDouble:
    """The calls; what they change, /sys shows at once. `machine.sick`: nothing can be made or taken away."""

    _machine: Machine

    def nvmlDeviceGetMigMode(self, gpu: Gpu) -> list[int]:  # noqa: N802 -- pynvml's names, here and below
        if gpu.board.mig is None:
            raise pynvml.NVMLError(pynvml.NVML_ERROR_NOT_SUPPORTED)
        return [int(gpu.mig_on), int(gpu.mig_pending)]

    def nvmlDeviceSetMigMode(self, gpu: Gpu, mode: int) -> int:  # noqa: N802
        with self._changing():
            self._machine.driver.set_mig(gpu.pci, on=bool(mode))
        return 0

    def nvmlDeviceGetGpuInstanceProfileInfo(self, gpu: Gpu, number: int) -> Any:  # noqa: N802
        for profile in gpu.board.mig.profiles if gpu.board.mig is not None else ():
            if profile.number == number:
                return SimpleNamespace(
                    id=profile.id,
                    name=f"MIG {profile.name}",
                    sliceCount=profile.slices,
                    memorySizeMB=profile.memory_mib,
                    instanceCount=profile.maximum,
                )
        raise pynvml.NVMLError(pynvml.NVML_ERROR_NOT_SUPPORTED)

    def nvmlDeviceGetGpuInstancePossiblePlacements(self, gpu: Gpu, number: int) -> Any:  # noqa: N802
        profile = mig.profile_of(gpu, number)
        assert profile is not None
        return [SimpleNamespace(start=start, size=profile.size) for start in profile.starts]

    def nvmlDeviceGetGpuInstances(self, gpu: Gpu, number: int) -> list[Handle]:  # noqa: N802
        return [Handle(gpu.pci, one.serial) for one in gpu.instances if one.profile.id == number]

    def nvmlGpuInstanceGetInfo(self, handle: Handle) -> Any:  # noqa: N802
        one = self._instance(handle)
        placement = SimpleNamespace(start=one.start, size=one.profile.size)
        return SimpleNamespace(id=one.id, profileId=one.profile.id, placement=placement)

    def nvmlGpuInstanceGetComputeInstanceProfileInfo(self, handle: Handle, number: int, _engine: int) -> Any:  # noqa: N802
        if _SLICES.get(number, 8) > self._instance(handle).profile.slices:
            raise pynvml.NVMLError(pynvml.NVML_ERROR_NOT_SUPPORTED)
        return SimpleNamespace(id=number, sliceCount=_SLICES[number])

    def nvmlGpuInstanceGetComputeInstances(self, handle: Handle, number: int) -> list[Handle]:  # noqa: N802
        there = self._instance(handle).compute
        return [Handle(handle.pci, one.serial) for one in there if one.slices == _SLICES[number]]

    def nvmlDeviceCreateGpuInstanceWithPlacement(self, gpu: Gpu, number: int, placement: Any) -> Handle:  # noqa: N802
        with self._changing():
            return Handle(gpu.pci, self._machine.driver.create_instance(gpu.pci, number, placement._obj.start))

    def nvmlGpuInstanceCreateComputeInstance(self, handle: Handle, number: int) -> Handle:  # noqa: N802
        with self._changing():
            return Handle(handle.pci, self._machine.driver.create_compute(handle.pci, handle.serial, number))

    def nvmlComputeInstanceDestroy(self, handle: Handle) -> None:  # noqa: N802
        with self._changing():
            self._machine.driver.destroy_compute(handle.pci, handle.serial)

    def nvmlGpuInstanceDestroy(self, handle: Handle) -> None:  # noqa: N802
        with self._changing():
            self._machine.driver.destroy_instance(handle.pci, handle.serial)

    def nvmlVgpuTypeGetGpuInstanceProfileId(self, number: int) -> int:  # noqa: N802
        gpu, kind = self._kind(number)
        if kind.profile is None or gpu.board.mig is None:
            return 0xFFFFFFFF
        return gpu.board.mig.profile(kind.profile).id

    def nvmlVgpuTypeGetMaxInstancesPerGpuInstance(self, number: int) -> int:  # noqa: N802
        if self._machine.driver.branch < _FIRST_WITH_COUNT:
            raise pynvml.NVMLError(pynvml.NVML_ERROR_FUNCTION_NOT_FOUND)
        return self._kind(number)[1].per_instance

    def _kind(self, number: int) -> tuple[Gpu, TypeSpec]:
        with self._machine.driver.reading() as state:
            return next((gpu, kind) for gpu in state.gpus for kind in gpu.board.all_types if kind.id == number)

    def _instance(self, handle: Handle) -> GpuInstance:
        for one in self._machine.driver.gpu(handle.pci).instances:
            if one.serial == handle.serial:
                return one
        raise pynvml.NVMLError(pynvml.NVML_ERROR_INVALID_ARGUMENT)

    @contextmanager
    def _changing(self) -> Iterator[None]:
        if self._machine.sick:
            raise pynvml.NVMLError(pynvml.NVML_ERROR_UNKNOWN)
        try:
            yield
        except OSError as error:
            raise pynvml.NVMLError(_CODES[error.errno or 0]) from error
        self._machine.show()
