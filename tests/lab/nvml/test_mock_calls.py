"""The C library's manners, of every call alike: a NULL is refused, and an error that the lab injects comes before the driver."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.lab.driver.migs import cut
from tests.lab.nvml.test_mock_mig import MODE, computes, create, of_profile
from tests.lab.nvml.test_mock_scheduler import CAPS, GET, get_v2, set_v1, set_v2
from tests.lab.nvml.test_mock_utilization import INFOS, RATES, SAMPLES

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.lab.nvml.conftest import Host, Nvml

INVALID_ARGUMENT = 2
TIME = "ctypes.c_ulonglong(0)"
A_UINT = "ctypes.byref(ctypes.c_uint())"
# By spec, what has a place to write to, or a handle, without nvml in front. `v` is a running vGPU.
NULLS = {
    "mdev-vf": (
        "SystemGetDriverVersion(None, 80)",
        "SystemGetNVMLVersion(None, 80)",
        "DeviceGetCount_v2(None)",
        "DeviceGetHandleByIndex_v2(0, None)",
        "DeviceGetHandleByPciBusId_v2(None, None)",
        "DeviceGetHandleByUUID(None, None)",
        *(f"DeviceGet{name}(gpus[0], None)" for name in ("Index", "PciInfo_v3", "MemoryInfo", "MemoryInfo_v2")),
        *(f"DeviceGet{name}(gpus[0], None, 96)" for name in ("Name", "UUID")),
        *(
            f"DeviceGet{name}(gpus[0], None)"
            for name in ("VirtualizationMode", "HostVgpuMode", "VgpuHeterogeneousMode", "PersistenceMode")
        ),
        *(f"DeviceGet{name}(gpus[0], 0, None)" for name in ("NvLinkState", "NvLinkRemotePciInfo_v2")),
        *(f"DeviceGet{name}(gpus[0], None, None)" for name in ("MigMode", "SupportedVgpus", "ActiveVgpus")),
        *(f"VgpuTypeGet{name}(560, None, None)" for name in ("Name", "Class", "DeviceID")),
        *(f"VgpuTypeGet{name}(560, None)" for name in ("FramebufferSize", "NumDisplayHeads", "FrameRateLimit")),
        *(f"VgpuTypeGet{name}(560, None)" for name in ("MaxInstancesPerVm", "GpuInstanceProfileId")),
        "VgpuTypeGetResolution(560, 0, None, None)",
        "VgpuTypeGetLicense(560, None, 128)",
        "VgpuTypeGetMaxInstances(gpus[0], 560, None)",
        *(f"VgpuInstanceGet{name}(v, None, 80)" for name in ("UUID", "MdevUUID", "VmDriverVersion")),
        *(f"VgpuInstanceGet{name}(v, None)" for name in ("Type", "FbUsage", "PlacementId", "GpuInstanceId")),
        *(f"VgpuInstanceGet{name}(v, None)" for name in ("FrameRateLimit", "LicenseInfo_v2", "EccMode")),
        "VgpuInstanceGetVmID(v, None, 80, None)",
        "VgpuInstanceGetGpuPciId(v, None, None)",
        "DeviceGetIndex(None, ctypes.byref(ctypes.c_uint()))",
        "DeviceGetIndex(ctypes.c_void_p(4711), ctypes.byref(ctypes.c_uint()))",
        f"DeviceGetVgpuUtilization(gpus[0], {TIME}, None, {A_UINT}, None)",
        f"DeviceGetVgpuUtilization(gpus[0], {TIME}, {A_UINT}, None, None)",
        "DeviceGetVgpuInstancesUtilizationInfo(gpus[0], None)",
        "DeviceGetUtilizationRates(gpus[0], None)",
    ),
    "vendor-vfio": (
        "DeviceGetVgpuSchedulerCapabilities(gpus[0], None)",
        *(
            f"Device{verb}VgpuSchedulerState{version}(gpus[0], None)"
            for verb in ("Get", "Set")
            for version in ("", "_v2")
        ),
    ),
    "mig": (
        *(f"Device{name}(gpus[0], None, None)" for name in ("GetMigMode", "GetSupportedVgpus")),
        "DeviceSetMigMode(gpus[0], 1, None)",
        *(f"DeviceGetGpuInstanceProfileInfo{version}(gpus[0], 0, None)" for version in ("", "V")),
        "DeviceGetGpuInstancePossiblePlacements_v2(gpus[0], 19, None, None)",
        "DeviceGetGpuInstanceRemainingCapacity(gpus[0], 19, None)",
        "DeviceCreateGpuInstance(gpus[0], 19, None)",
        "DeviceCreateGpuInstanceWithPlacement(gpus[0], 19, None, None)",
        "DeviceGetGpuInstances(gpus[0], 19, None, None)",
        *(f"{kind}Destroy(None)" for kind in ("GpuInstance", "ComputeInstance")),
        *(f"{kind}(None, None)" for kind in ("GpuInstanceGetInfo", "ComputeInstanceGetInfo_v2")),
    ),
}
FAILS = [
    ("mdev-vf", "DeviceGetVgpuUtilization", SAMPLES.format(0)),
    ("mdev-vf", "DeviceGetVgpuInstancesUtilizationInfo", INFOS.format(0)),
    ("mdev-vf", "DeviceGetUtilizationRates", RATES),
    ("mdev-vf", "VgpuInstanceGetFbUsage", "nvmlVgpuInstanceGetFbUsage(nvmlDeviceGetActiveVgpus(gpus[0])[0])"),
    ("vendor-vfio", "DeviceGetVgpuSchedulerCapabilities", CAPS),
    ("vendor-vfio", "DeviceGetVgpuSchedulerState", GET),
    ("vendor-vfio", "DeviceSetVgpuSchedulerState", set_v1(2)),
    ("vendor-vfio", "DeviceGetVgpuSchedulerState_v2", get_v2(1)),
    ("vendor-vfio", "DeviceSetVgpuSchedulerState_v2", set_v2(1, 2)),
    ("mig", "DeviceGetMigMode", MODE),
    ("mig", "DeviceCreateGpuInstance", create(19)),
    ("mig", "DeviceGetGpuInstances", of_profile(19)),
    ("mig", "GpuInstanceGetInfo", of_profile(19, then="attempt(nvmlGpuInstanceGetInfo, i)")),
    ("mig", "ComputeInstanceDestroy", of_profile(19, then=computes(0, "attempt(nvmlComputeInstanceDestroy, c)"))),
]


def running(make_host: Callable[..., Host], spec: str) -> Host:
    """A host with a vGPU that a VM has had for a second; in MIG mode in an instance of its own."""
    host = make_host(spec)
    if spec == "mig":
        cut(host.driver, host.gpu, "1g.5gb", 0)
    host.start_vm(short="1-5C" if spec == "mig" else "4Q")
    host.gpu.links = (host.gpus[1].pci,)
    host.clock_us += 1_000_000
    return host


@pytest.mark.parametrize("spec", NULLS)
def test_null_pointers_are_invalid_arguments(nvml: Nvml, make_host: Callable[..., Host], spec: str) -> None:
    calls = [f"lib.nvml{call}" for call in NULLS[spec]]
    code = f"[(lambda v: [{', '.join(calls)}])(nvmlDeviceGetActiveVgpus(gpus[0])[0])][0]"
    seen = nvml.ask(running(make_host, spec), code)
    assert dict(zip(calls, seen, strict=True)) == dict.fromkeys(calls, INVALID_ARGUMENT)


@pytest.mark.parametrize(("spec", "function", "code"), FAILS, ids=lambda value: value.partition("(")[0])
def test_each_call_can_be_made_to_fail(
    nvml: Nvml, make_host: Callable[..., Host], spec: str, function: str, code: str
) -> None:
    host = running(make_host, spec)
    host.driver.set_fault(f"nvml:{function}:999:{host.gpu.pci}")
    assert "999" in str(nvml.ask(host, code))
