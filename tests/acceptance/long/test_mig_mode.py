"""MIG mode set by command line and by the inventory: what goes, what comes back, and what a reset needs.

What keeps the mode as it is, and that a mode which nobody declares comes back, is said by tests/unit/core/gpu/test_mig_mode.py.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from tests import lab_state
from tests.acceptance import inventories
from tests.acceptance.command import vgpumgr
from tests.turn import in_turn

if TYPE_CHECKING:
    from pathlib import Path

    from tests.acceptance.command import Ran
    from tests.lab_fixtures import Lab, LabFactory

pytestmark = pytest.mark.lab

SPEC = """
hosts:
  kvm01: {driver: 570, boards: [{board: A100, vfs: 6}], vms: ["a[1:4]"]}
  kvm02: {driver: 595, framework: vendor-vfio, boards: [{board: H100, vfs: 6}], vms: ["b[1:4]"]}
"""
HOSTS = {"kvm01": "a", "kvm02": "b"}
GPU = "0000:41:00.0"


@pytest.fixture(scope="module")
def lab(lab_factory: LabFactory) -> Lab:
    return lab_factory(
        SPEC, own="boards of Ampere keep MIG mode over a reboot, so that wiping takes as long as a start"
    )


def set_mode(lab: Lab, host: str, mode: str, *more: str, code: int = 0) -> Ran:
    asked = ("--on", host, "--gpu-id", GPU, "--allow-reset", "--yes", "-o", "json", *more)
    return vgpumgr(lab, "mode", "set", mode, *asked, code=code)


def mode(lab: Lab, host: str) -> str:
    """As the driver has it."""
    (line,) = (line for line in lab_state.look(lab, host).driver if line.startswith("gpu index=0 "))
    return "mig" if " mig=1 " in line else "equal-size"


def types(lab: Lab, host: str) -> dict[str, str]:
    """Each VM's type, of those that are bound."""
    rows = vgpumgr(lab, "list", host, "-o", "json").document["vgpus"]
    assert {row["state"] for row in rows} <= {"bound"}
    return {row["vm"]: row["type_name"].partition("-")[2] for row in rows}


def entered(lab: Lab, host: str) -> list[dict[str, Any]]:
    """The ledger's GPU instances."""
    found: list[dict[str, Any]] = json.loads(lab.must(host, "cat", "/var/lib/vgpumgr/ledger.json")).get("instances", [])
    return found


def instances(lab: Lab, host: str) -> list[str]:
    """The driver's, as nvidia-smi says."""
    out = lab.must(host, "nvidia-smi", "mig", "-lgi")
    return sorted(line.split()[3] for line in out.splitlines() if line.startswith("|   0  MIG"))


def reconcile(lab: Lab, inventory: Path, host: str, code: int = 0) -> Ran:
    return vgpumgr(lab, "reconcile", host, "-i", str(inventory), "--yes", "-o", "json", code=code)


def test_a_reset_is_made_only_where_the_board_needs_one_and_it_is_allowed(lab: Lab) -> None:
    asked = ("mode", "set", "mig", "--gpu-id", GPU, "--yes", "-o", "json", "--on")
    refused = vgpumgr(lab, *asked, "kvm01", code=5).error
    assert "only with a reset" in refused["message"]
    assert "--allow-reset" in refused["hint"]
    assert mode(lab, "kvm01") == "equal-size"
    done = vgpumgr(lab, *asked, "kvm02").document
    assert [step["verb"] for step in done["plan"]] == ["set_vfs", "set_mig", "set_vfs"]
    assert mode(lab, "kvm02") == "mig"
    assert vgpumgr(lab, *asked, "kvm02").document["outcomes"] == ["unchanged"]
    set_mode(lab, "kvm02", "equal-size")


@pytest.mark.parametrize("host", ["kvm01"])
def test_what_asked_for_memory_comes_back_in_either_mode_and_a_running_vm_is_never_touched(lab: Lab, host: str) -> None:
    first, second = f"{HOSTS[host]}1", f"{HOSTS[host]}2"
    vgpumgr(lab, "attach", first, second, "--on", host, "--gpu-memory", "8G")
    time_sliced = types(lab, host)
    lab.control(host, "hold", vm=first)
    assert set_mode(lab, host, "mig", code=5).error["error"] == "InUse"
    lab.control(host, "release", vm=first)
    assert set_mode(lab, host, "mig", "--check", code=3).document["changed"] is True
    assert types(lab, host) == time_sliced
    set_mode(lab, host, "mig")
    backed = types(lab, host)
    assert backed == {first: "1-10C", second: "1-10C"}
    assert len(entered(lab, host)) == len(instances(lab, host)) == 2
    set_mode(lab, host, "equal-size")
    assert types(lab, host) == time_sliced
    assert entered(lab, host) == []
    vgpumgr(lab, "detach", first, second, "--on", host, "--yes")


@pytest.mark.parametrize("host", in_turn(HOSTS))
def test_a_declared_layout_is_kept_over_a_reboot_together_with_the_vgpus_in_it(
    lab: Lab, host: str, tmp_path: Path
) -> None:
    """Ampere's boards keep MIG mode; the others lose it with the boot, and reconcile sets it again."""
    half, seventh = ("3g.20gb", "1g.5gb") if host == "kvm01" else ("3g.40gb", "1g.10gb")
    inventory = inventories.copy(lab, tmp_path)
    declared = f'vgpumgr_gpus:\n  "{GPU}": {{mode: mig, instances: [{half}, {seventh}]}}\n'
    (inventory / "host_vars" / f"{host}.yml").write_text(declared, encoding="utf-8")
    if host == "kvm01":
        refused = reconcile(lab, inventory, host, code=5)
        assert "--allow-reset" in refused.out + refused.err
        set_mode(lab, host, "mig")
    assert reconcile(lab, inventory, host).document["changed"] is True
    assert mode(lab, host) == "mig"
    assert instances(lab, host) == sorted([half, seventh])
    vm = f"{HOSTS[host]}1"
    vgpumgr(lab, "attach", vm, "--on", host, "--mig-profile", half)
    assert instances(lab, host) == sorted([half, seventh])
    before = types(lab, host)
    lab.control(host, "reboot")
    assert mode(lab, host) == ("mig" if host == "kvm01" else "equal-size")
    reconcile(lab, inventory, host)
    assert types(lab, host) == before
    assert mode(lab, host) == "mig"
    assert instances(lab, host) == sorted([half, seventh])
    assert len(entered(lab, host)) == 2
    assert reconcile(lab, inventory, host).document["changed"] is False
    vgpumgr(lab, "detach", vm, "--on", host, "--yes")
    set_mode(lab, host, "equal-size")
