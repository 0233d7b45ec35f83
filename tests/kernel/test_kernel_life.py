"""A vGPU's whole life through the command line, on real kernels: mdev core, SR-IOV, VFIO, libvirt, and a guest that holds it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.acceptance.command import vgpumgr, vgpus
from tests.controllers import wait_until
from tests.kernel import cases, seen
from tests.kernel.contract.places import H100
from tests.kernel.marks import each_commit, on
from tests.kernel.release import DEBIAN12, DEBIAN13, RELEASES

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.kernel.cases import Case
    from tests.kernel.vm import Vm

pytestmark = pytest.mark.kernel


def attached(vm: Vm, case: Case) -> dict[str, Any]:
    """The guest has its vGPU; the row of `list` about it."""
    vgpumgr(vm, "attach", case.guest, "--profile", case.profile)
    return seen.row_of(vm, case.guest)


@each_commit(*RELEASES)
def test_what_this_host_is(vm: Vm, note_versions: Callable[[Vm], None]) -> None:
    note_versions(vm)
    (host,) = vgpumgr(vm, "discover", "-o", "json").document["hosts"]
    assert host["versions"]["kernel"] == vm.must("uname -r").strip()
    assert host["versions"]["driver"] == vm.must("cat /sys/module/nvidia/version").strip()
    assert host["unknown"] == []
    frameworks = {case.gpu: case.framework for case in cases.ALL} | {H100.pci: H100.gpu.framework}
    assert {gpu["pci"]: gpu["framework"] for gpu in host["gpus"]} == frameworks


STOP = "virsh -q destroy {guest}"
KILL = "kill -KILL $(cat /run/libvirt/qemu/{guest}.pid)"


def holds_and_is_left_alone(vm: Vm, case: Case, end: str) -> None:
    """A VM that is off gets its vGPU, once. Started: /proc, `list` and a refused detach agree. Ended: they agree again, and
    it gives its vGPU back.
    """
    row = attached(vm, case)
    device = case.device(row)
    assert seen.hardware(vm) == {device: (row["vf"] or case.gpu, case.type_id)}
    assert (row["state"], row["gpu"], row["type_name"], row["holder"]) == ("bound", case.gpu, case.profile, None)
    there = seen.kept(vm)
    assert "Nothing to do" in vgpumgr(vm, "attach", case.guest, "--profile", case.profile).out
    assert seen.kept(vm) == there
    group = seen.group(vm, device)
    assert seen.open_vfio(vm, case.guest) == set()
    vm.start_guest(case.guest)
    running = seen.open_vfio(vm, case.guest)
    assert {group, "/dev/vfio/vfio"} <= running
    held = seen.row_of(vm, case.guest)
    assert held["state"] == "in_use"
    assert held["holder"] == case.guest
    there = seen.kept(vm)
    refused = vgpumgr(vm, "detach", case.guest, "--yes", "-o", "json", code=5)
    assert case.guest in refused.error["message"]
    assert seen.kept(vm) == there
    assert seen.open_vfio(vm, case.guest) == running
    vm.must(end.format(guest=case.guest))
    seen.wait_until_closed(vm, case.guest)
    idle = seen.row_of(vm, case.guest)
    assert (idle["state"], idle["holder"]) == ("bound", None)
    vgpumgr(vm, "detach", case.guest, "--yes")
    assert (seen.hardware(vm), seen.ledger(vm)) == ({}, [])
    assert "hostdev" not in seen.definition(vm, case.guest)


@pytest.mark.parametrize(
    "case",
    [pytest.param(cases.PF, marks=each_commit(DEBIAN12, half=1)), cases.VF],
    ids=lambda case: case.framework,
)
def test_a_guest_that_runs_holds_its_mdev_and_no_detach_takes_it(vm: Vm, case: Case) -> None:
    """Of a physical function: it is stopped in the end. Of a virtual one: its QEMU is killed."""
    holds_and_is_left_alone(vm, case, STOP if case is cases.PF else KILL)


@on(DEBIAN13)
def test_a_guest_that_runs_holds_its_vf_and_no_detach_takes_it(vm: Vm) -> None:
    holds_and_is_left_alone(vm, cases.VENDOR, STOP)


@on(DEBIAN12)
@each_commit(DEBIAN12)
def test_that_libvirt_9_0_will_not_start_a_vf_is_said_before_anything_is_touched(vm: Vm) -> None:
    case = cases.VENDOR
    before = seen.kept(vm)
    planned = vgpumgr(vm, "attach", case.guest, "--profile", case.profile, "--check", code=3)
    assert f"{case.guest} will not start on libvirt 9.0.0" in planned.out + planned.err
    assert seen.kept(vm) == before
    done = vgpumgr(vm, "attach", case.guest, "--profile", case.profile)
    assert f"{case.guest} will not start on libvirt 9.0.0" in done.out + done.err
    there = seen.kept(vm)
    started = vm.ssh("virsh start", case.guest)
    assert started.returncode != 0
    assert "must be manually detached from the host" in started.stderr
    assert seen.kept(vm) == there
    vgpumgr(vm, "detach", case.guest, "--yes")
    assert seen.hardware(vm) == {}


def test_after_a_host_reboot_every_vgpu_is_gone_and_attach_makes_the_same_ones_again(vm: Vm) -> None:
    for case in cases.ALL:
        vgpumgr(vm, "attach", case.guest, "--profile", case.profile)
    before = {row["vm"]: row for row in vgpus(vm)}
    devices = seen.hardware(vm)
    assert len(devices) == len(cases.ALL)
    boot = vm.must("cat /proc/sys/kernel/random/boot_id")
    vm.power_cycle()
    assert vm.must("cat /proc/sys/kernel/random/boot_id") != boot
    assert seen.hardware(vm) == {}
    assert {row["vm"]: row["state"] for row in vgpus(vm)} == dict.fromkeys(before, "gone")
    for case in cases.ALL:
        vgpumgr(vm, "attach", case.guest, "--profile", case.profile)
    assert seen.hardware(vm) == devices
    assert {row["vm"]: (row["state"], row["uuid"], row["vf"]) for row in vgpus(vm)} == {
        guest: ("bound", row["uuid"], row["vf"]) for guest, row in before.items()
    }
    vm.start_guest(cases.VF.guest)
    assert seen.row_of(vm, cases.VF.guest)["state"] == "in_use"


@each_commit(*RELEASES)
def test_an_attach_that_loses_libvirt_in_the_middle_is_finished_by_the_next(vm: Vm) -> None:
    """The driver takes two seconds to make the vGPU; that is when libvirtd goes: between the claim and the device."""
    case = cases.VF
    vm.parameter("slow_ms", 3000)
    attach = vm.start("attach", case.guest, "--profile", case.profile, "-o", "json")
    wait_until(lambda: bool(seen.ledger(vm)), "the ledger has an entry")
    vm.must("systemctl kill --signal=KILL libvirtd.service")
    code = attach.wait(120)
    assert code in (1, 4), attach.out + attach.err
    vm.parameter("slow_ms", 0)
    vm.must("systemctl reset-failed libvirtd.service; systemctl start libvirtd.service; virsh -q list")
    row = attached(vm, case)
    assert list(seen.hardware(vm)) == [row["uuid"]]
    assert len(seen.ledger(vm)) == 1
    assert row["state"] == "bound"


def test_what_the_kernel_and_the_drivers_daemon_said_of_a_refusal_is_told(vm: Vm) -> None:
    """By the real /dev/kmsg and the real journal; the daemon is a unit of its name."""
    vm.must("systemd-run --quiet --unit=nvidia-vgpu-mgr sh -c 'while sleep 0.02; do echo error: vmiop_log: no; done'")
    vm.parameter("create_errno", 5)
    vm.parameter("slow_ms", 500)  # in which the daemon says something
    for case in cases.ALL:
        details = vgpumgr(vm, "attach", case.guest, "--profile", case.profile, "-o", "json", code=1).error["details"]
        kernel = [line for line in details if line.startswith("kernel: ")]
        assert kernel[0].startswith("kernel: NVRM: Failed to add vgpu create request: 0x56 (not possible beside")
        assert [line.endswith(": vGPU creation failed, -5") for line in kernel[1:2]] == [True]
        assert "sh: error: vmiop_log: no" in details
    vm.must("systemctl stop nvidia-vgpu-mgr")
