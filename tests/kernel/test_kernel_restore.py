"""A host that restores its own vGPUs after a boot, with systemd, libvirt's autostart and no controller."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

import pytest

from tests.acceptance.command import vgpumgr, vgpus
from tests.controllers import wait_until
from tests.kernel import cases, seen, version_before
from tests.kernel.guests import LIKE
from tests.kernel.marks import each_commit, on
from tests.kernel.release import DEBIAN12, DEBIAN13
from tests.kernel.vm import HOST
from vgpumgr.host.protocol.restored import RESTORED_PATH
from vgpumgr.host.restoring.unit import UNIT

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.kernel.vm import Vm

pytestmark = pytest.mark.kernel

NAME = "vgpumgr-restore.service"
_SRIOV_MANAGE = "/usr/lib/nvidia/sriov-manage"
_TREE = "find /etc /opt /usr /var/lib/vgpumgr -xdev -printf '%p %m %u %l %s\\n' 2>/dev/null | sort"
# Six vGPUs: VM, profile, slot. Of three GPUs, by mediated devices and by functions with a type.
WANTED = (
    *((cases.PF.guest, cases.PF.profile, "vgpu0"), (cases.VF.guest, cases.VF.profile, "vgpu0")),
    *((cases.VF.guest, cases.VF.profile, "vgpu1"), ("vm04", cases.VF.profile, "vgpu0")),
    *((cases.VENDOR.guest, cases.VENDOR.profile, "vgpu0"), (cases.VENDOR.guest, cases.VENDOR.profile, "vgpu1")),
)


@pytest.fixture
def restoring(vm: Vm) -> Iterator[Vm]:
    """The host restores its vGPUs itself, and has six."""
    vgpumgr(vm, "host", "install", HOST, "--restore")
    for guest, profile, slot in WANTED:
        vgpumgr(vm, "attach", guest, "--profile", profile, "--slot", slot)
    yield vm
    vm.must("virsh -q list --all --name | while read -r vm; do [ -z $vm ] || virsh -q autostart --disable $vm; done")
    vgpumgr(vm, "host", "uninstall", HOST)


def restore(vm: Vm, code: int = 0) -> list[dict[str, Any]]:
    """Run it by its unit, as a boot does; what it says of each vGPU."""
    done = vm.ssh(f"systemctl restart {NAME}")
    assert (done.returncode != 0) == bool(code), vm.must(f"journalctl -u {NAME} --no-pager | tail -20")
    rows: list[dict[str, Any]] = json.loads(vm.must(f"cat {RESTORED_PATH}"))["vgpus"]
    return rows


def remove_all(vm: Vm) -> None:
    """What a reboot does to vGPUs, which takes longer."""
    vm.must(
        "for mdev in /sys/bus/mdev/devices/*; do echo 1 >$mdev/remove; done; "
        "for current in /sys/bus/pci/devices/*/nvidia/current_vgpu_type; do [ $(<$current) = 0 ] || echo 0 >$current; done"
    )
    assert seen.hardware(vm) == {}


def count_mdevs(vm: Vm) -> int:
    """By their names: what is being made cannot be read yet. Of WANTED, four are."""
    return int(vm.must("ls /sys/bus/mdev/devices | wc -l"))


def moment_us(vm: Vm, unit: str, what: str) -> int:
    return int(vm.must(f"systemctl show {unit} --value -p {what}"))


@each_commit(DEBIAN12, half=0)
def test_after_a_boot_every_vgpu_is_back_before_libvirt_starts_its_first_guest(restoring: Vm) -> None:
    vm = restoring
    before = seen.hardware(vm)
    assert len(before) == len(WANTED)
    guests = [cases.PF.guest, *([cases.VENDOR.guest] if vm.name == DEBIAN13.name else [])]
    for guest in guests:
        vm.must("virsh -q autostart", guest)
    vm.must(f"systemd-analyze verify {UNIT}")
    exposure = re.search(r"→ Overall exposure level for \S+: ([0-9.]+)", vm.must(f"systemd-analyze security {NAME}"))
    assert exposure is not None
    assert float(exposure[1]) < 4
    vm.power_cycle()
    wait_until(lambda: set(guests) <= set(vm.must("virsh -q list --name").split()), "the guests run")
    for guest in guests:
        vm.must("virsh -q suspend", guest)
    assert seen.hardware(vm) == before
    restored = moment_us(vm, NAME, "ActiveEnterTimestampMonotonic")
    assert 0 < restored < moment_us(vm, "libvirtd.service", "ExecMainStartTimestampMonotonic")
    assert {row["vm"]: row["state"] for row in vgpus(vm)} == {
        guest: "in_use" if guest in guests else "bound" for guest, _, _ in WANTED
    }
    (host,) = vgpumgr(vm, "host", "status", HOST, "-o", "json").document["hosts"]
    assert (host["state"], [row["missing"] for row in host["restore"]["vgpus"]]) == ("installed", [None] * len(WANTED))
    assert "in sync" in vgpumgr(vm, "plan", HOST).out


def test_killed_half_way_and_run_again_it_ends_in_the_same(restoring: Vm) -> None:
    vm = restoring
    before, there = seen.hardware(vm), seen.ledger(vm)
    remove_all(vm)
    vm.parameter("slow_ms", 2000)
    vm.must(f"systemctl restart --no-block {NAME}")
    wait_until(lambda: count_mdevs(vm) >= 2, "two of them are back")
    vm.must(f"systemctl kill --signal=KILL {NAME}")
    wait_until(lambda: vm.ssh(f"systemctl is-failed {NAME}").returncode == 0, "it is killed")
    vm.parameter("slow_ms", 0)
    assert count_mdevs(vm) < 4
    assert all(row["missing"] is None for row in restore(vm))
    assert (seen.hardware(vm), seen.ledger(vm)) == (before, there)


@on(DEBIAN13)
def test_what_another_card_is_in_the_place_of_is_not_served_and_its_vm_does_not_start(restoring: Vm) -> None:
    vm = restoring
    remove_all(vm)
    for case in (cases.VF, cases.VENDOR):
        uuid = next(row["gpu_uuid"] for row in seen.ledger(vm) if row["gpu"] == case.gpu)
        other = f"GPU-{uuid[4:][::-1].replace('-', '0')[:8]}-0000-4000-8000-000000000000"
        vm.must(f"sed -i s/{uuid}/{other}/ /var/lib/vgpumgr/ledger.json")
    rows = restore(vm, code=1)
    missing = {row["vm_name"]: row["missing"] for row in rows}
    assert missing[cases.PF.guest] is None
    for guest in (cases.VF.guest, "vm04", cases.VENDOR.guest):
        assert "is not in this host; at 0000:" in missing[guest]
        started = vm.ssh("virsh start", guest)
        assert started.returncode != 0, started.stdout
    assert list(seen.hardware(vm).values()) == [(cases.PF.gpu, cases.PF.type_id)]


@on(DEBIAN13)
def test_a_vm_does_not_start_with_what_somebody_else_made_on_its_function_until_vgpumgr_made_its_own(
    restoring: Vm,
) -> None:
    """Neither by libvirt's autostart nor by hand. What they made stays theirs."""
    vm = restoring
    guest = cases.VENDOR.guest
    function = next(row["parent"] for row in seen.ledger(vm) if row["vm_name"] == guest)
    remove_all(vm)
    vm.must("sed -i s/$(cat /proc/sys/kernel/random/boot_id)/earlier/ /var/lib/vgpumgr/ledger.json")
    types = f"/sys/bus/pci/devices/{function}/nvidia"
    foreign = vm.must(f"awk '/L40S-2Q/ {{ print $1 }}' {types}/creatable_vgpu_types").strip()
    vm.must(f"echo {foreign} >{types}/current_vgpu_type")
    missing = {row["vm_name"]: row["missing"] for row in restore(vm, code=1) if row["slot"] == "vgpu0"}
    assert "somebody else made NVIDIA L40S-2Q" in missing[guest]
    for name in (guest, LIKE):
        vm.must("virsh -q autostart", name)
    vm.must("rm -f /run/libvirt/qemu/autostarted; systemctl restart libvirtd")
    wait_until(lambda: LIKE in vm.must("virsh -q list --name"), "the other guest runs")
    vm.must("virsh -q destroy", LIKE)
    said = f"the vGPU on {function} is not the {cases.VENDOR.profile} that vgpumgr made for slot vgpu0"
    assert said in vm.must("journalctl -u libvirtd --no-pager -n 40")
    started = vm.ssh("virsh start", guest)
    assert started.returncode != 0
    assert said in started.stderr
    assert vm.must(f"cat {types}/current_vgpu_type").strip() == foreign
    vm.must(f"echo 0 >{types}/current_vgpu_type")
    vgpumgr(vm, "reconcile", HOST, "--start")
    assert vm.must("virsh -q list --name").split() == [guest]  # the other one was shut down by hand


@on(DEBIAN13)
def test_virtual_functions_that_come_late_are_waited_for_and_those_that_never_come_are_named(restoring: Vm) -> None:
    vm = restoring
    before = seen.hardware(vm)
    remove_all(vm)
    real = f"{_SRIOV_MANAGE}.real"
    vm.must(f"mv {_SRIOV_MANAGE} {real}; {real} -d {cases.VENDOR.gpu}; {real} -d {cases.VF.gpu}")
    try:
        vm.must(f"printf '#!/bin/sh\\nexit 0\\n' >{_SRIOV_MANAGE}; chmod 755 {_SRIOV_MANAGE}")
        missing = {row["vm_name"]: row["missing"] for row in restore(vm, code=1)}
        assert missing[cases.PF.guest] is None
        assert "without effect" in missing[cases.VENDOR.guest]
        assert len(seen.hardware(vm)) == 1
        late = f'#!/bin/sh\\n(sleep 3; exec {real} "$@") >/dev/null 2>&1 &\\n'
        vm.must(f"printf '{late}' >{_SRIOV_MANAGE}")
        assert all(row["missing"] is None for row in restore(vm))
    finally:
        vm.must(f"mv {real} {_SRIOV_MANAGE}")
    assert seen.hardware(vm) == before


def state(vm: Vm) -> str:
    """What `host status` says of the installation."""
    (host,) = vgpumgr(vm, "host", "status", HOST, "-o", "json").document["hosts"]
    return str(host["state"])


def test_an_upgrade_leaves_vgpus_and_guests_alone_and_the_next_boot_restores_by_it(
    restoring: Vm, tmp_path: Path
) -> None:
    vm = restoring
    before = seen.hardware(vm)
    version_before.make(tmp_path)
    version_before.run(tmp_path, vm, "host", "install", HOST)
    assert state(vm) == "outdated"
    vm.must(f"cp {UNIT} /run/before.service")
    remove_all(vm)
    assert all(row["missing"] is None for row in restore(vm))  # by the version before
    vm.start_guest(cases.PF.guest)
    everything = seen.kept(vm)
    vgpumgr(vm, "host", "install", HOST)
    vm.must(f"cp {UNIT} /run/after.service; cp /run/before.service {UNIT}")  # as if it had been cut off before its end
    assert state(vm) == "outdated"
    vm.must("systemctl daemon-reload")
    assert all(row["missing"] is None for row in restore(vm))  # the new program by the unit of before
    vgpumgr(vm, "host", "install", HOST)
    assert state(vm) == "installed"
    assert vm.must(f"cmp {UNIT} /run/after.service && ! cmp -s {UNIT} /run/before.service") == ""
    assert seen.kept(vm) == everything
    assert vm.must("virsh -q domstate", cases.PF.guest).strip() == "paused"
    vm.power_cycle()
    wait_until(lambda: moment_us(vm, NAME, "ActiveEnterTimestampMonotonic") > 0, "the host has restored its vGPUs")
    assert seen.hardware(vm) == before
    assert state(vm) == "installed"
    assert "in sync" in vgpumgr(vm, "plan", HOST).out


def test_nothing_is_left_of_it_after_uninstall(vm: Vm) -> None:
    before = vm.must(_TREE)
    vgpumgr(vm, "host", "install", HOST, "--restore")
    assert vm.must(_TREE) != before
    vgpumgr(vm, "host", "uninstall", HOST)
    assert vm.must(_TREE) == before
