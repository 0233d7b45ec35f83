"""MIG mode of the lab's driver: when it changes, what it takes away, what ends it."""

from __future__ import annotations

import pytest

from tests.lab.driver.migs import MIG_BOARDS, backed, cut, error_of, mig_gpu, put
from tests.lab.driver.test_admission_laws import PCI, one_gpu
from vgpumgr.host.protocol.gpu import MDEV_PF, VENDOR_VFIO
from vgpumgr.lab.driver.boards import board
from vgpumgr.lab.driver.model import ModuleOptions

NEEDS_RESET = {"A30", "A100", "A100X", "A100D", "A100DX", "A800", "A800D", "A800DX"}


def test_only_ampere_boards_need_a_reset() -> None:
    assert {code for code in MIG_BOARDS if (mig := board(code, "test").mig) and mig.needs_reset} == NEEDS_RESET


def test_a_board_that_needs_a_reset_has_the_new_mode_pending_until_then() -> None:
    driver, gpu = one_gpu("A100", VENDOR_VFIO)
    driver.set_vfs(PCI, on=False)
    driver.set_mig(PCI, on=True)
    assert (gpu.mig_on, gpu.mig_pending) == (False, True)
    driver.reset(PCI)
    assert (gpu.mig_on, gpu.mig_pending) == (True, True)
    driver.set_mig(PCI, on=False)
    assert (gpu.mig_on, gpu.mig_pending) == (True, False)
    driver.set_mig(PCI, on=True)
    driver.reset(PCI)
    assert gpu.mig_on


def test_a_later_board_changes_at_once_and_loses_its_instances_with_it() -> None:
    driver, gpu = one_gpu("H100", VENDOR_VFIO)
    driver.set_vfs(PCI, on=False)
    driver.set_mig(PCI, on=True)
    assert (gpu.mig_on, gpu.mig_pending) == (True, True)
    cut(driver, gpu, "1g.10gb")
    driver.set_mig(PCI, on=True)
    assert len(gpu.instances) == 1
    driver.set_mig(PCI, on=False)
    assert (gpu.mig_on, gpu.mig_pending, gpu.instances) == (False, False, [])


@pytest.mark.parametrize("code", ["A100", "H100"])
def test_with_vfs_neither_the_mode_changes_nor_is_the_gpu_reset(code: str) -> None:
    driver, gpu = one_gpu(code, VENDOR_VFIO)
    assert error_of(lambda: driver.set_mig(PCI, on=True)) == "EBUSY"
    assert error_of(lambda: driver.reset(PCI)) == "EBUSY"
    assert (gpu.mig_on, gpu.mig_pending) == (False, False)


@pytest.mark.parametrize(("code", "name"), [("A100", "2g.10gb"), ("H100", "2g.20gb")])
def test_sriov_manage_wipes_instances_in_both_directions_and_so_does_a_reset(code: str, name: str) -> None:
    driver, gpu = mig_gpu(code)
    cut(driver, gpu, name)
    driver.set_vfs(PCI, on=True)  # they are there already
    assert len(gpu.instances) == 1
    driver.set_vfs(PCI, on=False)
    assert gpu.instances == []
    cut(driver, gpu, name)
    driver.set_vfs(PCI, on=True)
    assert gpu.instances == []
    driver.set_vfs(PCI, on=False)
    cut(driver, gpu, name)
    driver.reset(PCI)
    assert gpu.instances == []
    assert gpu.mig_on


@pytest.mark.parametrize(("code", "stays"), [("A100", True), ("A30", True), ("H100", False), ("RTXPRO6000", False)])
def test_a_reboot_wipes_instances_and_keeps_the_mode_on_ampere_alone(code: str, stays: bool) -> None:
    driver, gpu = mig_gpu(code)
    assert gpu.board.mig is not None
    driver.create_instance(PCI, gpu.board.mig.profiles[0].id)
    driver.reboot("next")
    assert (gpu.mig_on, gpu.mig_pending, gpu.instances) == (stays, stays, [])
    assert gpu.vfs_on


def test_a_reboot_is_a_reset_for_a_pending_mode() -> None:
    driver, gpu = one_gpu("A100", VENDOR_VFIO)
    driver.set_vfs(PCI, on=False)
    driver.set_mig(PCI, on=True)
    driver.reboot("next")
    assert gpu.mig_on


def test_reloading_the_modules_wipes_instances_and_loading_options_alone_does_not() -> None:
    driver, gpu = mig_gpu("A100")
    cut(driver, gpu, "1g.5gb")
    driver.load_module(ModuleOptions())
    assert len(gpu.instances) == 1
    driver.reload()
    assert gpu.instances == []


def test_turning_vfs_off_takes_idle_vgpus_with_it_and_stops_at_one_that_a_vm_has() -> None:
    driver, gpu = mig_gpu("H100")
    cut(driver, gpu, "1g.10gb")
    key = put(driver, gpu, 0, backed(gpu, "1-10C"))
    driver.hold(key, "u", "vm")
    assert error_of(lambda: driver.set_vfs(PCI, on=False)) == "EBUSY"
    driver.release("u")
    driver.set_vfs(PCI, on=False)
    assert (gpu.vgpus, gpu.instances, gpu.vfs_on) == ([], [], False)


def test_the_unbind_lock_can_be_denied_and_the_vfs_can_fail_to_come() -> None:
    driver, gpu = one_gpu("H100", VENDOR_VFIO)
    driver.set_fault("unbind-lock:2")
    tries = [error_of(lambda: driver.set_vfs(PCI, on=False)) for _ in range(3)]
    assert tries == ["EAGAIN", "EAGAIN", ""]
    driver.set_fault("no-vfs")
    driver.set_vfs(PCI, on=True)
    assert not gpu.vfs_on
    driver.set_fault("unbind-lock")
    assert [error_of(lambda: driver.set_vfs(PCI, on=True)) for _ in range(3)] == ["EAGAIN"] * 3


def test_the_end_of_all_faults_brings_back_late_vfs_and_none_that_sriov_manage_took_away() -> None:
    driver, gpu = one_gpu("H100", VENDOR_VFIO)
    driver.set_vfs(PCI, on=False)
    driver.set_fault("create-eio")
    driver.clear_faults()
    assert not gpu.vfs_on
    driver.set_fault("late-vfs")
    driver.reboot("next")
    driver.clear_faults()
    assert gpu.vfs_on


def test_a_card_without_sriov_has_no_vfs_to_set() -> None:
    driver, _ = one_gpu("T4", MDEV_PF)
    assert error_of(lambda: driver.set_vfs(PCI, on=True)) == "EOPNOTSUPP"
