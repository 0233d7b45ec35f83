"""A GPU in mixed-size mode, filled by command line on both frameworks that have the mode."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ET
from typing import TYPE_CHECKING, Any

import pytest

from tests.acceptance import inventories
from tests.acceptance.command import vgpumgr

if TYPE_CHECKING:
    from pathlib import Path

    from tests.acceptance.command import Ran
    from tests.lab_fixtures import Lab, LabFactory

pytestmark = pytest.mark.lab

SPEC = """
hosts:
  kvm01: {driver: 595, framework: vendor-vfio, boards: [{board: L40S, vfs: 6}], vms: ["a[1:5]"]}
  kvm02: {driver: 570, boards: [{board: L40S, vfs: 6}], vms: ["b[1:5]"]}
"""
HOSTS = {"kvm01": "a", "kvm02": "b"}
GPU = "0000:41:00.0"
SIZES = {"24Q": 24, "12Q": 12, "8Q": 8, "4Q": 4}


@pytest.fixture(scope="module")
def lab(lab_factory: LabFactory, tmp_path_factory: pytest.TempPathFactory) -> Lab:
    spec = tmp_path_factory.mktemp("spec") / "spec.yml"
    spec.write_text(SPEC, encoding="utf-8")
    return lab_factory(str(spec), shared=False)


def places(lab: Lab, host: str) -> dict[str, Any]:
    """By type: the placement id that `list` tells, and the host's ledger and the VMs' claims too."""
    rows = vgpumgr(lab, "list", host, "-o", "json").document["vgpus"]
    assert {row["origin"] for row in rows} <= {"ours"}
    ledger = json.loads(lab.must(host, "cat", "/var/lib/vgpumgr/ledger.json"))
    entered = {entry["vm_name"]: entry["placement_id"] for entry in ledger["entries"]}
    for row in rows:
        xml = lab.must(host, "virsh", "dumpxml", "--inactive", row["vm"])
        (binding,) = ET.fromstring(xml).iter("{urn:vgpumgr:domain:2}binding")
        assert row["placement_id"] == entered[row["vm"]] == int(binding.attrib["placement_id"])
    return {row["type_name"].partition("-")[2]: row["placement_id"] for row in rows}


def set_mode(lab: Lab, host: str, mode: str, code: int = 0) -> Ran:
    return vgpumgr(lab, "mode", "set", mode, "--on", host, "--gpu-id", GPU, "--yes", "-o", "json", code=code)


def mode(lab: Lab, host: str) -> dict[str, Any]:
    document = vgpumgr(lab, "mode", "show", host, "-o", "json").document
    found: dict[str, Any] = document["hosts"][0]["gpus"][0]
    return found


@pytest.mark.parametrize("host", HOSTS)
def test_idle_vgpus_are_moved_out_and_back_and_one_that_a_vm_has_is_in_the_way(lab: Lab, host: str) -> None:
    vms = [f"{HOSTS[host]}{number}" for number in (1, 2)]
    for vm in vms:
        vgpumgr(lab, "attach", vm, "--profile", "4Q")
    before = vgpumgr(lab, "list", host, "-o", "json").document["vgpus"]
    lab.control(host, "hold", vm=vms[0])
    assert set_mode(lab, host, "mixed-size", code=5).error["error"] == "InUse"
    lab.control(host, "release", vm=vms[0])
    done = set_mode(lab, host, "mixed-size").document
    assert done["plan"][0]["around"] == [f"{vm} vgpu0" for vm in vms]
    assert mode(lab, host)["mode"] == "mixed-size"
    after = vgpumgr(lab, "list", host, "-o", "json").document["vgpus"]
    kept = [key for key in before[0] if key != "placement_id"]
    assert [[row[key] for key in kept] for row in after] == [[row[key] for key in kept] for row in before]
    assert None not in [row["placement_id"] for row in after]
    set_mode(lab, host, "equal-size")
    assert mode(lab, host) | {"uuid": ""} == {
        "pci": GPU,
        "uuid": "",
        "board": "L40S",
        "mode": "equal-size",
        "declared": None,
        "declared_where": None,
        "state": "undeclared",
        "vgpus": 2,
    }
    for vm in vms:
        vgpumgr(lab, "detach", vm, "--yes")


@pytest.mark.parametrize("host", HOSTS)
def test_one_gpu_takes_24q_12q_8q_and_4q(lab: Lab, host: str) -> None:
    set_mode(lab, host, "mixed-size")
    assert set_mode(lab, host, "mixed-size").document["outcomes"] == ["unchanged"]
    told = {}
    for number, profile in enumerate(SIZES, start=1):
        said = vgpumgr(lab, "attach", f"{HOSTS[host]}{number}", "--profile", profile).out
        (line,) = (line for line in said.splitlines() if line.startswith("  + vGPU"))
        told[profile] = int(line.partition(", placement id ")[2].partition(" ")[0])
    found = places(lab, host)
    assert found == told
    head, *lines = vgpumgr(lab, "list", host, "-o", "wide").out.splitlines()
    assert sorted(int(line[head.index("PLACEMENT") :].split()[0]) for line in lines) == sorted(found.values())
    assert found.keys() == SIZES.keys()
    taken = [slot for profile, size in SIZES.items() for slot in range(found[profile], found[profile] + size)]
    assert sorted(taken) == list(range(48))
    vgpumgr(lab, "attach", f"{HOSTS[host]}1", "--profile", "24Q")  # again: nothing to do
    full = vgpumgr(lab, "attach", f"{HOSTS[host]}5", "--profile", "1Q", code=5)
    assert "no place for 1Q is free in mixed-size mode" in full.err
    refused = set_mode(lab, host, "equal-size", code=5).error
    assert refused["error"] == "RefusedPlan"
    assert "its vGPUs would not all find room again" in refused["message"]


@pytest.mark.parametrize("host", HOSTS)
@pytest.mark.parametrize("declared", [True, False])
def test_after_a_reboot_the_mode_and_the_vgpus_come_back(
    lab: Lab, host: str, tmp_path: Path, *, declared: bool
) -> None:
    """The four vGPUs are those of the test before the last one. Where the mode is not declared, they are why it is restored."""
    before = places(lab, host)
    inventory = inventories.copy(lab, tmp_path)
    if declared:
        text = f'vgpumgr_gpus:\n  "{GPU}": {{mode: mixed-size}}\n'
        (inventory / "host_vars" / f"{host}.yml").write_text(text, encoding="utf-8")
    again = ("reconcile", "-i", str(inventory), "--limit", host, "--yes", "-o", "json")
    vgpumgr(lab, "lab", "reboot", host)
    assert mode(lab, host)["mode"] == "equal-size"
    told = vgpumgr(lab, "list", host).warnings
    hint = f"`vgpumgr mode set mixed-size --on {host} --gpu-id {GPU}` brings both back"
    assert sum(hint in line for line in told) == len(SIZES)
    vgpumgr(lab, *again)
    assert mode(lab, host)["mode"] == "mixed-size"
    assert places(lab, host) == before
    assert vgpumgr(lab, *again).document["changed"] is False


@pytest.mark.parametrize("host", HOSTS)
def test_each_comes_back_to_its_place_although_the_driver_would_put_it_elsewhere(lab: Lab, host: str) -> None:
    """As it would without the 24Q at the start of the GPU."""
    before = places(lab, host)
    vgpumgr(lab, "detach", f"{HOSTS[host]}1", "--yes")
    vgpumgr(lab, "lab", "reboot", host)
    again = ("reconcile", "--limit", host, "--yes", "-o", "json")
    vgpumgr(lab, *again)
    assert before.pop("24Q") == 0
    assert places(lab, host) == before
    assert vgpumgr(lab, *again).document["changed"] is False


@pytest.mark.parametrize("host", HOSTS)
def test_a_driver_that_moves_nothing_has_the_last_word_and_is_told_of(lab: Lab, host: str, tmp_path: Path) -> None:
    """After the test before this one there are a 12Q, an 8Q and a 4Q, and none of them is where the driver would put it."""
    before = places(lab, host)
    lab.control(host, "fault", name="own-places")
    vgpumgr(lab, "lab", "reboot", host)
    again = ("reconcile", "--limit", host, "--yes", "-o", "json")
    done = vgpumgr(lab, *again).document
    assert done["outcomes"] == ["done"]
    listed = vgpumgr(lab, "list", host, "-o", "json").document
    found = {row["type_name"].partition("-")[2]: row["placement_id"] for row in listed["vgpus"]}
    assert found.keys() == before.keys()
    told = [row for row in listed["findings"] if row["kind"] == "placements"]
    assert {row["vm"] for row in told} == {
        row["vm"] for row in listed["vgpus"] if row["placement_id"] != before[row["type_name"].partition("-")[2]]
    }
    assert len(told) >= 1
    assert "as vgpumgr chose: what the driver shows counts" in told[0]["text"]
    assert vgpumgr(lab, *again).document["changed"] is False
    vgpumgr(lab, "lab", "fault", host, "clear")
    for row in told:
        vgpumgr(lab, "detach", row["vm"], "--yes")
    for row in told:
        profile = next(one["profile"] for one in listed["vgpus"] if one["vm"] == row["vm"])
        said = vgpumgr(lab, "attach", row["vm"], "--profile", profile)
        assert "not at" not in said.out + said.err
    places(lab, host)


@pytest.mark.parametrize("host", HOSTS)
def test_fixed_share_and_mixed_size_do_not_combine(lab: Lab, host: str) -> None:
    """After the test before this one, the GPU is in mixed-size mode."""
    asked = ("--on", host, "--gpu-id", GPU, "--policy", "fixed-share", "--yes", "-o", "json")
    assert vgpumgr(lab, "scheduler", "set", *asked, code=5).error["error"] == "RefusedPlan"
    for number in range(2, 5):
        vgpumgr(lab, "detach", f"{HOSTS[host]}{number}", "--yes")
    set_mode(lab, host, "equal-size")
    vgpumgr(lab, "scheduler", "set", *asked)
    assert "fixed-share" in set_mode(lab, host, "mixed-size", code=5).error["message"]
