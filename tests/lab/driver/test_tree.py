"""The computed /sys has the kernel's and the driver's files, formats and modes."""

from __future__ import annotations

import errno
import os
import posixpath
import stat
import uuid

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.dose import dose
from tests.lab.driver.migs import cut
from vgpumgr.lab.driver.driver import Driver
from vgpumgr.lab.spec import host_state
from vgpumgr.lab.spec_reader import load_spec
from vgpumgr.lab.sysfs.tree import Tree, WriteRecord

A = "9e0d0000-0000-4000-8000-00000000000a"
VM = "6a1f0000-0000-4000-8000-000000000001"
VERBS = ("create", "remove", "hold", "release", "reboot", "late")
VF0, VF1 = "0000:41:00.4", "0000:41:00.5"


class Sys:
    """A tree with its driver and write log; paths go through links, as open(2) does."""

    def __init__(self, spec: str, host: str = "kvm01", *, branch: str = "") -> None:
        state = host_state(load_spec(spec).host(host), boot_id="boot-1")
        if branch:
            state.driver_version = f"{branch}.1"
        self.driver = Driver(state)
        self.writes: list[WriteRecord] = []
        self.tree = Tree(self.driver, lambda: "state of NVML\n", on_write=self.writes.append)

    def real(self, path: str) -> str:
        done = "/"
        for part in path.strip("/").split("/"):
            done = posixpath.join(done, part)
            if stat.S_ISLNK(self.tree.node(done).mode):
                target = posixpath.join(posixpath.dirname(done), self.tree.readlink(done))
                done = self.real(posixpath.normpath(target))
        return done

    def read(self, path: str) -> str:
        return self.tree.read(self.real(path)).decode()

    def write(self, path: str, text: str) -> None:
        real = self.real(path)
        self.tree.open(real, os.O_WRONLY)
        self.tree.truncate(real)
        assert self.tree.write(real, text.encode()) == len(text)

    def list(self, path: str) -> list[str]:
        return self.tree.readdir(self.real(path))


def failed(sysfs: Sys, path: str, text: str | None = None) -> str:
    with pytest.raises(OSError) as caught:
        sysfs.read(path) if text is None else sysfs.write(path, text)
    return errno.errorcode[caught.value.errno or 0]


@pytest.mark.parametrize(
    ("spec", "host"),
    [("mdev-pf", "kvm01"), ("mdev-vf", "kvm02"), ("vendor-vfio", "kvm01"), ("mixed-fleet", "kvm03")],
)
def test_every_name_listed_is_there_and_every_link_leads_to_something(spec: str, host: str) -> None:
    sysfs = Sys(spec, host)
    sysfs.driver.make_foreign()
    tree = sysfs.tree
    waiting = ["/"]
    seen = 0
    while waiting:
        path = waiting.pop()
        node = tree.node(path)
        seen += 1
        if stat.S_ISDIR(node.mode):
            names = tree.readdir(path)
            assert len(set(names)) == len(names)
            waiting += [posixpath.join(path, name) for name in names]
        elif stat.S_ISLNK(node.mode) and path != "/bus/pci/drivers/nvidia/module":
            tree.node(sysfs.real(path))
        else:
            assert bool(node.mode & 0o444) == (node.read is not None)
            assert bool(node.mode & 0o200) == (node.write is not None) or path.endswith("/config")
    assert seen > 200


def test_vfio_devices_are_numbered_by_vf_and_an_mdev_s_comes_behind_them() -> None:
    """Groups and devices are found from both sides; a host of the vendor's framework alone has no mdev bus."""
    vendor, mdev = Sys("vendor-vfio"), Sys("mdev-vf")
    assert [vendor.list(f"/bus/pci/devices/{vf}/vfio-dev") for vf in (VF0, "0000:81:00.4")] == [["vfio0"], ["vfio32"]]
    assert "mdev" not in vendor.list("/bus")
    mdev.write(f"/class/mdev_bus/{VF0}/mdev_supported_types/nvidia-560/create", A)
    device = f"/bus/mdev/devices/{A}"
    group = posixpath.basename(mdev.real(f"{device}/iommu_group"))
    assert mdev.list(f"/kernel/iommu_groups/{group}/devices") == [A]
    assert mdev.list(f"{device}/vfio-dev") == ["vfio64"]
    assert mdev.real("/class/vfio-dev/vfio64") == mdev.real(f"{device}/vfio-dev/vfio64")
    mdev.write(f"{device}/remove", "1\n")
    assert group not in mdev.list("/kernel/iommu_groups")


def test_a_number_ends_at_a_nul() -> None:
    vendor = Sys("vendor-vfio")
    vendor.write(f"/bus/pci/devices/{VF0}/nvidia/current_vgpu_type", "1150\0x")
    assert vendor.read(f"/bus/pci/devices/{VF0}/nvidia/current_vgpu_type") == "1150\n"


def test_every_attempted_write_is_told_with_its_errno() -> None:
    sysfs = Sys("mdev-vf")
    path = f"/class/mdev_bus/{VF0}/mdev_supported_types/nvidia-560/create"
    real = "/sys" + sysfs.real(path)
    sysfs.write(path, f"{A}\n")
    failed(sysfs, path, f"{A}\n")
    failed(sysfs, path, f"{uuid.UUID(int=1)}\n")
    assert [(record["path"], record["errno"]) for record in sysfs.writes] == [
        (real, None),
        (real, "EEXIST"),
        (real, "EIO"),
    ]
    assert sysfs.writes[0]["data"] == f"{A}\n"


@settings(max_examples=dose(8, 25), deadline=None)
@given(script=st.lists(st.tuples(st.sampled_from(VERBS), st.integers(0, 3))))
def test_a_tree_that_saw_every_change_is_the_tree_of_one_that_saw_only_the_last(
    script: list[tuple[str, int]],
) -> None:
    sysfs = Sys("mdev-vf", "kvm02")
    driver = sysfs.driver
    for verb, index in script:
        name = f"{A[:-1]}{index}"
        held = driver.find(name) is not None and driver.find(name)[1].holder_uuid is not None  # type: ignore[index]
        try:
            match verb:
                case "create":
                    driver.create_mdev(f"0000:41:00.{4 + index}", 468, name)
                case "remove" if not held:
                    driver.remove_mdev(name)
                case "hold":
                    driver.hold(name, VM, "vm01")
                case "release":
                    driver.release(VM)
                case "reboot":
                    driver.reboot("next")
                case "late":
                    driver.set_fault("late-vfs")
                    driver.reboot("next")
                    if index % 2:
                        driver.clear_faults()
                case _:
                    pass
        except OSError:
            pass
        sysfs.tree.node("/")
    fresh = Tree(driver, lambda: "")
    assert names(sysfs.tree) == names(fresh)
    with driver.reading() as state:
        assert sorted(sysfs.list("/bus/mdev/devices")) == sorted(
            vgpu.uuid for gpu in state.gpus for vgpu in gpu.vgpus if vgpu.uuid
        )


def names(tree: Tree) -> dict[str, tuple[int, str, tuple[str, ...]]]:
    """Every path with its mode, target and names in order."""
    found: dict[str, tuple[int, str, tuple[str, ...]]] = {}
    waiting = ["/"]
    while waiting:
        path = waiting.pop()
        node = tree.node(path)
        found[path] = (node.mode, node.target, tuple(sorted(node.names)))
        waiting += [posixpath.join(path, name) for name in node.names]
    return found


@pytest.mark.parametrize(
    ("spec", "branch", "files"),
    [
        ("mdev-vf", "525", "vgpu_params vm_name"),
        ("mdev-vf", "570", "gpu_instance_id placement_id vgpu_params vm_name"),
        ("vendor-vfio", "525", "creatable_vgpu_types current_vgpu_type"),
        (
            "vendor-vfio",
            "580",
            "creatable_vgpu_types current_vgpu_type gpu_instance_id placement_id vgpu_params warm_update",
        ),
    ],
)
def test_later_branches_have_more_files_in_nvidia(spec: str, branch: str, files: str) -> None:
    sysfs = Sys(spec, branch=branch)
    if spec == "vendor-vfio":
        folder = f"/bus/pci/devices/{VF0}/nvidia"
    else:
        sysfs.write(f"/class/mdev_bus/{VF0}/mdev_supported_types/nvidia-560/create", A)
        folder = f"/bus/mdev/devices/{A}/nvidia"
    assert sorted(sysfs.list(folder)) == files.split()


def test_a_board_may_have_its_first_vf_at_function_2_of_another_pci_domain() -> None:
    """As captured on a host with RTX PRO 6000 boards: 48 VFs, virtfn0 is .2 and virtfn14 is 02.0."""
    sysfs = Sys("blackwell")
    top = "/devices/pci0001:c8/0001:c8:00.0"
    assert [sysfs.read(f"{top}/sriov_{name}") for name in ("numvfs", "offset", "stride")] == ["48\n", "2\n", "1\n"]
    for number, address in ((0, "0001:c8:00.2"), (6, "0001:c8:01.0"), (14, "0001:c8:02.0"), (47, "0001:c8:06.1")):
        assert posixpath.basename(sysfs.tree.readlink(f"{top}/virtfn{number}")) == address
    assert "DC-4Q" in sysfs.read("/bus/pci/devices/0001:c8:00.2/nvidia/creatable_vgpu_types")


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
