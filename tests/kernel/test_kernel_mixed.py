"""Mixed-size mode through the command line, on real kernels: several sizes on one GPU, each where it was after a reboot."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.acceptance.command import vgpumgr, vgpus
from tests.kernel import cases, seen
from tests.kernel.vm import HOST

if TYPE_CHECKING:
    from tests.kernel.cases import Case
    from tests.kernel.vm import Vm

pytestmark = pytest.mark.kernel

PROFILES = ("24Q", "12Q", "8Q", "4Q")
PLACES = {"24Q": 0, "12Q": 24, "8Q": 40, "4Q": 36}
# Each GPU's guests, by profile. A host has four; the others are made of them.
GUESTS = {
    cases.VF.gpu: dict(zip(PROFILES, ("vm01", "vm02", "vm03", "vm04"), strict=True)),
    cases.VENDOR.gpu: dict(zip(PROFILES, ("vm05", "vm06", "vm07", "vm08"), strict=True)),
}
_MORE_GUESTS = r"""
for number in 1 2 3 4; do
  virsh -q dumpxml --inactive vm0$number |
    sed -E "s#<name>.*</name>#<name>vm0$((number + 4))</name>#; s#<uuid>[^<]*</uuid>##; s#<mac [^>]*/>##" >/run/guest.xml
  virsh -q define /run/guest.xml
done
"""
MIXED = (cases.VF, cases.VENDOR)


def places(vm: Vm) -> dict[str, dict[str, int]]:
    """By GPU and profile: where `list`, the driver's own file, and the ledger have its vGPU."""
    entered = {entry["vm_name"]: entry["placement_id"] for entry in seen.ledger(vm)}
    found: dict[str, dict[str, int]] = {case.gpu: {} for case in MIXED}
    for row in vgpus(vm):
        (case,) = (case for case in MIXED if case.gpu == row["gpu"])
        (profile,) = (profile for profile, guest in GUESTS[case.gpu].items() if guest == row["vm"])
        device = case.device(row)
        folder = (
            f"/sys/bus/pci/devices/{device}"
            if row["framework"] == cases.VENDOR.framework
            else f"/sys/bus/mdev/devices/{device}"
        )
        assert row["placement_id"] == entered[row["vm"]] == int(vm.must("cat", f"{folder}/nvidia/placement_id"))
        found[case.gpu][profile] = row["placement_id"]
    return found


def hold_four_sizes(vm: Vm, case: Case) -> None:
    asked = ("--on", HOST, "--gpu-id", case.gpu, "--yes", "-o", "json")
    assert vgpumgr(vm, "mode", "set", "mixed-size", *asked).document["changed"] is True
    assert vgpumgr(vm, "mode", "set", "mixed-size", *asked).document["changed"] is False
    guests = GUESTS[case.gpu]
    for profile, guest in guests.items():
        vgpumgr(vm, "attach", guest, "--profile", profile, "--gpu-id", case.gpu)
    again = ("attach", guests["4Q"], "--profile", "4Q", "-o", "json")
    assert vgpumgr(vm, *again).document["changed"] is False


def test_a_gpu_holds_four_sizes_and_each_is_where_it_was_after_a_reboot(vm: Vm, tmp_path: Path) -> None:
    """On both frameworks that have the mode, side by side on one host: the reboot is what takes long."""
    vm.must("bash -s", text=f"set -eu\n{_MORE_GUESTS}")
    for case in MIXED:
        hold_four_sizes(vm, case)
    assert places(vm) == {case.gpu: PLACES for case in MIXED}
    declared = tmp_path / "inventory"
    shutil.copytree(Path(vm.environment["VGPUMGR_INVENTORY"]), declared)
    (declared / "host_vars").mkdir()
    (declared / "host_vars" / f"{HOST}.yml").write_text(
        json.dumps({"vgpumgr_gpus": {case.gpu: {"mode": "mixed-size"} for case in MIXED}}), encoding="utf-8"
    )
    # Without the 24Q at its start, the driver would put each of the others elsewhere.
    for case in MIXED:
        vgpumgr(vm, "detach", GUESTS[case.gpu]["24Q"], "--yes")
    vm.power_cycle()
    assert seen.hardware(vm) == {}
    vgpumgr(vm, "-i", str(declared), "reconcile", "--yes")
    kept = {profile: place for profile, place in PLACES.items() if profile != "24Q"}
    assert places(vm) == {case.gpu: kept for case in MIXED}
    assert vgpumgr(vm, "-i", str(declared), "reconcile", "-o", "json").document["changed"] is False
