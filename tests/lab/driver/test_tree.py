"""The computed /sys has the kernel's and the driver's files, formats and modes."""

from __future__ import annotations

import errno
import os
import posixpath
import stat
import threading
import uuid

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from vgpumgr.lab.driver.driver import Driver
from vgpumgr.lab.spec import host_state
from vgpumgr.lab.spec_reader import load_spec
from vgpumgr.lab.sysfs.tree import NVML_PATH, PROC_DRIVER_PATH, Tree, WriteRecord

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


def test_a_physical_function_looks_as_the_kernel_shows_it() -> None:
    sysfs = Sys("mdev-vf")
    top = "/bus/pci/devices/0000:41:00.0"
    assert sysfs.read(f"{top}/vendor") == "0x10de\n"
    assert sysfs.read(f"{top}/device") == "0x2235\n"
    assert sysfs.read(f"{top}/class") == "0x030200\n"
    assert sysfs.read("/bus/pci/devices/0000:81:00.0/numa_node") == "1\n"
    assert (sysfs.read(f"{top}/sriov_totalvfs"), sysfs.read(f"{top}/sriov_numvfs")) == ("32\n", "32\n")
    assert posixpath.basename(sysfs.tree.readlink("/devices/pci0000:41/0000:41:00.0/virtfn4")) == "0000:41:01.0"
    assert sysfs.real(f"/bus/pci/devices/{VF0}/physfn") == sysfs.real(top)
    assert posixpath.basename(sysfs.real(f"{top}/driver")) == "nvidia"
    group = posixpath.basename(sysfs.real(f"/bus/pci/devices/{VF0}/iommu_group"))
    assert sysfs.list(f"/kernel/iommu_groups/{group}/devices") == [VF0]
    assert sysfs.tree.read(sysfs.real(f"{top}/config"))[:4] == b"\xde\x10\x35\x22"
    assert "mdev_supported_types" not in sysfs.list(top)


def test_sriov_numvfs_is_refused_by_hand() -> None:
    sysfs = Sys("vendor-vfio")
    path = "/bus/pci/devices/0000:41:00.0/sriov_numvfs"
    assert failed(sysfs, path, "0\n") == "ENOENT"
    assert failed(sysfs, path, "33\n") == "ERANGE"
    for text in ("x\n", " 32", "65536", "-1", "040 "):
        assert failed(sysfs, path, text) == "EINVAL"
    for text in ("32\n", "0x20", "040"):
        sysfs.write(path, text)
    assert sysfs.read(path) == "32\n"


def test_an_mdev_comes_and_goes_everywhere_at_once() -> None:
    sysfs = Sys("mdev-vf")
    kind = f"/class/mdev_bus/{VF0}/mdev_supported_types/nvidia-560"
    assert sysfs.read(f"{kind}/name") == "NVIDIA A40-4Q\n"
    assert sysfs.read(f"{kind}/description") == (
        "num_heads=4, frl_config=60, framebuffer=4096M, max_resolution=7680x4320, max_instance=12\n"
    )
    assert sysfs.read(f"{kind}/device_api") == "vfio-pci\n"
    assert sysfs.read(f"{kind}/available_instances") == "1\n"
    sysfs.write(f"{kind}/create", f"{A}\n")
    assert sysfs.list("/bus/mdev/devices") == [A]
    assert sysfs.list(f"{kind}/devices") == [A]
    assert sysfs.read(f"{kind}/available_instances") == "0\n"
    assert sysfs.read(f"/class/mdev_bus/{VF1}/mdev_supported_types/nvidia-562/available_instances") == "0\n"
    device = f"/bus/mdev/devices/{A}"
    assert posixpath.basename(sysfs.real(f"{device}/mdev_type")) == "nvidia-560"
    assert posixpath.basename(posixpath.dirname(sysfs.real(device))) == VF0
    assert sysfs.read(f"{device}/nvidia/placement_id") == "Not Applicable\n"
    group = posixpath.basename(sysfs.real(f"{device}/iommu_group"))
    assert sysfs.list(f"/kernel/iommu_groups/{group}/devices") == [A]
    assert sysfs.list(f"{device}/vfio-dev") == ["vfio64"]  # the first behind those of the VFs
    assert sysfs.real("/class/vfio-dev/vfio64") == sysfs.real(f"{device}/vfio-dev/vfio64")
    sysfs.write(f"{device}/remove", "1\n")
    assert sysfs.list("/bus/mdev/devices") == []
    assert sysfs.list(f"{kind}/devices") == []
    assert failed(sysfs, f"{device}/remove", "1\n") == "ENOENT"
    assert A not in sysfs.list(f"/bus/pci/devices/{VF0}")
    assert group not in sysfs.list("/kernel/iommu_groups")


def test_what_was_opened_is_enodev_when_it_is_gone() -> None:
    sysfs = Sys("mdev-vf")
    sysfs.write(f"/class/mdev_bus/{VF0}/mdev_supported_types/nvidia-560/create", A)
    opened = sysfs.real(f"/bus/mdev/devices/{A}")
    sysfs.write(f"/bus/mdev/devices/{A}/remove", "1")
    for call in (
        lambda: sysfs.tree.write(f"{opened}/remove", b"1"),
        lambda: sysfs.tree.read(f"{opened}/nvidia/placement_id"),
    ):
        with pytest.raises(OSError) as caught:
            call()
        assert caught.value.errno == errno.ENODEV


def test_while_a_removal_waits_only_the_iommu_group_is_left_below_the_parent() -> None:
    sysfs = Sys("mdev-vf")
    driver = sysfs.driver
    sysfs.write(f"/class/mdev_bus/{VF0}/mdev_supported_types/nvidia-560/create", A)
    driver.hold(A, VM, "vm01")
    before = driver.revision
    writer = threading.Thread(target=sysfs.write, args=(f"/bus/mdev/devices/{A}/remove", "1"))
    writer.start()
    driver.wait_change(before, 10)
    left = f"/bus/pci/devices/{VF0}/{A}"
    assert sysfs.list(left) == ["iommu_group"]
    assert sysfs.list(f"{left}/iommu_group/devices") == [A]
    assert failed(sysfs, f"/bus/mdev/devices/{A}/remove", "1") == "ENOENT"
    driver.release(VM)
    writer.join(10)
    assert not writer.is_alive()
    assert A not in sysfs.list(f"/bus/pci/devices/{VF0}")


def test_on_the_pf_all_types_of_one_size_share_what_is_left() -> None:
    sysfs = Sys("mdev-pf")
    types = "/class/mdev_bus/0000:41:00.0/mdev_supported_types"
    sysfs.write(f"{types}/nvidia-232/create", A)
    left = {name: int(sysfs.read(f"{types}/{name}/available_instances")) for name in sysfs.list(types)}
    assert {name: count for name, count in left.items() if count} == {
        "nvidia-232": 3,  # T4-4Q
        "nvidia-227": 3,  # T4-4A
        "nvidia-319": 3,  # T4-4C
    }
    assert "sriov_totalvfs" not in sysfs.list("/bus/pci/devices/0000:41:00.0")


def test_create_and_remove_cannot_be_read_nor_names_written_even_by_root() -> None:
    sysfs = Sys("mdev-vf")
    kind = f"/class/mdev_bus/{VF0}/mdev_supported_types/nvidia-560"
    assert failed(sysfs, f"{kind}/create") == "EACCES"
    assert failed(sysfs, f"{kind}/name", "x") == "EACCES"
    with pytest.raises(PermissionError):
        sysfs.tree.open(sysfs.real(f"{kind}/create"), os.O_RDONLY)
    with pytest.raises(PermissionError):
        sysfs.tree.open(sysfs.real(f"{kind}/create"), os.O_RDWR)
    assert sysfs.tree.node(sysfs.real(f"{kind}/create")).mode == stat.S_IFREG | 0o200


def test_creatable_vgpu_types_is_the_driver_s_text_and_shrinks_to_its_header() -> None:
    sysfs = Sys("vendor-vfio")
    mine, other = f"/bus/pci/devices/{VF0}/nvidia", f"/bus/pci/devices/{VF1}/nvidia"
    lines = sysfs.read(f"{mine}/creatable_vgpu_types").splitlines()
    assert lines[0] == "ID    : vGPU Name"
    assert "1145  : NVIDIA L40S-1B" in lines
    sysfs.write(f"{mine}/current_vgpu_type", "1150\n")
    assert sysfs.read(f"{mine}/current_vgpu_type") == "1150\n"
    assert sysfs.read(f"{mine}/creatable_vgpu_types") == "ID    : vGPU Name\n"
    rest = {line.rpartition("-")[2] for line in sysfs.read(f"{other}/creatable_vgpu_types").splitlines()[1:]}
    assert rest == {"4Q", "4C", "4A"}
    assert failed(sysfs, f"{other}/current_vgpu_type", "1152\n") == "EIO"
    assert sysfs.read(f"{other}/current_vgpu_type") == "0\n"
    assert "/bus/mdev" not in {f"/bus/{name}" for name in sysfs.list("/bus")}
    assert "nvidia" not in sysfs.list("/bus/pci/devices/0000:41:00.0")


def test_a_vf_s_placement_is_known_once_it_has_a_type() -> None:
    sysfs = Sys("vendor-vfio")
    for index, vf in enumerate((VF0, VF1)):
        files = f"/bus/pci/devices/{vf}/nvidia"
        assert failed(sysfs, f"{files}/placement_id") == "ENXIO"
        sysfs.write(f"{files}/current_vgpu_type", "1150")
        assert sysfs.read(f"{files}/placement_id") == f"{4 * index}\n"
        assert failed(sysfs, f"{files}/gpu_instance_id") == "ENXIO"


def test_vgpu_params_can_be_set_until_a_vm_holds_the_vgpu() -> None:
    sysfs = Sys("vendor-vfio")
    files = f"/bus/pci/devices/{VF0}/nvidia"
    assert failed(sysfs, f"{files}/vgpu_params", "enable_uvm=1") == "ENXIO"
    sysfs.write(f"{files}/current_vgpu_type", "1150")
    sysfs.write(f"{files}/vgpu_params", "enable_uvm=1\n")
    assert sysfs.read(f"{files}/vgpu_params") == "enable_uvm=1\n"
    sysfs.driver.hold(VF0, VM, "vm01")
    assert failed(sysfs, f"{files}/vgpu_params", "enable_uvm=0") == "EPERM"


def test_each_vf_has_its_own_vfio_device_on_vendor_vfio() -> None:
    sysfs = Sys("vendor-vfio")
    first = sysfs.list(f"/bus/pci/devices/{VF0}/vfio-dev")
    second = sysfs.list("/bus/pci/devices/0000:81:00.4/vfio-dev")
    assert (first, second) == (["vfio0"], ["vfio32"])


def test_proc_driver_is_in_the_driver_s_format() -> None:
    sysfs = Sys("mdev-vf")
    text = sysfs.read(f"{PROC_DRIVER_PATH}/nvidia/gpus/0000:41:00.0/information")
    uuid_line = next(line for line in text.splitlines() if line.startswith("GPU UUID"))
    assert text.startswith("Model: \t\t NVIDIA A40\n")
    assert uuid_line.startswith("GPU UUID: \t GPU-")
    assert "Bus Location: \t 0000:41:00.0\n" in text
    assert "570.172.07" in sysfs.read(f"{PROC_DRIVER_PATH}/nvidia/version")
    assert sysfs.read("/module/nvidia/version") == "570.172.07\n"
    assert sysfs.read(NVML_PATH) == "state of NVML\n"


def test_late_vfs_are_not_there_and_then_they_are() -> None:
    sysfs = Sys("mdev-vf")
    sysfs.driver.set_fault("late-vfs")
    sysfs.driver.reboot("boot-2")
    top = "/bus/pci/devices/0000:41:00.0"
    assert sysfs.read(f"{top}/sriov_numvfs") == "0\n"
    assert sysfs.list("/class/mdev_bus") == []
    assert len(sysfs.list("/bus/pci/devices")) == 2
    sysfs.driver.enable_vfs()
    assert len(sysfs.list("/class/mdev_bus")) == 64


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


@settings(max_examples=25, deadline=None)
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
    "text", ["", "x", "-", "1 0", " 1", "1_0", "0x", "0x47e", "1150x", "1\n\n", "++1", "-+1", "1 \n"]
)
def test_what_is_no_number_is_einval(text: str) -> None:
    assert failed(Sys("vendor-vfio"), f"/bus/pci/devices/{VF0}/nvidia/current_vgpu_type", text) == "EINVAL"


@pytest.mark.parametrize(
    "text", ["9223372036854775808", "-9223372036854775809\n", "18446744073709551616", "18446744073709551616x"]
)
def test_a_number_that_does_not_fit_is_erange(text: str) -> None:
    assert failed(Sys("vendor-vfio"), f"/bus/pci/devices/{VF0}/nvidia/current_vgpu_type", text) == "ERANGE"


@pytest.mark.parametrize("text", ["01150\n", "+1150\n", "1150\0x", "4294968446"])
def test_a_type_is_decimal_whatever_it_begins_with_and_the_driver_sees_32_bits_of_it(text: str) -> None:
    vendor = Sys("vendor-vfio")
    vendor.write(f"/bus/pci/devices/{VF0}/nvidia/current_vgpu_type", text)
    assert vendor.read(f"/bus/pci/devices/{VF0}/nvidia/current_vgpu_type") == "1150\n"


def test_removal_by_0_does_nothing_and_by_a_number_of_64_bits_removes() -> None:
    mdev = Sys("mdev-vf")
    mdev.write(f"/class/mdev_bus/{VF0}/mdev_supported_types/nvidia-560/create", A)
    mdev.write(f"/bus/mdev/devices/{A}/remove", "0\n")
    assert failed(mdev, f"/bus/mdev/devices/{A}/remove", "18446744073709551616") == "EINVAL"
    assert mdev.list("/bus/mdev/devices") == [A]
    mdev.write(f"/bus/mdev/devices/{A}/remove", "99999999999\n")
    assert mdev.list("/bus/mdev/devices") == []


@pytest.mark.parametrize(
    ("spec", "branch", "files"),
    [
        ("mdev-vf", "525", {"vgpu_params", "vm_name"}),
        ("mdev-vf", "570", {"vgpu_params", "vm_name", "placement_id", "gpu_instance_id"}),
        ("vendor-vfio", "525", {"creatable_vgpu_types", "current_vgpu_type"}),
        (
            "vendor-vfio",
            "580",
            {
                "creatable_vgpu_types",
                "current_vgpu_type",
                "placement_id",
                "gpu_instance_id",
                "vgpu_params",
                "warm_update",
            },
        ),
    ],
)
def test_later_branches_have_more_files_in_nvidia(spec: str, branch: str, files: set[str]) -> None:
    sysfs = Sys(spec, branch=branch)
    if spec == "vendor-vfio":
        folder = f"/bus/pci/devices/{VF0}/nvidia"
    else:
        sysfs.write(f"/class/mdev_bus/{VF0}/mdev_supported_types/nvidia-560/create", A)
        folder = f"/bus/mdev/devices/{A}/nvidia"
    assert set(sysfs.list(folder)) == files


def test_a_board_may_have_its_first_vf_at_function_2_of_another_pci_domain() -> None:
    """As captured on a host with RTX PRO 6000 boards: 48 VFs, virtfn0 is .2 and virtfn14 is 02.0."""
    sysfs = Sys("blackwell")
    top = "/devices/pci0001:c8/0001:c8:00.0"
    assert [sysfs.read(f"{top}/sriov_{name}") for name in ("numvfs", "offset", "stride")] == ["48\n", "2\n", "1\n"]
    for number, address in ((0, "0001:c8:00.2"), (6, "0001:c8:01.0"), (14, "0001:c8:02.0"), (47, "0001:c8:06.1")):
        assert posixpath.basename(sysfs.tree.readlink(f"{top}/virtfn{number}")) == address
    assert "DC-4Q" in sysfs.read("/bus/pci/devices/0001:c8:00.2/nvidia/creatable_vgpu_types")
