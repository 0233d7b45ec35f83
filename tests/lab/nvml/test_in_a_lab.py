"""On a simulated host: sysfs, /proc, NVML and nvidia-smi show one state."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.lab_fixtures import Lab

pytestmark = pytest.mark.lab

UUID = "9e0d0000-0000-4000-8000-0000000000e1"
# The host's own Python and no package: that a library of this name is found, loads and answers.
CREATABLE = """
import ctypes
nvml = ctypes.CDLL("libnvidia-ml.so.1")
device, count = ctypes.c_void_p(), ctypes.c_uint(200)
ids = (ctypes.c_uint * 200)()
print(nvml.nvmlInit_v2(), nvml.nvmlDeviceGetHandleByIndex_v2(0, ctypes.byref(device)))
print(nvml.nvmlDeviceGetCreatableVgpus(device, ctypes.byref(count), ids), count.value, sorted(ids[:count.value]))
"""


def test_nvidia_smi_and_proc_name_the_same_gpus(mdev_vf_lab: Lab) -> None:
    listed = mdev_vf_lab.must("kvm01", "nvidia-smi", "-L")
    told = mdev_vf_lab.must("kvm01", "cat", "/proc/driver/nvidia/gpus/*/information")
    assert re.findall("UUID: (GPU-[^)]+)", listed) == re.findall(r"GPU UUID:\s+(\S+)", told)


def test_a_vgpu_made_in_sysfs_shows_in_nvidia_smi_and_changes_what_nvml_calls_creatable(mdev_vf_lab: Lab) -> None:
    host = "kvm02"

    def creatable() -> list[str]:
        return mdev_vf_lab.must(host, "/usr/bin/python3", "-I", "-", text=CREATABLE).splitlines()

    before = creatable()
    table = mdev_vf_lab.must(host, "nvidia-smi", "vgpu")
    parents = mdev_vf_lab.must(host, "ls", "/sys/class/mdev_bus").split()
    parent = f"/sys/class/mdev_bus/{parents[0]}"
    kind = mdev_vf_lab.must(host, "grep", "-l", "A100-4C", f"{parent}/mdev_supported_types/*/name").strip()
    mdev_vf_lab.must(host, "echo", UUID, ">", f"{kind.removesuffix('/name')}/create")
    try:
        rows = set(mdev_vf_lab.must(host, "nvidia-smi", "vgpu").splitlines()[1:]) - set(table.splitlines())
        assert [re.findall(r"GRID A100-4C", row) for row in rows] == [["GRID A100-4C"]]
        number = int(re.findall(r"nvidia-(\d+)", kind)[0])
        assert creatable() == ["0 0", f"0 1 [{number}]"]
    finally:
        mdev_vf_lab.must(host, "echo", "1", ">", f"/sys/bus/mdev/devices/{UUID}/remove")
    assert creatable() == before
