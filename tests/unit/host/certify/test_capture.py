"""A copy of what the driver shows: each file that its functions have, each call of NVML, and nothing is written."""

from __future__ import annotations

import errno
import json
import os
from typing import TYPE_CHECKING, Any

import pynvml
import pytest

from tests.unit.host.fakehost import FRAMEWORKS, GPU_A, MDEV_VF, UUID_A, VENDOR, Asker, FakeHost, no_nvml
from tests.unit.host.fakenvml import FakeNvml
from vgpumgr.host.certify import capture as capturing
from vgpumgr.host.certify.recorder import Recorder
from vgpumgr.host.protocol.capture import Capture, NvmlCall
from vgpumgr.host.server import Server
from vgpumgr.link.program import wire

if TYPE_CHECKING:
    from pathlib import Path


def capture(host: FakeHost, nvml: Any = no_nvml) -> dict[str, Any]:
    found: dict[str, Any] = Asker(Server(host.root, nvml=nvml).answer).ask("capture", wait_s=0)["ok"]
    wire.check(found, Capture, "capture")
    return found


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_a_capture_has_the_facts_and_what_they_were_read_from_and_writes_nothing(
    framework: str, tmp_path: Path
) -> None:
    host = FakeHost.build(tmp_path, framework)
    before = host.tree()
    found = capture(host, FakeNvml)
    assert host.tree() == before
    assert found["snapshot"]["gpus"][0]["uuid"] == UUID_A
    assert f"GPU UUID: \t {UUID_A}" in found["host"][f"/proc/driver/nvidia/gpus/{GPU_A}/information"]
    assert found["host"]["/proc/driver/nvidia/version"] == "!ENOENT"
    rows = {one["pci"]: one for one in found["functions"]}
    assert len(rows) == (1 if framework == "mdev-pf" else 4)
    pci = GPU_A if framework == "mdev-pf" else f"{GPU_A[:-1]}4"
    files = found["texts"][rows[pci]["files"]]
    name = "nvidia/creatable_vgpu_types" if framework == VENDOR else "mdev_supported_types/nvidia-560/name"
    assert files[name] == host.path(f"{host.function(pci)}/{name}").read_text()
    assert rows[pci]["driver"] == "nvidia"
    assert rows[pci]["vfio_devs"] == (framework == VENDOR)
    assert [one["gpu"] for one in found["calls"] if one["call"] == "nvmlDeviceGetName"] == [GPU_A]


def test_functions_that_show_the_same_share_it_and_an_errno_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    host = FakeHost.build(tmp_path, VENDOR)
    opened, lost = os.open, host.path(f"{host.function(f'{GPU_A[:-1]}5')}/nvidia/creatable_vgpu_types").resolve()

    def opening(path: Any, *arguments: Any, **options: Any) -> int:
        if options.get("dir_fd") is None and os.path.realpath(path) == str(lost):
            raise OSError(errno.ENXIO, os.strerror(errno.ENXIO))
        return opened(path, *arguments, **options)

    monkeypatch.setattr(os, "open", opening)
    found = capture(host)
    files = [one["files"] for one in found["functions"] if one["vf_index"] is not None]
    assert (files[0], files[1] == files[0]) == (files[2], False)
    assert found["texts"][files[1]]["nvidia/creatable_vgpu_types"] == "!ENXIO"


def test_each_call_of_nvml_is_told_with_its_answer_or_code() -> None:
    calls: list[NvmlCall] = []
    recorder = Recorder(FakeNvml(nvmlDeviceGetName=15), calls)
    recorder.nvmlInit()
    handle = recorder.nvmlDeviceGetHandleByPciBusId(GPU_A)
    with pytest.raises(pynvml.NVMLError):
        recorder.nvmlDeviceGetName(handle)
    assert recorder.nvmlDeviceGetMigMode(handle) == [0, 0]
    assert [(one["call"], one["gpu"], one["code"], json.loads(one["answer"])) for one in calls] == [
        ("nvmlInit", None, 0, None),
        ("nvmlDeviceGetHandleByPciBusId", GPU_A, 0, GPU_A),
        ("nvmlDeviceGetName", GPU_A, 15, None),
        ("nvmlDeviceGetMigMode", GPU_A, 0, [0, 0]),
    ]
    assert recorder.NVMLError is pynvml.NVMLError


def test_structures_and_lists_of_nvml_are_told_by_their_fields_and_handles_by_their_types() -> None:
    calls: list[NvmlCall] = []

    class Binding:
        NVMLError = pynvml.NVMLError

        @staticmethod
        def nvmlAnything() -> Any:  # noqa: N802 -- NVIDIA's
            memory = pynvml.c_nvmlMemory_t()
            memory.total = 7
            return [memory, pynvml.c_nvmlDevice_t(), b"text"]

    Recorder(Binding, calls).nvmlAnything()
    first, second, third = json.loads(calls[0]["answer"])
    assert (first["total"], second, third) == (7, pynvml.c_nvmlDevice_t.__name__, "text")


def test_a_gpu_instance_is_asked_for_its_engines_and_its_scheduler() -> None:
    """Whatever a binding or a driver lacks ends the questions, and nothing else."""
    for lacks in ("", "nvmlGpmSampleAlloc", "nvmlDeviceGetGpuInstanceById"):
        calls: list[NvmlCall] = []

        class Binding:
            NVMLError = pynvml.NVMLError
            c_nvmlVgpuSchedulerStateInfo_v2_t = pynvml.c_nvmlVgpuSchedulerStateInfo_v2_t  # noqa: N815 -- NVIDIA's
            missing = lacks

            def __getattr__(self, name: str) -> Any:
                def call(*_: Any) -> None:
                    if name in (self.missing, "nvmlGpuInstanceGetVgpuSchedulerState_v2"):
                        raise pynvml.NVMLError(3)

                return call

        mig = {"instances": [{"id": 5}]}
        capturing._ask_instances(lambda: Recorder(Binding(), calls), {"pci": GPU_A, "mig": mig})  # type: ignore[typeddict-item]  # noqa: B023
        codes = {one["call"]: one["code"] for one in calls}
        assert ("nvmlGpmMigSampleGet" in codes) == (lacks != "nvmlGpmSampleAlloc")
        assert codes.get("nvmlGpuInstanceGetVgpuSchedulerState_v2") == (None if lacks else 3)
        assert codes["nvmlShutdown"] == 0


def test_an_mdev_types_directories_are_told_by_their_names(tmp_path: Path) -> None:
    host = FakeHost.build(tmp_path, MDEV_VF)
    top = host.function(f"{GPU_A[:-1]}4")
    host.path(f"{top}/mdev_supported_types/nvidia-560/devices/one").mkdir(parents=True)
    found = capture(host)
    files = found["texts"][found["functions"][1]["files"]]
    assert files["mdev_supported_types/nvidia-560/devices"] == "one"
