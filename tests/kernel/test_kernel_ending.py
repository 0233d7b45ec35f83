"""Detach, replace and scheduler set within the seconds after a VM's stop, on real kernels: waited for, nothing lost to the driver.

The driver refuses a scheduler while vGPUs are there, so that the idle one is taken out for a moment. With VGPUMGR_DOSE=full each
command is tried twenty times for each framework, four times with each way to end.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import pytest

from tests.acceptance.command import vgpumgr
from tests.dose import FULL, dose
from tests.kernel import cases, seen
from tests.kernel.endings import Ending, ends, told
from tests.kernel.marks import each_commit, on
from tests.kernel.release import DEBIAN13
from tests.kernel.vm import HOST

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from tests.kernel.cases import Case
    from tests.kernel.vm import Vm

pytestmark = [pytest.mark.kernel, pytest.mark.timeout(dose(1800, 14400))]

Round = tuple[str, Ending]
_PLUGIN = Ending(plugin_s=12)
_EXIT = Ending(exit_s=8)
_BOTH = Ending(exit_s=4, plugin_s=4)
_ALL = (Ending(plugin_s=1), Ending(plugin_s=4), _PLUGIN, _EXIT, _BOTH)
_EVERY = tuple(itertools.product(("scheduler", "replace", "detach"), _ALL)) * 4
_POLICIES = itertools.cycle(("fixed-share", "equal-share"))
# What the driver still has room for: a vGPU that is lost to it counts.
_ROOM = """cd /sys/bus/pci/devices
grep . */mdev_supported_types/*/available_instances */nvidia/creatable_vgpu_types"""


def room(vm: Vm) -> str:
    return vm.must("bash -s", text=_ROOM)


def arguments(operation: str, case: Case, profiles: Iterator[str]) -> tuple[str, ...]:
    if operation == "detach":
        return "detach", case.guest, "--yes"
    if operation == "scheduler":
        on = ("--on", HOST, "--gpu-id", case.gpu)
        return "scheduler", "set", *on, "--policy", next(_POLICIES), "--yes"
    return "attach", case.guest, "--profile", next(profiles), "--replace", "--yes"


def go_through(vm: Vm, case: Case, rounds: Sequence[Round]) -> None:
    """Each command as soon as the VM is off. The last is a detach; then there is as much room as at first."""
    at_first = room(vm)
    vm.parameter("scheduler_counts_idle", 1)
    profiles = itertools.cycle((case.profile, case.profile.replace("-4Q", "-4C")))
    for operation, ending in rounds:
        if not seen.hardware(vm):
            vgpumgr(vm, "attach", case.guest, "--profile", next(profiles))
        before = seen.hardware(vm)
        ((device, (_, type_id)),) = before.items()
        vm.start_guest(case.guest)
        what = f"{operation} {ending}"
        with ends(vm, case.guest, device, ending):
            vgpumgr(vm, *arguments(operation, case, profiles))
            assert told(vm) == ending.tells, what
        if operation == "detach":
            assert seen.hardware(vm) == {}, what
            assert room(vm) == at_first, what
        elif operation == "scheduler":
            assert seen.hardware(vm) == before, what
        else:
            ((_, made),) = seen.hardware(vm).values()
            assert made != type_id, what


def rounds(*usual: Round) -> Sequence[Round]:
    return _EVERY if FULL else usual


def test_what_is_left_of_a_vm_with_an_mdev_of_a_pf_is_waited_for_and_nothing_is_lost(vm: Vm) -> None:
    go_through(vm, cases.PF, rounds(("scheduler", _PLUGIN), ("detach", _EXIT)))


def test_what_is_left_of_a_vm_with_an_mdev_of_a_vf_is_waited_for_and_nothing_is_lost(vm: Vm) -> None:
    go_through(vm, cases.VF, rounds(("replace", _PLUGIN), ("detach", _BOTH)))


@on(DEBIAN13)
@each_commit(DEBIAN13, half=0)
def test_what_is_left_of_a_vm_with_a_vf_of_its_own_is_waited_for_and_nothing_is_lost(vm: Vm) -> None:
    go_through(vm, cases.VENDOR, rounds(("scheduler", _EXIT), ("detach", _BOTH)))
