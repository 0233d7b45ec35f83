"""What only NVIDIA's closed driver decides, played by the module's parameters: each refusal is reported, and leaves nothing."""

from __future__ import annotations

import errno
from typing import TYPE_CHECKING

import pytest

from tests.acceptance.command import vgpumgr
from tests.kernel import cases, seen
from tests.kernel.marks import each_commit, on
from tests.kernel.release import DEBIAN13

if TYPE_CHECKING:
    from tests.kernel.cases import Case
    from tests.kernel.vm import Vm

pytestmark = pytest.mark.kernel

every_framework = pytest.mark.parametrize("case", cases.ALL, ids=lambda case: case.framework)


@on(DEBIAN13)
@every_framework
@each_commit(DEBIAN13)
def test_a_create_that_the_driver_refuses_is_taken_back_whole(vm: Vm, case: Case) -> None:
    vm.parameter("create_errno", errno.EIO)
    error = vgpumgr(vm, "attach", case.guest, "--profile", case.profile, "-o", "json", code=1).error
    assert "EIO" in " ".join([error["message"], *error["details"]])
    assert (seen.hardware(vm), seen.ledger(vm)) == ({}, [])
    left = seen.definition(vm, case.guest)
    assert "hostdev" not in left
    assert "urn:vgpumgr" not in left


@on(DEBIAN13)
def test_a_clear_that_the_driver_refuses_leaves_the_vgpu_ours_and_the_next_detach_finishes(vm: Vm) -> None:
    case = cases.VENDOR
    vgpumgr(vm, "attach", case.guest, "--profile", case.profile)
    there = seen.hardware(vm)
    vm.parameter("clear_errno", errno.EPERM)
    error = vgpumgr(vm, "detach", case.guest, "--yes", "-o", "json", code=1).error
    assert "EPERM" in " ".join([error["message"], *error["details"]])
    assert seen.hardware(vm) == there
    assert [entry["vm_name"] for entry in seen.ledger(vm)] == [case.guest]
    vm.parameter("clear_errno", 0)
    vgpumgr(vm, "detach", case.guest, "--yes")
    assert (seen.hardware(vm), seen.ledger(vm)) == ({}, [])


@on(DEBIAN13)
def test_while_nvml_does_not_answer_nothing_is_taken_away(vm: Vm) -> None:
    """Without NVML's active list it cannot be told what runs, and cannot tell means in use."""
    case = cases.VF
    vgpumgr(vm, "attach", case.guest, "--profile", case.profile)
    there = seen.kept(vm)
    vm.parameter("nvml_fail", "nvmlInit_v2:9 nvmlInitWithFlags:9")
    vgpumgr(vm, "detach", case.guest, "--yes", "-o", "json", code=5)
    vm.parameter("nvml_fail", "")
    assert seen.kept(vm) == there
    vgpumgr(vm, "detach", case.guest, "--yes")


@on(DEBIAN13)
def test_functions_that_are_late_are_said_to_be_missing_and_are_used_once_they_are_there(vm: Vm) -> None:
    case = cases.VENDOR
    vm.parameter("late_vfs_ms", 3_600_000)
    vm.must("/usr/lib/nvidia/sriov-manage -d", case.gpu)
    vm.must("/usr/lib/nvidia/sriov-manage -e", case.gpu)
    try:
        code = vm.run("attach", case.guest, "--profile", case.profile, "-o", "json").returncode
        assert code in (2, 5)
        assert seen.hardware(vm) == {}
    finally:
        vm.parameter("late_vfs_ms", 0)
        vm.must("/usr/lib/nvidia/sriov-manage -d", case.gpu)
        vm.must("/usr/lib/nvidia/sriov-manage -e", case.gpu)
    vgpumgr(vm, "attach", case.guest, "--profile", case.profile)
