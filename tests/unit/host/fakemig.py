"""pynvml's functions of MIG over a driver that keeps nvml.h's rules, on an A100 of 40 GB.

Its state is in a file of the fake host (FakeHost.mig), so that it outlives a host program that is killed.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pynvml

from tests.unit.host.fakehost import MIG_TYPES
from tests.unit.host.fakenvml import FakeNvml

if TYPE_CHECKING:
    from tests.unit.host.fakehost import FakeHost

NONE = 0xFFFFFFFF
# NVML's number of a profile → id, name, compute slices, memory slices, starts, MiB, how many at once
PROFILES = {
    0: (19, "1g.5gb", 1, 1, (0, 1, 2, 3, 4, 5, 6), 4864, 7),
    1: (14, "2g.10gb", 2, 2, (0, 2, 4), 9856, 3),
    2: (9, "3g.20gb", 3, 4, (0, 4), 19968, 2),
    3: (5, "4g.20gb", 4, 4, (0,), 19968, 1),
    4: (0, "7g.40gb", 7, 8, (0,), 40192, 1),
}
COMPUTE = {0: 1, 1: 2, 2: 3, 3: 4, 4: 7}  # the number (and id) of a compute instance's profile → its slices


class FakeMig(FakeNvml):
    """The same two GPUs; the state is of the first. `fail`: as in FakeNvml. `needs_reset`: MIG mode waits for it.

    `running`: the instances (ids) of vGPUs that NVML lists as active.
    """

    def __init__(
        self, host: FakeHost, *, needs_reset: bool = False, running: tuple[int, ...] = (), **fail: Any
    ) -> None:
        super().__init__(host=host, **fail)
        self._state_of = host
        self._needs_reset = needs_reset
        self._running = running
        self.answers |= {
            "nvmlDeviceGetMigMode": lambda pci: [int(host.mig()["on"]), int(host.mig()["pending"])],
            "nvmlDeviceSetMigMode": self._set_mode,
            "nvmlDeviceGetGpuInstanceProfileInfo": self._profile,
            "nvmlDeviceGetGpuInstancePossiblePlacements": self._places,
            "nvmlDeviceGetGpuInstances": self._instances,
            "nvmlDeviceCreateGpuInstanceWithPlacement": self._create,
            "nvmlGpuInstanceGetInfo": self._info,
            "nvmlGpuInstanceDestroy": self._destroy,
            "nvmlGpuInstanceGetComputeInstanceProfileInfo": self._compute_profile,
            "nvmlGpuInstanceGetComputeInstances": self._computes,
            "nvmlGpuInstanceCreateComputeInstance": lambda number, profile: self._change(number, computes=1),
            "nvmlComputeInstanceDestroy": lambda number: self._change(number, computes=0),
            "nvmlVgpuTypeGetGpuInstanceProfileId": lambda number: MIG_TYPES.get(number, NONE),
            "nvmlVgpuTypeGetMaxInstancesPerGpuInstance": lambda number: 1,
            "nvmlDeviceGetActiveVgpus": lambda pci: list(range(len(running))),
            "nvmlVgpuInstanceGetGpuInstanceId": lambda number: running[number],
            "nvmlVgpuInstanceGetType": lambda number: 700,
        }

    # the mode

    def _set_mode(self, pci: str, mode: int) -> int:
        if self._needs_reset:
            self._state_of.put_mig(pending=bool(mode))
            return int(pynvml.NVML_ERROR_RESET_REQUIRED)
        self._state_of.put_mig(on=bool(mode), pending=bool(mode), instances=[])
        return 0

    # profiles

    def _profile(self, pci: str, number: int) -> Any:
        if number not in PROFILES:
            raise pynvml.NVMLError(
                pynvml.NVML_ERROR_NOT_SUPPORTED if number < 18 else pynvml.NVML_ERROR_INVALID_ARGUMENT
            )
        number, name, slices, _, _, mib, most = PROFILES[number]
        return SimpleNamespace(
            id=number, name=f"MIG {name}".encode(), sliceCount=slices, memorySizeMB=mib, instanceCount=most
        )

    def _places(self, pci: str, profile: int) -> Any:
        _, _, _, size, starts, _, _ = _by_id(profile)
        return [SimpleNamespace(start=start, size=size) for start in starts]

    # instances: a handle is the id

    def _instances(self, pci: str, profile: int) -> list[int]:
        return [each["id"] for each in self._state_of.mig()["instances"] if each["profile"] == profile]

    def _info(self, number: int) -> Any:
        each = self._find(number)
        placement = SimpleNamespace(start=each["start"], size=each["size"])
        return SimpleNamespace(id=number, profileId=each["profile"], placement=placement)

    def _create(self, pci: str, profile: int, placement: Any) -> int:
        start, size = placement._obj.start, placement._obj.size
        if start not in _by_id(profile)[4] or size != _by_id(profile)[3]:
            raise pynvml.NVMLError(pynvml.NVML_ERROR_INVALID_ARGUMENT)
        for each in self._state_of.mig()["instances"]:
            if each["start"] < start + size and start < each["start"] + each["size"]:
                raise pynvml.NVMLError(pynvml.NVML_ERROR_INSUFFICIENT_RESOURCES)
        return self._state_of.put_instance(profile, start, size, computes=0)

    def _destroy(self, number: int) -> None:
        if self._find(number)["computes"] or number in self._state_of.in_instances():
            raise pynvml.NVMLError(pynvml.NVML_ERROR_IN_USE)
        left = [each for each in self._state_of.mig()["instances"] if each["id"] != number]
        self._state_of.put_mig(instances=left)

    # compute instances: a handle is the id of the GPU instance, which has at most one

    def _compute_profile(self, number: int, profile: int, engines: int) -> Any:
        slices = _by_id(self._find(number)["profile"])[2]
        if COMPUTE.get(profile, slices + 1) > slices:
            raise pynvml.NVMLError(pynvml.NVML_ERROR_NOT_SUPPORTED)
        return SimpleNamespace(id=profile, sliceCount=COMPUTE[profile])

    def _computes(self, number: int, profile: int) -> list[int]:
        each = self._find(number)
        whole = COMPUTE[profile] == _by_id(each["profile"])[2]
        return [number] * each["computes"] if whole else []

    def _change(self, number: int, **changes: Any) -> int:
        instances = self._state_of.mig()["instances"]
        self._find(number)
        self._state_of.put_mig(instances=[{**each, **changes} if each["id"] == number else each for each in instances])
        return number

    def _find(self, number: int) -> dict[str, Any]:
        for each in self._state_of.mig()["instances"]:
            if each["id"] == number:
                found: dict[str, Any] = each
                return found
        raise pynvml.NVMLError(pynvml.NVML_ERROR_INVALID_ARGUMENT)


def _by_id(profile: int) -> Any:
    return next(each for each in PROFILES.values() if each[0] == profile)
