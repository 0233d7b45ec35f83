"""MIG in the computed /sys: what a VF offers, and the instance of a vGPU."""

from __future__ import annotations

from tests.lab.driver.migs import cut
from tests.lab.driver.test_tree import VF0, VF1, Sys

A = "9e0d0000-0000-4000-8000-00000000000a"
HEADER = "ID    : vGPU Name\n"


def test_an_mdev_parent_has_the_types_of_both_modes_and_those_of_the_other_mode_are_not_available() -> None:
    sysfs = Sys("mig")
    backed, sliced = (f"/class/mdev_bus/{vf}/mdev_supported_types" for vf in (VF0, "0000:81:00.4"))
    assert sysfs.list(backed) == sysfs.list(sliced)
    assert sysfs.read(f"{backed}/nvidia-475/name") == "GRID A100-2-10C\n"
    free = "available_instances"
    assert [sysfs.read(f"{sliced}/nvidia-{kind}/{free}") for kind in (468, 475)] == ["1\n", "0\n"]
    assert [sysfs.read(f"{backed}/nvidia-{kind}/{free}") for kind in (468, 475)] == ["0\n", "0\n"]
    gpu = sysfs.driver.gpu("0000:41:00.0")
    instance = cut(sysfs.driver, gpu, "2g.10gb")
    assert sysfs.read(f"{backed}/nvidia-475/{free}") == "1\n"
    sysfs.write(f"{backed}/nvidia-475/create", A)
    assert sysfs.read(f"/bus/mdev/devices/{A}/nvidia/gpu_instance_id") == f"{instance.id}\n"
    assert sysfs.read(f"/bus/mdev/devices/{A}/nvidia/placement_id") == "Not Applicable\n"
    assert sysfs.read(f"/class/mdev_bus/{VF1}/mdev_supported_types/nvidia-475/{free}") == "0\n"


def test_vfs_that_sriov_manage_takes_away_are_gone_from_sys() -> None:
    sysfs = Sys("mig")
    sysfs.driver.set_vfs("0000:41:00.0", on=False)
    assert sysfs.read("/bus/pci/devices/0000:41:00.0/sriov_numvfs") == "0\n"
    assert VF0 not in sysfs.list("/class/mdev_bus")
    assert "0000:81:00.4" in sysfs.list("/class/mdev_bus")
    sysfs.driver.set_vfs("0000:41:00.0", on=True)
    assert VF0 in sysfs.list("/class/mdev_bus")
