"""Mixed-size mode of the lab's driver, and core's geometry held against it: two implementations that share nothing."""

from __future__ import annotations

import errno
from collections import Counter
from typing import TYPE_CHECKING

import pytest

from tests.lab.driver.sequences import SEQUENCES, Created, events, geometry_of
from tests.lab.driver.test_admission_laws import PCI, create, one_gpu, remove
from vgpumgr.host.protocol import MDEV_PF, MDEV_VF, VENDOR_VFIO
from vgpumgr.lab.driver import admission, places
from vgpumgr.lab.driver.addresses import vf_pci
from vgpumgr.lab.driver.boards import board_codes
from vgpumgr.lab.driver.model import ModuleOptions
from vgpumgr.lab.driver.scheduler import Order

if TYPE_CHECKING:
    from collections.abc import Callable

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


def test_core_and_the_labs_driver_agree_on_random_sequences_over_all_boards_and_both_modes() -> None:
    told = Counter(
        event if isinstance(event, str) else type(event).__name__
        for seen in events()
        for event in (seen, *(("taken" if seen.taken else "refused",) if isinstance(seen, Created) else ()))
    )
    assert told["Began"] == SEQUENCES
    assert min(told["taken"], told["refused"], told["Removed"]) > SEQUENCES, told


@pytest.mark.parametrize("framework", [VENDOR_VFIO, MDEV_VF])
def test_types_of_every_size_stand_on_one_gpu(framework: str) -> None:
    driver, gpu = mixed_gpu("L40S", framework)
    for vf, short in enumerate(("24Q", "12Q", "8Q", "4Q")):
        assert create(driver, gpu, vf, kind_of(gpu, short))
    assert [vgpu.placement_id for vgpu in gpu.vgpus] == [0, 24, 40, 36]
    assert create(driver, gpu, 5, kind_of(gpu, "1Q")) is None  # full
    assert driver.creatable(PCI) == ()


def error_of(change: Callable[[], None]) -> int | None:
    try:
        change()
    except OSError as error:
        return error.errno
    return None


def test_a_place_is_chosen_among_those_that_overlap_nothing_the_vgpu_itself_included() -> None:
    driver, gpu = mixed_gpu()
    first, second = vf_pci(gpu, 0), vf_pci(gpu, 1)
    assert error_of(lambda: driver.set_placement(first, 0)) == errno.ENXIO
    driver.set_vf_type(first, kind_of(gpu, "8Q").id)
    driver.set_vf_type(second, kind_of(gpu, "4Q").id)
    assert [vgpu.placement_id for vgpu in gpu.vgpus] == [0, 8]
    driver.set_fault("own-places")
    assert error_of(lambda: driver.set_placement(first, 40)) == errno.EIO
    driver.clear_faults()
    driver.set_placement(first, 40)
    driver.set_placement(first, 40)
    assert gpu.vgpus[0].placement_id == 40
    assert error_of(lambda: driver.set_placement(first, 8)) == errno.EIO  # no id of an 8Q
    driver.set_placement(second, 0)
    assert error_of(lambda: driver.set_placement(first, 0)) == errno.EIO  # the second one's
    gpu.vgpus[0].holder_uuid = "u"
    assert error_of(lambda: driver.set_placement(first, 24)) == errno.EPERM


def test_the_mode_is_set_on_an_empty_gpu_with_vfs_alone() -> None:
    driver, gpu = one_gpu("A40", MDEV_VF)
    key = create(driver, gpu, 0, kind_of(gpu, "4Q"))
    assert key is not None
    assert error_of(lambda: driver.set_mixed(PCI, mixed=True)) == errno.EBUSY
    remove(driver, gpu, key)
    driver.set_mixed(PCI, mixed=True)
    gpu.vfs_on = False
    assert error_of(lambda: driver.set_mixed(PCI, mixed=False)) == errno.EOPNOTSUPP
    without, _ = one_gpu("T4", MDEV_PF)
    assert error_of(lambda: without.set_mixed(PCI, mixed=True)) == errno.EOPNOTSUPP


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
    assert error_of(lambda: driver.set_scheduler(PCI, fixed)) == errno.EOPNOTSUPP
    driver.set_mixed(PCI, mixed=False)
    driver.set_scheduler(PCI, fixed)
    assert admission.creatable(gpu)
