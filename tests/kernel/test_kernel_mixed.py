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

GUESTS = {"vm01": "24Q", "vm02": "12Q", "vm03": "8Q", "vm04": "4Q"}
PLACES = {"24Q": 0, "12Q": 24, "8Q": 40, "4Q": 36}


def places(vm: Vm, case: Case) -> dict[str, int]:
    """By profile: where `list`, the driver's own file, and the ledger have its vGPU."""
    entered = {entry["vm_name"]: entry["placement_id"] for entry in seen.ledger(vm)}
    found = {}
    for row in vgpus(vm):
        device = case.device(row)
        folder = (
            f"/sys/bus/pci/devices/{device}"
            if row["framework"] == cases.VENDOR.framework
            else f"/sys/bus/mdev/devices/{device}"
        )
        assert row["placement_id"] == entered[row["vm"]] == int(vm.must("cat", f"{folder}/nvidia/placement_id"))
        found[GUESTS[row["vm"]]] = row["placement_id"]
    return found


@pytest.mark.parametrize("case", [cases.VF, cases.VENDOR], ids=lambda case: case.framework)
def test_one_gpu_holds_four_sizes_and_each_is_where_it_was_after_a_reboot(vm: Vm, case: Case, tmp_path: Path) -> None:
    asked = ("--on", HOST, "--gpu-id", case.gpu, "--yes", "-o", "json")
    assert vgpumgr(vm, "mode", "set", "mixed-size", *asked).document["changed"] is True
    assert vgpumgr(vm, "mode", "set", "mixed-size", *asked).document["changed"] is False
    for guest, profile in GUESTS.items():
        vgpumgr(vm, "attach", guest, "--profile", profile, "--gpu-id", case.gpu)
    assert places(vm, case) == PLACES
    assert vgpumgr(vm, "attach", "vm04", "--profile", "4Q", "-o", "json").document["changed"] is False
    declared = tmp_path / "inventory"
    shutil.copytree(Path(vm.environment["VGPUMGR_INVENTORY"]), declared)
    (declared / "host_vars").mkdir()
    (declared / "host_vars" / f"{HOST}.yml").write_text(
        json.dumps({"vgpumgr_gpus": {case.gpu: {"mode": "mixed-size"}}}), encoding="utf-8"
    )
    # Without the 24Q at its start, the driver would put each of the others elsewhere.
    vgpumgr(vm, "detach", "vm01", "--yes")
    vm.power_cycle()
    assert seen.hardware(vm) == {}
    vgpumgr(vm, "-i", str(declared), "reconcile", "--yes")
    assert places(vm, case) == {profile: place for profile, place in PLACES.items() if profile != "24Q"}
    assert vgpumgr(vm, "-i", str(declared), "reconcile", "-o", "json").document["changed"] is False
