"""Faults of firmware and binding, as /sys shows them."""

from __future__ import annotations

import pytest

from tests.model.machine import _board
from vgpumgr.host.protocol.gpu import MDEV_VF, VENDOR_VFIO
from vgpumgr.lab import spec
from vgpumgr.lab.driver import ill_host
from vgpumgr.lab.driver.driver import Driver
from vgpumgr.lab.sysfs.tree import Tree

GPU, VF = "0000:41:00.0", "0000:41:00.4"
DEVICES = "/bus/pci/devices"
BOARDS = {MDEV_VF: "A40", VENDOR_VFIO: "L40S"}


@pytest.fixture(params=[MDEV_VF, VENDOR_VFIO])
def host(request: pytest.FixtureRequest) -> tuple[Driver, Tree]:
    gpu = spec.GpuSpec(
        pci=GPU, uuid="GPU-x", board=_board(BOARDS[request.param]), framework=request.param, numa_node=0, mig=False
    )
    one = spec.HostSpec(name="kvm01", machine_id="0" * 32, driver_version="570.172.07", gpus=(gpu,))
    driver = Driver(spec.host_state(one, boot_id=""))
    driver.reboot("b1")
    return driver, Tree(driver, lambda: "")


def shown(tree: Tree, function: str) -> set[str]:
    return set(tree.readdir(tree.readlink(f"{DEVICES}/{function}").replace("../../../", "/")))


def test_another_driver_has_the_function_until_the_fault_is_cleared(host: tuple[Driver, Tree]) -> None:
    driver, tree = host
    before = shown(tree, GPU), shown(tree, VF)
    driver.set_fault(f"bound:{VF}:vfio-pci")
    assert tree.readlink(f"{tree.readlink(f'{DEVICES}/{VF}').replace('../../../', '/')}/driver").endswith("vfio-pci")
    assert not {"nvidia", "mdev_supported_types"} & shown(tree, VF)
    assert shown(tree, GPU) == before[0]
    driver.set_fault(f"bound:{GPU}:none")
    assert "driver" not in shown(tree, GPU)
    assert not [name for name in shown(tree, GPU) if name.startswith("virtfn")]
    driver.clear_faults()
    assert (shown(tree, GPU), shown(tree, VF)) == before


@pytest.mark.parametrize(
    ("fault", "gone"),
    [(ill_host.IOMMU_OFF, "iommu_group"), (ill_host.SRIOV_OFF, "sriov_totalvfs"), (ill_host.SRIOV_OFF, "virtfn0")],
)
def test_what_the_firmware_turns_off_is_not_there(host: tuple[Driver, Tree], fault: str, gone: str) -> None:
    driver, tree = host
    assert gone in shown(tree, GPU)
    driver.set_fault(fault)
    assert gone not in shown(tree, GPU)


def test_without_its_module_nothing_makes_vgpus(host: tuple[Driver, Tree]) -> None:
    driver, tree = host
    assert ill_host.VGPU_MODULE in tree.readdir("/module")
    driver.set_fault(ill_host.NO_VGPU_MODULE)
    assert ill_host.VGPU_MODULE not in tree.readdir("/module")
    assert not {"nvidia", "mdev_supported_types"} & shown(tree, VF)


@pytest.mark.parametrize("name", ["bound", "bound:x:y", f"bound:{GPU}", f"bound:{GPU}:a b", f"bound:{GPU}:../x"])
def test_a_fault_that_names_no_function_or_driver_is_none(name: str) -> None:
    assert not ill_host.is_bound(name)
