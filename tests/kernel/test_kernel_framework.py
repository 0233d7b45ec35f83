"""A host that boots with a kernel whose driver makes vGPUs in the other way, and back: migrate-framework, and its guests start."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.acceptance.command import vgpumgr, vgpus
from tests.kernel import cases, seen
from tests.kernel.marks import on
from tests.kernel.release import DEBIAN13
from tests.kernel.vm import HOST

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.kernel.vm import Vm

pytestmark = pytest.mark.kernel

_OPTIONS = "/etc/modprobe.d/other-kernel.conf"
# Two GPUs, which exchange their ways: an A40's mdevs, and an L40S's functions with a type.
WANTED = (
    *((cases.VF.guest, cases.VF.profile), ("vm04", cases.VF.profile)),
    (cases.VENDOR.guest, cases.VENDOR.profile),
)


@pytest.fixture
def host(vm: Vm) -> Iterator[Vm]:
    """Three guests have a vGPU; afterwards the host is as it was, with its usual kernel."""
    for guest, profile in WANTED:
        vgpumgr(vm, "attach", guest, "--profile", profile)
    yield vm
    if vm.must(f"cat /sys/module/nvidia/parameters/other_framework; rm -f {_OPTIONS}").startswith("Y"):
        vm.power_cycle()


def boot(vm: Vm, *, other: bool) -> None:
    """Boot the kernel with which boards with SR-IOV offer vGPUs in the other way, or the usual one."""
    vm.must(f"echo 'options nvidia other_framework={int(other)}' >{_OPTIONS}")
    vm.power_cycle()


def types(vm: Vm) -> dict[str, str]:
    return {row["vm"]: row["type_name"] for row in vgpus(vm)}


@on(DEBIAN13)
def test_guests_start_with_the_same_types_under_the_other_kernel_and_under_the_first_again(host: Vm) -> None:
    """By mdevs what had a function with a type, and the other way round. Until it is migrated, none of them starts."""
    had, places = types(host), {row["vm_name"]: row["parent"] for row in seen.ledger(host)}
    for other in (True, False):
        boot(host, other=other)
        assert seen.hardware(host) == {}
        assert host.ssh("virsh start", cases.VF.guest).returncode != 0
        vgpumgr(host, "migrate-framework", HOST, "--yes")
        assert types(host) == had
        made = seen.hardware(host)
        is_vf = {parent: device == parent for device, (parent, _) in made.items()}
        assert is_vf == {places[guest]: (guest != cases.VENDOR.guest) == other for guest, _ in WANTED}
        for guest, _ in WANTED:
            host.start_guest(guest)
            assert seen.row_of(host, guest)["state"] == "in_use"
            host.must("virsh -q destroy", guest)
            seen.wait_until_closed(host, guest)
        assert "Nothing to do" in vgpumgr(host, "migrate-framework", HOST).out
        assert "in sync" in vgpumgr(host, "plan", HOST).out
