"""A MIG-backed vGPU's life through the command line, on real kernels: mode, instance and vGPU, a guest that holds its VF, a reboot."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import pytest

from tests.acceptance.command import vgpumgr
from tests.kernel import seen
from tests.kernel.contract.places import H100, NVML
from tests.kernel.marks import each_commit, on
from tests.kernel.release import DEBIAN13
from tests.kernel.vm import HOST

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.kernel.vm import Vm

pytestmark = pytest.mark.kernel

GUEST = "vm03"
PROFILE, FOREIGN = "1g.10gb", "2g.20gb"
ASKED = ("--on", HOST, "--gpu-id", H100.pci, "--yes", "-o", "json")


class Instance(NamedTuple):
    """A GPU instance as the driver has it."""

    profile: int
    start: int
    id: int
    serial: int


def instances(vm: Vm) -> list[Instance]:
    """The GPU's, in the order in which they were made."""
    lines = (line.split() for line in vm.must("cat", NVML).splitlines() if line.startswith("instance "))
    rows = (dict(word.split("=") for word in words[1:]) for words in lines)
    return [Instance(int(row["profile"]), int(row["start"]), int(row["id"]), int(row["serial"])) for row in rows]


def ours(vm: Vm) -> list[Instance]:
    return [one for one in instances(vm) if one.profile == H100.profile(PROFILE)]


def instance_of(vm: Vm, guest: str) -> int:
    """The id that the driver tells of the guest's vGPU."""
    return int(vm.must(f"cat /sys/bus/pci/devices/{seen.row_of(vm, guest)['vf']}/nvidia/gpu_instance_id"))


@pytest.fixture
def mig(vm: Vm) -> Iterator[Vm]:
    """The GPU in MIG mode, with an instance that somebody else made."""
    done = vgpumgr(vm, "mode", "set", "mig", *ASKED).document
    assert [step["verb"] for step in done["plan"]] == ["set_vfs", "set_mig", "set_vfs"]
    vm.must(f"echo 'create-instance pci={H100.pci} profile={H100.profile(FOREIGN)} start=0' >{NVML}")
    yield vm
    vm.reset()


@on(DEBIAN13)
@each_commit(DEBIAN13, half=1)
def test_a_guest_holds_its_vf_and_the_instance_outlives_the_vgpu(mig: Vm) -> None:
    vm = mig
    (foreign,) = instances(vm)
    vgpumgr(vm, "attach", GUEST, "--mig-profile", PROFILE)
    row = seen.row_of(vm, GUEST)
    (made,) = ours(vm)
    assert (row["state"], row["gpu"], row["mig_profile"], row["mig_start"]) == ("bound", H100.pci, PROFILE, made.start)
    assert instance_of(vm, GUEST) == made.id
    device = seen.hardware(vm)
    vm.start_guest(GUEST)
    assert seen.row_of(vm, GUEST)["state"] == "in_use"
    assert vgpumgr(vm, "detach", GUEST, "--yes", "-o", "json", code=5).error["error"] == "InUse"
    assert vgpumgr(vm, "mode", "set", "equal-size", *ASKED, code=5).error["error"] == "RefusedPlan"  # somebody else's
    assert "Nothing to do" in vgpumgr(vm, "gc", "--on", HOST, "--yes").out
    assert (seen.hardware(vm), instances(vm)) == (device, [foreign, made])

    vm.must(f"virsh -q destroy {GUEST}")
    seen.wait_until_closed(vm, GUEST)
    vgpumgr(vm, "detach", GUEST, "--yes")
    assert (seen.hardware(vm), instances(vm)) == ({}, [foreign, made])
    vgpumgr(vm, "attach", GUEST, "--mig-profile", PROFILE)
    assert (seen.hardware(vm), instances(vm)) == (device, [foreign, made])


@on(DEBIAN13)
def test_after_a_reboot_the_instance_is_made_again_at_its_start_and_holds_the_same_vgpu(mig: Vm) -> None:
    vm = mig
    vgpumgr(vm, "attach", GUEST, "--mig-profile", PROFILE)
    (made,) = ours(vm)
    device = seen.hardware(vm)
    vm.power_cycle()
    assert (seen.hardware(vm), instances(vm)) == ({}, [])
    assert seen.row_of(vm, GUEST)["state"] == "gone"
    vgpumgr(vm, "reconcile", "--yes")
    (again,) = instances(vm)
    assert (again.profile, again.start) == (made.profile, made.start)
    assert seen.hardware(vm) == device
    assert (seen.row_of(vm, GUEST)["state"], instance_of(vm, GUEST)) == ("bound", again.id)

    vgpumgr(vm, "detach", GUEST, "--yes")
    vgpumgr(vm, "gc", "--on", HOST, "--yes")
    assert instances(vm) == []
