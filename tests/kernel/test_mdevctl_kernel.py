"""Debian's mdevctl in a host VM: what it says of our vGPUs, and why we do not leave them to it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.acceptance.command import vgpumgr
from tests.kernel import cases
from tests.kernel.marks import each_commit
from tests.kernel.mdevctl import agrees
from tests.kernel.release import RELEASES

if TYPE_CHECKING:
    from tests.kernel.vm import Vm

pytestmark = [pytest.mark.kernel, each_commit(*RELEASES)]


def test_mdevctl_and_vgpumgr_say_the_same_of_a_host(vm: Vm) -> None:
    for case in cases.ALL:
        vgpumgr(vm, "attach", case.guest, "--profile", case.profile)
    assert agrees(vm, vm.must) > 40


def test_the_udev_rules_of_mdevctl_call_a_program_that_is_not_there(vm: Vm) -> None:
    """So a definition with `--auto` does not come back after a boot of Debian 12 or 13, and nothing says so but the log."""
    rules = vm.must("cat /usr/lib/udev/rules.d/60-mdevctl.rules")
    assert "/usr/sbin/mdevctl start-parent-mdevs" in rules
    assert vm.ssh("test -e /usr/sbin/mdevctl").returncode != 0
    assert vm.must("command -v mdevctl").strip() == "/usr/bin/mdevctl"
