"""What is asked of NVML, and what a library that fails at any point does to the snapshot."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pynvml
import pytest

from tests.unit.host.fakehost import (
    GPU_A,
    GPU_B,
    HARDWARE,
    MDEV,
    MDEV_VF,
    UUID_A,
    UUID_B,
    VENDOR,
    VM,
    Asker,
    FakeHost,
    make_server,
    make_type,
    observe,
    two_gpus,
)
from tests.unit.host.fakenvml import FakeNvml
from vgpumgr.host.server import Server

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize(
    ("settings", "mode"),
    [
        ({}, "equal-size"),
        ({"mixed": 1}, "mixed-size"),
        ({"mig": 1}, "mig"),
        ({"nvmlDeviceGetMigMode": pynvml.NVML_ERROR_NOT_SUPPORTED}, "equal-size"),
        ({"nvmlDeviceGetVgpuHeterogeneousMode": pynvml.NVML_ERROR_FUNCTION_NOT_FOUND}, "equal-size"),
        ({"nvmlDeviceGetVgpuHeterogeneousMode": pynvml.NVML_ERROR_GPU_IS_LOST}, None),
        ({"nvmlDeviceGetMigMode": pynvml.NVML_ERROR_UNKNOWN}, None),
    ],
)
def test_the_mode_is_read_or_unknown(tmp_path: Path, settings: dict[str, Any], mode: str | None) -> None:
    snapshot = observe(two_gpus(tmp_path), FakeNvml(**settings))
    assert snapshot["gpus"][0]["mode"] == mode
    assert any((row["gpu"], row["what"]) == (GPU_A, "mode") for row in snapshot["unknown"]) == (mode is None)


def test_places_are_read_of_what_a_gpu_in_mixed_size_mode_would_take_and_in_no_other_mode(tmp_path: Path) -> None:
    mixed = observe(two_gpus(tmp_path), FakeNvml(mixed=1))["gpus"][0]
    assert mixed["places"] == [
        {"type_id": 560, "size": 4, "creatable": [32, 36]},
        {"type_id": 562, "size": 8, "creatable": [24, 40]},
    ]
    nvml = FakeNvml()
    assert observe(FakeHost(tmp_path), nvml)["gpus"][0]["places"] is None
    assert "nvmlDeviceGetVgpuTypeCreatablePlacements" not in nvml.calls


def test_a_driver_before_r565_is_asked_with_the_lists_first_version(tmp_path: Path) -> None:
    nvml = FakeNvml(mixed=1)
    versions: list[int] = []

    def places(_pci: str, _type_id: int, version: int) -> tuple[int, list[int]]:
        versions.append(version)
        if version == 2:
            raise pynvml.NVMLError(pynvml.NVML_ERROR_ARGUMENT_VERSION_MISMATCH)
        return 4, [36, 0]

    nvml.answers["nvmlDeviceGetVgpuTypeCreatablePlacements"] = places
    found = observe(two_gpus(tmp_path), nvml)["gpus"][0]["places"]
    assert found[0] == {"type_id": 560, "size": 4, "creatable": [0, 36]}
    assert versions[:2] == [2, 1]


@pytest.mark.parametrize("call", ["nvmlDeviceGetCreatableVgpus", "nvmlDeviceGetVgpuTypeCreatablePlacements"])
def test_places_that_cannot_be_read_are_unknown(tmp_path: Path, call: str) -> None:
    snapshot = observe(two_gpus(tmp_path), FakeNvml(mixed=1, **{call: pynvml.NVML_ERROR_UNKNOWN}))
    assert snapshot["gpus"][0]["places"] is None
    assert (GPU_A, "places") in [(row["gpu"], row["what"]) for row in snapshot["unknown"]]


def test_memory_version_and_types_come_from_nvml(tmp_path: Path) -> None:
    snapshot = observe(two_gpus(tmp_path, VENDOR), FakeNvml())
    assert snapshot["versions"]["nvml"] == "12.570.133"
    assert snapshot["gpus"][0]["framebuffer_mib"] == 46068
    assert snapshot["gpus"][0]["types"] == [
        make_type(558, "NVIDIA A40-2Q", None, None),
        make_type(560, "NVIDIA A40-4Q", 12, 4096),
        make_type(562, "NVIDIA A40-8Q", 6, 8192),
    ]


def test_a_running_vm_is_told_with_its_name_and_vf(tmp_path: Path) -> None:
    host = two_gpus(tmp_path, VENDOR)
    host.make_vgpu("0000:41:00.5", 560, None)
    host.add_process(41, "/dev/vfio/651", command=("qemu", "-name", "guest=vm01", "-uuid", VM))
    without_mdev = FakeNvml(active=1, nvmlVgpuInstanceGetMdevUUID=pynvml.NVML_ERROR_NOT_SUPPORTED)
    assert observe(host, without_mdev)["active"] == [
        {
            "gpu": GPU_A,
            "instance": 3251634213,
            "vm_uuid": VM,
            "vm_name": "vm01",
            "uuid": None,
            "vf": "0000:41:00.5",
            "type_id": 560,
        }
    ]


def test_one_gpu_that_does_not_tell_is_silent_and_the_others_rows_are_told(tmp_path: Path) -> None:
    host = two_gpus(tmp_path)
    nvml = FakeNvml(active=1)
    listed = nvml.answers["nvmlDeviceGetActiveVgpus"]

    def only_a(pci: str) -> Any:
        if pci == GPU_B:
            raise pynvml.NVMLError(pynvml.NVML_ERROR_GPU_IS_LOST)
        return listed(pci)

    nvml.answers["nvmlDeviceGetActiveVgpus"] = only_a
    snapshot = observe(host, nvml)
    assert [row["gpu"] for row in snapshot["active"]] == [GPU_A]
    assert list(snapshot["silent"]) == [GPU_B]
    assert snapshot["gpus"][1]["scheduler"] is not None
    assert [(row["gpu"], row["what"]) for row in snapshot["unknown"]] == [(GPU_B, "active")]


@pytest.mark.parametrize("number", [pynvml.NVML_ERROR_INSUFFICIENT_SIZE, 27, pynvml.NVML_ERROR_UNKNOWN])
@pytest.mark.parametrize("how_often", [1, 2])
def test_a_list_that_fails_while_a_vm_starts_is_asked_for_once_more(
    tmp_path: Path, number: int, how_often: int
) -> None:
    nvml, pauses = FakeNvml(), list[float]()
    left = [how_often]

    def starting(pci: str) -> list[int]:
        if pci == GPU_A and left[0]:
            left[0] -= 1
            raise pynvml.NVMLError(number)
        return []

    nvml.answers["nvmlDeviceGetActiveVgpus"] = starting
    server = Server(two_gpus(tmp_path).root, nvml=lambda: nvml, sleep=pauses.append)
    snapshot = Asker(server.answer).ask("observe", wait_s=0)["ok"]
    assert pauses == [0.2]
    assert list(snapshot["silent"]) == ([] if how_often == 1 else [GPU_A])


NO_MDEV = "00000000-0000-0000-0000-000000000000"


@pytest.mark.parametrize("framework", HARDWARE)
@pytest.mark.parametrize("answer", [NO_MDEV, "N/A", "", b"N/A", MDEV.upper(), pynvml.NVML_ERROR_NOT_SUPPORTED])
def test_nvmls_mdev_uuid_counts_only_where_it_is_one_and_vgpus_are_mdevs(
    tmp_path: Path, framework: str, answer: Any
) -> None:
    host = two_gpus(tmp_path, framework)
    if framework == VENDOR:
        host.make_vgpu("0000:41:00.5", 560, None)
        host.add_process(41, "/dev/vfio/651", command=("qemu", "-name", "guest=vm01", "-uuid", VM))
    refused: dict[str, Any] = {"nvmlVgpuInstanceGetMdevUUID": answer} if isinstance(answer, int) else {}
    nvml = FakeNvml(active=1, **refused)
    nvml.answers["nvmlVgpuInstanceGetMdevUUID"] = lambda instance: answer
    [row] = observe(host, nvml)["active"]
    assert row["uuid"] == (MDEV if (framework, answer) == (MDEV_VF, MDEV.upper()) else None)
    assert row["vf"] == ("0000:41:00.5" if framework == VENDOR else None)


def test_a_gpu_of_a_host_without_sriov_manage_is_asked_like_any_other(tmp_path: Path) -> None:
    """A data-centre driver without vGPUs: its cards have SR-IOV too, and nobody waits for them."""
    host = FakeHost.build(tmp_path, gpus=())
    host.add_gpu(GPU_A, UUID_A, None)
    assert observe(host, FakeNvml())["gpus"][0]["framebuffer_mib"] == 46068


def test_a_gpu_whose_vfs_are_still_off_is_not_opened(tmp_path: Path) -> None:
    host = FakeHost.build(tmp_path, gpus=((GPU_B, UUID_B),))
    host.add_gpu(GPU_A, UUID_A, None)
    host.put("/usr/lib/nvidia/sriov-manage", "#!/bin/sh")
    nvml, opened = FakeNvml(), list[str]()

    def open_gpu(pci: str) -> str:
        opened.append(pci)
        return pci

    nvml.answers["nvmlDeviceGetHandleByPciBusId"] = open_gpu
    snapshot = observe(host, nvml)
    assert opened == [GPU_B]
    assert (snapshot["gpus"][0]["mode"], snapshot["silent"]) == (None, {})
    assert "sriov-manage" in next(
        row["why"] for row in snapshot["unknown"] if (row["gpu"], row["what"]) == (GPU_A, "mode")
    )


@pytest.mark.parametrize("function", sorted(FakeNvml(api=2).answers))
@pytest.mark.parametrize("number", [pynvml.NVML_ERROR_GPU_IS_LOST, pynvml.NVML_ERROR_FUNCTION_NOT_FOUND])
def test_any_function_may_fail_and_the_rest_is_told(tmp_path: Path, function: str, number: int) -> None:
    host = two_gpus(tmp_path, VENDOR)
    host.make_vgpu("0000:41:00.5", 560, None)
    fail: dict[str, Any] = {function: number}
    nvml = FakeNvml(active=1, api=2, **fail)
    snapshot = Asker(make_server(host, nvml=lambda: nvml).answer).ask("observe", wait_s=0)["ok"]
    assert [gpu["uuid"] for gpu in snapshot["gpus"]] == [UUID_A, UUID_B]


def test_a_uuid_that_nvml_alone_tells_is_not_planned_with_since_no_step_could_check_it(tmp_path: Path) -> None:
    host = two_gpus(tmp_path)
    host.path(f"/proc/driver/nvidia/gpus/{GPU_A}/information").unlink()
    snapshot = observe(host, FakeNvml())
    assert snapshot["gpus"][0]["uuid"] is None
    assert UUID_A in next(row["why"] for row in snapshot["unknown"] if (row["gpu"], row["what"]) == (GPU_A, "uuid"))


def test_a_uuid_that_proc_tells_once_nvml_has_opened_the_gpu_is_read_again(tmp_path: Path) -> None:
    host = two_gpus(tmp_path)
    file = host.path(f"/proc/driver/nvidia/gpus/{GPU_A}/information")
    whole = file.read_text()
    file.write_text("Model: NVIDIA A40\n")
    nvml = FakeNvml()

    def open_gpu(pci: str) -> str:
        file.write_text(whole)
        return pci

    nvml.answers["nvmlDeviceGetHandleByPciBusId"] = open_gpu
    assert observe(host, nvml)["gpus"][0]["uuid"] == UUID_A
