"""Lazy vGPUs on a real libvirt, which calls the hook: at a start, a failed start, an end and a boot.

A managed save is in tests/acceptance/long/test_lazy.py: QEMU saves no VM with a device of VFIO that cannot migrate.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.acceptance.command import vgpumgr
from tests.controllers import wait_until
from tests.kernel import cases, seen
from tests.kernel.guests import LIKE
from tests.kernel.marks import on
from tests.kernel.release import DEBIAN13
from tests.kernel.vm import HOST

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.kernel.vm import Vm


pytestmark = [pytest.mark.kernel, on(DEBIAN13)]

GUESTS = (cases.PF.guest, LIKE)
WHOLE = "T4-16Q"  # of the host's one T4


@pytest.fixture
def lazy(vm: Vm) -> Iterator[Vm]:
    """The host makes a vGPU when its VM starts. libvirtd was started without any hook. Two VMs want the same GPU."""
    variables = Path(vm.environment["VGPUMGR_INVENTORY"]) / "host_vars" / f"{HOST}.yml"
    variables.parent.mkdir(exist_ok=True)
    variables.write_text("vgpumgr_lazy: true\n", encoding="utf-8")
    vm.must("systemctl restart libvirtd")
    vgpumgr(vm, "host", "install", HOST)
    for guest in GUESTS:
        vgpumgr(vm, "attach", guest, "--profile", WHOLE)
    yield vm
    vm.must("virsh -q list --all --name | while read -r vm; do [ -z $vm ] || virsh -q autostart --disable $vm; done")
    vm.reset()
    vgpumgr(vm, "host", "uninstall", HOST)
    variables.unlink()
    variables.parent.rmdir()


def test_of_two_vms_that_want_the_same_gpu_the_one_that_runs_has_it(lazy: Vm) -> None:
    vm = lazy
    assert seen.hardware(vm) == {}
    one, other = GUESTS
    vm.start_guest(one)
    assert [parent for parent, _ in seen.hardware(vm).values()] == [cases.PF.gpu]
    refused = vm.ssh("virsh start", other)
    assert refused.returncode != 0
    said = f"vgpumgr: {WHOLE} for slot vgpu0 cannot be made: GPU {cases.PF.gpu} has {WHOLE} of {one}"
    assert said in refused.stderr
    assert len(seen.hardware(vm)) == 1
    assert (seen.row_of(vm, one)["state"], seen.row_of(vm, other)["state"]) == ("in_use", "lazy")
    vm.must("virsh -q destroy", one)
    assert seen.hardware(vm) == {}
    vm.start_guest(other)
    assert seen.row_of(vm, other)["state"] == "in_use"
    assert "in sync" in vgpumgr(vm, "plan", HOST).out


def test_a_start_that_fails_leaves_nothing_and_a_boot_makes_only_what_starts(lazy: Vm) -> None:
    vm = lazy
    one, other = GUESTS
    definition = seen.definition(vm, one)
    emulator = definition.partition("<emulator>")[2].partition("</emulator>")[0]
    vm.must(f"mv {emulator} {emulator}.away; printf '#!/bin/sh\\nexit 1\\n' >{emulator}; chmod 755 {emulator}")
    try:
        assert vm.ssh("virsh start", one).returncode != 0
    finally:
        vm.must(f"mv {emulator}.away {emulator}")
    assert seen.hardware(vm) == {}
    assert [row["lazy"] for row in seen.ledger(vm)] == [True, True]
    vm.must("virsh -q autostart", other)
    vm.power_cycle()
    wait_until(lambda: vm.must("virsh -q list --name").split() == [other], "the guest runs")
    vm.must("virsh -q suspend", other)
    assert len(seen.hardware(vm)) == 1
    assert seen.row_of(vm, other)["state"] == "in_use"
