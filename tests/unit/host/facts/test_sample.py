"""What `sample` tells: who runs and what they used, and what a library that fails at any point does to it."""

from __future__ import annotations

import os
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import pynvml
import pytest

from tests.unit.host.fakehost import (
    GPU_A,
    GPU_B,
    MDEV,
    MDEV_PF,
    MDEV_VF,
    UUID_A,
    VENDOR,
    VM,
    FakeHost,
    ask,
    make_entry,
    make_type,
    two_gpus,
    why,
)
from tests.unit.host.fakenvml import FakeNvml
from vgpumgr.core.usage import readings
from vgpumgr.link.values import sampling_facts
from vgpumgr.names import HostName

if TYPE_CHECKING:
    from pathlib import Path

    from vgpumgr.host.protocol.sample import SampleReport

INSTANCE = 3251634213
TWENTY_GB = 20 * (1 << 30) + 4096


class Meter(FakeNvml):
    """A driver whose one running vGPU has these samples, in NVIDIA's own structures."""

    def __init__(self, *, at_us: int = 5_000_000, framebuffer: int = TWENTY_GB, **settings: Any) -> None:
        super().__init__(active=1, **settings)
        self.at_us = at_us
        self.framebuffer = framebuffer
        self.since: list[int] = []
        self.answers |= {
            "nvmlDeviceGetUtilizationRates": lambda pci: SimpleNamespace(gpu=61, memory=22),
            "nvmlDeviceGetMemoryInfo": lambda pci: SimpleNamespace(total=46068 << 20, used=9 << 30),
            "nvmlDeviceGetVgpuUtilization": self._utilization,
            "nvmlVgpuInstanceGetFbUsage": lambda instance: self.framebuffer if instance == INSTANCE else 0,
        }

    def _utilization(self, pci: str, since_us: int) -> list[Any]:
        self.since.append(since_us)
        if pci != GPU_A:
            return []
        row = pynvml.c_nvmlVgpuInstanceUtilizationSample_t()
        row.vgpuInstance, row.timeStamp = INSTANCE, self.at_us
        row.smUtil.uiVal, row.memUtil.uiVal, row.encUtil.uiVal, row.decUtil.uiVal = 60, 20, 3, 1
        return [row]


def sample(host: FakeHost, nvml: Any, since: dict[str, int] | None = None) -> dict[str, Any]:
    told: dict[str, Any] = ask(host, nvml, "sample", since=since or {})["ok"]
    return told


def test_a_running_vgpu_is_told_with_its_vm_its_use_and_all_of_its_framebuffer(tmp_path: Path) -> None:
    host = two_gpus(tmp_path)
    host.add_process(41, "/dev/vfio/651", command=("qemu", "-name", "guest=vm01", "-uuid", VM))
    told = sample(host, Meter())
    assert told["unknown"] == []
    assert told["driver"] == "570.133.10"
    first, second = told["gpus"]
    assert (second["vgpus"], second["types"]) == ([], [])
    assert (first["pci"], first["uuid"], first["sm"], first["memory"]) == (GPU_A, UUID_A, 61, 22)
    assert (first["framebuffer_bytes"], first["framebuffer_used_bytes"]) == (46068 << 20, 9 << 30)
    assert (first["temperature_c"], first["power_mw"]) == (47, 118_250)
    assert (first["policy"], first["mode"]) == ("best-effort", "equal-size")
    assert first["types"] == [make_type(560, "NVIDIA A40-4Q", 12, 4096)]
    assert first["vgpus"] == [
        {
            "instance": INSTANCE,
            "vm_uuid": VM,
            "vm_name": "vm01",
            "uuid": MDEV,
            "vf": None,
            "vf_index": None,
            "type_id": 560,
            "framebuffer_used_bytes": TWENTY_GB,
            "at_us": 5_000_000,
            "sm": 60,
            "memory": 20,
            "encoder": 3,
            "decoder": 1,
            "holder": {"pid": 41, "command": "qemu", "since_us": None},
            "guest": {"driver": None, "license": None, "license_expires": None},
        }
    ]


@pytest.mark.parametrize(("status", "expires"), [(2, "2027-01-05T08:09:03Z"), (0, None), (4, None)])
def test_the_driver_in_a_guest_and_its_licence_are_what_nvml_knows_of_them(
    tmp_path: Path, status: int, expires: str | None
) -> None:
    info = pynvml.c_nvmlVgpuLicenseInfo_t()
    info.currentState, info.licenseExpiry.status = 5, status
    for name, value in {"year": 2027, "month": 1, "day": 5, "hour": 8, "min": 9, "sec": 3}.items():
        setattr(info.licenseExpiry, name, value)
    nvml = Meter()
    nvml.answers["nvmlVgpuInstanceGetVmDriverVersion"] = lambda instance: b"570.133.20"
    nvml.answers["nvmlVgpuInstanceGetLicenseInfo_v2"] = lambda instance: info
    told = sample(two_gpus(tmp_path), nvml)
    [row] = told["gpus"][0]["vgpus"]
    assert row["guest"] == {"driver": "570.133.20", "license": 5, "license_expires": expires}


def test_the_holder_is_the_vms_own_process_with_its_start_and_never_the_drivers_plugin(tmp_path: Path) -> None:
    host = two_gpus(tmp_path)
    host.add_process(40, "/dev/nvidia-vgpu1", command=("nvidia-vgpu-mgr", "-uuid", VM))
    host.add_process(41, "/dev/vfio/651", command=("qemu", "-name", "guest=vm01", "-uuid", VM), start=3000)
    host.put("/proc/uptime", "1000.00 5000.00")
    told = sample(host, Meter())
    [row] = told["gpus"][0]["vgpus"]
    age_s = 1000 - 3000 / os.sysconf("SC_CLK_TCK")
    assert (row["holder"]["pid"], row["holder"]["command"]) == (41, "qemu")
    assert row["holder"]["since_us"] == pytest.approx(told["now_us"] - age_s * 1e6, abs=60e6)


@pytest.mark.parametrize(("nodes", "vf"), [(["651"], ("0000:41:00.5", 1)), (["651", "652"], (None, None))])
def test_a_vf_is_known_by_the_one_handle_that_the_vm_has_open_and_by_no_mdev_uuid_of_nvmls(
    tmp_path: Path, nodes: list[str], vf: tuple[str | None, int | None]
) -> None:
    host = two_gpus(tmp_path, VENDOR)
    host.add_process(41, *(f"/dev/vfio/{node}" for node in nodes), command=("qemu", "-name", "guest=vm01", "-uuid", VM))
    [row] = sample(host, Meter())["gpus"][0]["vgpus"]
    assert ((row["vf"], row["vf_index"]), row["uuid"], row["vm_name"]) == (vf, None, "vm01")


def test_a_number_above_a_hundred_is_no_percentage(tmp_path: Path) -> None:
    nvml = Meter()
    nvml.answers["nvmlDeviceGetUtilizationRates"] = lambda pci: SimpleNamespace(gpu=2**32 - 1, memory=101)
    told = sample(two_gpus(tmp_path), nvml)["gpus"][0]
    assert (told["sm"], told["memory"]) == (None, None)


def test_the_gpus_uuid_falls_back_to_nvml_and_the_ledgers_types_with_it(tmp_path: Path) -> None:
    host = two_gpus(tmp_path)
    host.put(f"/proc/driver/nvidia/gpus/{GPU_A}/information", "Model: \t\t NVIDIA A40")
    host.put_ledger(make_entry(MDEV_VF, type_id=562))
    told = sample(host, Meter())["gpus"][0]
    assert told["uuid"] == UUID_A
    assert [kind["id"] for kind in told["types"]] == [560, 562]


def test_samples_are_asked_for_since_the_time_that_was_given(tmp_path: Path) -> None:
    nvml = Meter(at_us=9)
    [row] = sample(two_gpus(tmp_path), nvml, {GPU_A: 8})["gpus"][0]["vgpus"]
    assert (nvml.since, row["at_us"]) == ([8], 9)


@pytest.mark.parametrize("at_us", [0, 7, 8])
def test_what_is_not_newer_is_no_sample(tmp_path: Path, at_us: int) -> None:
    [row] = sample(two_gpus(tmp_path), Meter(at_us=at_us), {GPU_A: 8})["gpus"][0]["vgpus"]
    assert [row[key] for key in ("at_us", "sm", "memory", "encoder", "decoder")] == [None] * 5
    assert row["framebuffer_used_bytes"] == TWENTY_GB


def test_a_gpu_whose_vfs_are_still_off_is_not_opened(tmp_path: Path) -> None:
    host = FakeHost.build(tmp_path, gpus=())
    host.add_gpu(GPU_A, UUID_A, None)
    host.put("/usr/lib/nvidia/sriov-manage", "#!/bin/sh")
    nvml = Meter()
    told = sample(host, nvml)
    assert "nvmlDeviceGetHandleByPciBusId" not in nvml.calls
    assert (told["gpus"][0]["uuid"], told["gpus"][0]["vgpus"]) == (UUID_A, [])
    assert "sriov-manage" in why(told, "nvml", GPU_A)


def test_a_gpu_that_is_passed_through_leaves_the_others_known(tmp_path: Path) -> None:
    host = two_gpus(tmp_path)
    host.path(f"{host.function(GPU_B)}/driver").unlink()
    host.link(f"{host.function(GPU_B)}/driver", "/sys/bus/pci/drivers/vfio-pci")
    told = sample(host, Meter())
    assert [(one["pci"], len(one["vgpus"])) for one in told["gpus"]] == [(GPU_A, 1), (GPU_B, 0)]
    assert told["unknown"] == [
        {"gpu": GPU_B, "what": "nvml", "why": "NVIDIA's driver does not have the GPU: it is bound to vfio-pci"}
    ]


def test_no_sample_entries_is_not_a_failure(tmp_path: Path) -> None:
    told = sample(two_gpus(tmp_path), Meter(nvmlDeviceGetVgpuUtilization=pynvml.NVML_ERROR_NOT_FOUND))
    assert told["unknown"] == []
    assert told["gpus"][0]["vgpus"][0]["sm"] is None


@pytest.mark.parametrize(
    ("function", "what"),
    [
        ("nvmlDeviceGetHandleByPciBusId", "nvml"),
        ("nvmlDeviceGetMemoryInfo", "framebuffer_bytes"),
        ("nvmlDeviceGetUtilizationRates", "sm"),
        ("nvmlDeviceGetVgpuSchedulerCapabilities", "policy"),
        ("nvmlDeviceGetActiveVgpus", "vgpus"),
        ("nvmlDeviceGetVgpuUtilization", "vgpus.sm"),
        ("nvmlVgpuInstanceGetVmID", f"vgpus[{INSTANCE}].vm_uuid"),
        ("nvmlVgpuInstanceGetType", f"vgpus[{INSTANCE}].type_id"),
        ("nvmlVgpuInstanceGetFbUsage", f"vgpus[{INSTANCE}].framebuffer_used_bytes"),
        ("nvmlVgpuTypeGetName", "types[560]"),
        ("nvmlVgpuTypeGetFramebufferSize", "types[560].framebuffer_mib"),
        ("nvmlVgpuTypeGetMaxInstances", "types[560].max"),
    ],
)
@pytest.mark.parametrize("code", [pynvml.NVML_ERROR_NOT_SUPPORTED, pynvml.NVML_ERROR_GPU_IS_LOST])
def test_each_call_that_fails_is_one_row_of_unknown_and_no_zero(
    tmp_path: Path, function: str, what: str, code: int
) -> None:
    told = sample(two_gpus(tmp_path), Meter(**{function: code}))
    assert (GPU_A, what) in [(row["gpu"], row["what"]) for row in told["unknown"]]
    gpu = told["gpus"][0]
    shown = {
        "nvml": gpu["vgpus"],
        "framebuffer_bytes": gpu["framebuffer_used_bytes"],
        "sm": gpu["memory"],
        "policy": gpu["policy"],
        "vgpus": gpu["vgpus"],
        "types[560]": gpu["types"] or None,
    }
    for row in gpu["vgpus"] or []:
        shown["vgpus.sm"] = row["sm"]
        shown |= {f"vgpus[{INSTANCE}].{name}": row[name] for name in ("vm_uuid", "type_id", "framebuffer_used_bytes")}
    for kind in gpu["types"]:
        shown |= {f"types[560].{name}": kind[name] for name in ("framebuffer_mib", "max")}
    assert shown[what] is None


@pytest.mark.parametrize(
    ("function", "what"), [("nvmlDeviceGetTemperature", "temperature_c"), ("nvmlDeviceGetPowerUsage", "power_mw")]
)
@pytest.mark.parametrize(
    ("code", "told_why"), [(pynvml.NVML_ERROR_NOT_SUPPORTED, False), (pynvml.NVML_ERROR_GPU_IS_LOST, True)]
)
def test_a_sensor_that_a_board_lacks_is_unknown_and_no_failure(
    tmp_path: Path, function: str, what: str, code: int, *, told_why: bool
) -> None:
    """Any other answer is told; neither makes the use of a vGPU unknown."""
    told = sample(two_gpus(tmp_path), Meter(**{function: code}))
    assert told["gpus"][0][what] is None
    assert ((GPU_A, what) in [(row["gpu"], row["what"]) for row in told["unknown"]]) is told_why
    reading = sampling_facts.parse(HostName("kvm01"), cast("SampleReport", told))
    assert reading.gpus[0].vgpus
    assert readings.incomplete_reason(reading) is None


def test_with_mig_only_the_framebuffer_is_told_and_what_nvml_does_not_measure_is_no_failure(tmp_path: Path) -> None:
    host = two_gpus(tmp_path)
    host.add_process(41, "/dev/vfio/651", command=("qemu", "-name", "guest=vm01", "-uuid", VM))
    unsupported = dict.fromkeys(
        (
            "nvmlDeviceGetUtilizationRates",
            "nvmlDeviceGetVgpuUtilization",
            "nvmlDeviceGetVgpuSchedulerState",
            "nvmlDeviceGetVgpuSchedulerState_v2",
            "nvmlDeviceGetVgpuSchedulerCapabilities",
        ),
        pynvml.NVML_ERROR_NOT_SUPPORTED,
    )
    told = sample(host, Meter(mig=1, **unsupported))
    first = told["gpus"][0]
    assert told["unknown"] == []
    assert [first[key] for key in ("mode", "sm", "memory", "policy")] == ["mig", None, None, None]
    [row] = first["vgpus"]
    assert [row[key] for key in ("sm", "memory", "encoder", "decoder")] == [None] * 4
    assert row["framebuffer_used_bytes"] == TWENTY_GB
    assert 0 < row["at_us"] <= told["now_us"]


def test_without_nvml_the_ledger_is_told_all_the_same(tmp_path: Path) -> None:
    told = sample(two_gpus(tmp_path), FakeNvml(nvmlInit=pynvml.NVML_ERROR_DRIVER_NOT_LOADED))
    assert [gpu["vgpus"] for gpu in told["gpus"]] == [None, None]
    assert told["ledger"] == []
    assert [(row["gpu"], row["what"]) for row in told["unknown"]] == [(None, "nvml")]


def test_a_ledger_that_cannot_be_read_hides_nothing_else(tmp_path: Path) -> None:
    host = two_gpus(tmp_path)
    host.put("/var/lib/vgpumgr/ledger.json", "{")
    told = sample(host, Meter())
    assert told["ledger"] is None
    assert told["gpus"][0]["vgpus"][0]["sm"] == 60


@pytest.mark.parametrize("since", [None, [], "x", {GPU_A: "1"}, {GPU_A: -1}, {GPU_A: 1.5}, {GPU_A: True}])
def test_a_request_without_times_is_refused(tmp_path: Path, since: Any) -> None:
    assert ask(two_gpus(tmp_path), FakeNvml(), "sample", since=since)["err"]["kind"] == "BadRequest"


def test_nothing_is_written(tmp_path: Path) -> None:
    host = two_gpus(tmp_path)
    before = host.tree()
    sample(host, Meter())
    assert host.tree() == before


@pytest.mark.parametrize("framework", [MDEV_PF, MDEV_VF, VENDOR])
def test_vgpus_that_are_idle_and_nobodys_are_counted_too(tmp_path: Path, framework: str) -> None:
    host = two_gpus(tmp_path, framework)
    for number in range(3):
        uuid = None if framework == VENDOR else f"9e0d0000-0000-4000-8000-00000000000{number}"
        host.make_vgpu(GPU_A if framework == MDEV_PF else f"{GPU_A[:-1]}{4 + number}", 560, uuid)
    told = sample(host, FakeNvml(nvmlInit=pynvml.NVML_ERROR_DRIVER_NOT_LOADED))
    assert [gpu["made"] for gpu in told["gpus"]] == [3, 0]
