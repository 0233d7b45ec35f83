"""Time slices on simulated hosts: NVIDIA's Python binding, modprobe.d over a reboot, and the record of what was written."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.lab.machine.nvml_in_host import ask

if TYPE_CHECKING:
    from tests.lab_fixtures import Lab, LabFactory

pytestmark = pytest.mark.lab

UUID = "9e0d0000-0000-4000-8000-00000000000c"
# `lax` reads the header so that a vGPU which no VM runs is not in the way; `strict` does not.
SPEC = """
hosts:
  lax: {driver: 570, boards: [A40, A40], scheduler_counts_idle: false}
  strict: {driver: 570, boards: [A40]}
"""
KIND = "/sys/bus/pci/devices/0000:41:00.4/mdev_supported_types/nvidia-560"
POLICY = "nvmlDeviceGetVgpuSchedulerState(gpu).schedulerPolicy"
EQUAL, FIXED = 2, 3
SET = "nvmlDeviceSetVgpuSchedulerState(gpu, c_nvmlVgpuSchedulerSetState_t({}))"
PARAMS = "grep Registry /proc/driver/nvidia/params"


@pytest.fixture(scope="module")
def lab(lab_factory: LabFactory, tmp_path_factory: pytest.TempPathFactory) -> Lab:
    spec = tmp_path_factory.mktemp("spec") / "spec.yml"
    spec.write_text(SPEC, encoding="utf-8")
    return lab_factory(str(spec), shared=False)


@pytest.mark.parametrize(("host", "refused"), [("lax", False), ("strict", True)])
def test_a_vgpu_that_no_vm_runs_is_in_the_way_where_the_spec_says_so(lab: Lab, host: str, refused: bool) -> None:
    lab.must(host, f"echo {UUID} > {KIND}/create")
    before = lab.revisions()[host]
    try:
        assert ask(lab, host, SET.format(EQUAL)) == ("3" if refused else 0)
        assert ask(lab, host, POLICY) == (1 if refused else EQUAL)
    finally:
        lab.must(host, f"echo 1 > /sys/bus/mdev/devices/{UUID}/remove")
    first, second = lab.writes(host, since=before)
    assert (first["path"], first["errno"]) == ("/sys/kernel/debug/nvlab/nvml", "ENOTSUP" if refused else None)
    assert first["data"].startswith("scheduler pci=0000:41:00.0 policy=2 ")
    assert second["path"].endswith("/remove")


def test_reading_and_being_refused_by_the_library_leave_no_write(lab: Lab) -> None:
    before = lab.revisions()
    assert ask(lab, "strict", POLICY) in (1, EQUAL, FIXED)
    assert ask(lab, "strict", "nvmlDeviceSetVgpuSchedulerState_v2(gpu, c_nvmlVgpuSchedulerState_v2_t(1, 2))") == "13"
    lab.must("strict", "nvidia-smi vgpu -ss && nvidia-smi vgpu -sc")
    assert lab.revisions() == before


def test_a_reboot_puts_what_modprobe_d_says_in_the_place_of_what_was_set(lab: Lab) -> None:
    """Both parameters, per GPU; the files are this host's own, and outlast the reboot."""
    assert lab.must("lax", PARAMS) == 'RegistryDwords: ""\nRegistryDwordsPerDevice: ""\n'
    lines = (
        'options nvidia NVreg_RegistryDwords="RmPVMRL=0x01"\n'
        'options nvidia NVreg_RegistryDwordsPerDevice="pci=0000:81:00.0;RmPVMRL=0x00050013"\n'
    )
    lab.must("lax", "cat > /etc/modprobe.d/zz-test.conf", text=lines)
    assert ask(lab, "lax", SET.format(FIXED)) == 0
    assert lab.must("lax", PARAMS) == 'RegistryDwords: ""\nRegistryDwordsPerDevice: ""\n', "as of the last boot"

    lab.control("lax", "reboot")

    assert lab.must("lax", "cat /etc/modprobe.d/zz-test.conf") == lines
    assert lab.must("lax", PARAMS) == (
        'RegistryDwords: "RmPVMRL=0x01"\nRegistryDwordsPerDevice: "pci=0000:81:00.0;RmPVMRL=0x00050013"\n'
    )
    assert [ask(lab, "lax", POLICY, gpu=gpu) for gpu in (0, 1)] == [EQUAL, FIXED]
    assert lab.must("strict", "ls -A /etc/modprobe.d") == ""
    assert not Path("/etc/modprobe.d/zz-test.conf").exists()

    lab.must("lax", "rm /etc/modprobe.d/zz-test.conf")
    lab.control("lax", "reboot")
    assert [ask(lab, "lax", POLICY, gpu=gpu) for gpu in (0, 1)] == [1, 1]


def test_garbage_answers_every_login_with_a_text_until_it_is_cleared(lab: Lab) -> None:
    """The program calls that host unread and shows what it heard; the fault outlasts a reboot, the other host goes on."""
    assert lab.run("lab", "fault", "strict", "garbage").returncode == 0
    lab.control("strict", "reboot")
    try:
        done = lab.run("list", "-o", "json")
        assert done.returncode == 4, done.stdout + done.stderr
        assert json.loads(done.stdout)["outcomes"] == ["done", "unreached"]
        assert "Welcome!" in done.stdout
        status = json.loads(lab.run("lab", "status", "-o", "json").stdout)
        assert "garbage" in json.dumps(status)
    finally:
        lab.control("strict", "clear")
    assert lab.must("strict", "hostname") == "strict\n"
    assert lab.run("list").returncode == 0
