"""Mixed-size mode of the lab's driver, and core's geometry held against it: two implementations that share nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.lab.driver.migs import error_of
from tests.lab.driver.sequences import geometry_of
from tests.lab.driver.test_admission_laws import PCI, one_gpu
from vgpumgr.host.protocol.gpu import MDEV_VF, VENDOR_VFIO
from vgpumgr.lab.driver import admission, places
from vgpumgr.lab.driver.addresses import vf_pci
from vgpumgr.lab.driver.boards import board_codes
from vgpumgr.lab.driver.model import ModuleOptions
from vgpumgr.lab.driver.scheduler import Order

if TYPE_CHECKING:
    from vgpumgr.lab.driver.driver import Driver
    from vgpumgr.lab.driver.model import Gpu, TypeSpec


def mixed_gpu(code: str = "L40S", framework: str = VENDOR_VFIO) -> tuple[Driver, Gpu]:
    driver, gpu = one_gpu(code, framework)
    driver.set_mixed(PCI, mixed=True)
    return driver, gpu


def kind_of(gpu: Gpu, short: str) -> TypeSpec:
    return next(kind for kind in gpu.board.types if kind.name.endswith(f"-{short}"))


@pytest.mark.parametrize("code", board_codes())
def test_core_and_the_labs_driver_compute_the_same_ids_for_every_type(code: str) -> None:
    _, gpu = one_gpu(code, VENDOR_VFIO)
    for kind in gpu.board.types:
        known = geometry_of(gpu, kind)
        if known is None:
            assert kind.framebuffer_mib < 1024
            continue
        assert known.size == places.slots(gpu.board, kind)
        assert known.mixed == places.supported(gpu.board, kind, mixed=True)
        assert places.supported(gpu.board, kind, mixed=False) in ((), known.equal)
        assert bool(places.supported(gpu.board, kind, mixed=False)) == gpu.board.placements


def test_a_driver_with_places_of_its_own_lets_none_be_chosen() -> None:
    driver, gpu = mixed_gpu()
    vf = vf_pci(gpu, 0)
    driver.set_vf_type(vf, kind_of(gpu, "8Q").id)
    driver.set_fault("own-places")
    assert error_of(lambda: driver.set_placement(vf, 40)) == "EIO"
    driver.clear_faults()
    driver.set_placement(vf, 40)
    assert gpu.vgpus[0].placement_id == 40


def test_without_vfs_the_mode_cannot_be_set() -> None:
    driver, gpu = one_gpu("A40", MDEV_VF)
    gpu.vfs_on = False
    assert error_of(lambda: driver.set_mixed(PCI, mixed=True)) == "EOPNOTSUPP"


def test_the_mode_ends_with_a_reboot_a_reload_and_sriov_manage() -> None:
    driver, gpu = mixed_gpu()
    driver.reboot("next")
    assert not gpu.mixed
    driver.set_mixed(PCI, mixed=True)
    driver.load_module(ModuleOptions())
    assert not gpu.mixed
    driver.set_mixed(PCI, mixed=True)
    gpu.vfs_on = False
    driver.enable_vfs()
    assert not gpu.mixed


def test_fixed_share_does_not_go_with_it() -> None:
    driver, gpu = mixed_gpu()
    fixed = Order(policy=3, engine=None, arr=0, factor=0, frequency_hz=0, time_slice_ns=0)
    assert error_of(lambda: driver.set_scheduler(PCI, fixed)) == "EOPNOTSUPP"
    driver.set_mixed(PCI, mixed=False)
    driver.set_scheduler(PCI, fixed)
    assert admission.creatable(gpu)
