"""A GPU in mixed-size mode, filled by command line on both frameworks that have the mode.

What is decided is said by tests/unit/core/gpu/test_size_mode.py and test_free_places.py; that hosts do it, by tests/kernel.
"""

from __future__ import annotations

import xml.etree.ElementTree as ET
from typing import TYPE_CHECKING, Any

import pytest

from tests.acceptance import near
from tests.acceptance.command import vgpumgr
from vgpumgr.host.protocol.gpu import VENDOR_VFIO

if TYPE_CHECKING:
    from tests.acceptance.command import Ran
    from tests.acceptance.near import Near, Sites

HOSTS = {
    "kvm01": near.NearHost(vms=tuple(f"a{number}" for number in range(1, 6)), board="L40S", framework=VENDOR_VFIO),
    "kvm02": near.NearHost(vms=tuple(f"b{number}" for number in range(1, 6)), board="L40S"),
}
GPU = "0000:41:00.0"
SIZES = {"24Q": 24, "12Q": 12, "8Q": 8, "4Q": 4}


@pytest.fixture
def lab(host: str, near_site: Sites) -> Near:
    return near_site({host: HOSTS[host]})


def attach(lab: Near, vm: str, profile: str, code: int = 0) -> Ran:
    return vgpumgr(lab, "attach", vm, "--profile", profile, "--gpu-id", GPU, code=code)


def places(lab: Near, host: str) -> dict[str, Any]:
    """By type: the placement id that `list` tells, and the host's ledger and the VMs' claims too."""
    rows = vgpumgr(lab, "list", host, "-o", "json").document["vgpus"]
    assert {row["origin"] for row in rows} <= {"ours"}
    entered = {entry["vm_name"]: entry["placement_id"] for entry in lab.machines[host].ledger()}
    for row in rows:
        (binding,) = ET.fromstring(lab.xml(host, row["vm"])).iter("{urn:vgpumgr:domain:2}binding")
        assert row["placement_id"] == entered[row["vm"]] == int(binding.attrib["placement_id"])
    return {row["type_name"].partition("-")[2]: row["placement_id"] for row in rows}


def set_mode(lab: Near, host: str, mode: str, code: int = 0) -> Ran:
    return vgpumgr(lab, "mode", "set", mode, "--on", host, "--gpu-id", GPU, "--yes", "-o", "json", code=code)


def mode(lab: Near, host: str) -> dict[str, Any]:
    document = vgpumgr(lab, "mode", "show", host, "-o", "json").document
    found: dict[str, Any] = document["hosts"][0]["gpus"][0]
    return found


@pytest.mark.parametrize("host", HOSTS)
def test_one_gpu_takes_24q_12q_8q_and_4q_and_has_them_again_after_a_reboot(lab: Near, host: str) -> None:
    set_mode(lab, host, "mixed-size")
    assert set_mode(lab, host, "mixed-size").document["outcomes"] == ["unchanged"]
    vms, told = HOSTS[host].vms, {}
    for vm, profile in zip(vms, SIZES, strict=False):
        said = attach(lab, vm, profile).out
        (line,) = (line for line in said.splitlines() if line.startswith("  + vGPU"))
        told[profile] = int(line.partition(", placement id ")[2].partition(" ")[0])
    found = places(lab, host)
    assert found == told
    head, *lines = vgpumgr(lab, "list", host, "-o", "wide").out.splitlines()
    assert sorted(int(line[head.index("PLACEMENT") :].split()[0]) for line in lines) == sorted(found.values())
    assert found.keys() == SIZES.keys()
    taken = [slot for profile, size in SIZES.items() for slot in range(found[profile], found[profile] + size)]
    assert sorted(taken) == list(range(48))
    attach(lab, vms[0], "24Q")  # again: nothing to do
    assert "no place for 1Q is free in mixed-size mode" in attach(lab, vms[4], "1Q", code=5).err
    refused = set_mode(lab, host, "equal-size", code=5).error
    assert refused["error"] == "RefusedPlan"
    assert "its vGPUs would not all find room again" in refused["message"]

    # After a reboot the mode and the vGPUs come back. It is not declared: the vGPUs are why it is restored.
    again = ("reconcile", "--yes", "-o", "json")
    lab.machines[host].reboot()
    assert mode(lab, host)["mode"] == "equal-size"
    warned = vgpumgr(lab, "list", host).warnings
    hint = f"`vgpumgr mode set mixed-size --on {host} --gpu-id {GPU}` brings both back"
    assert sum(hint in line for line in warned) == len(SIZES)
    vgpumgr(lab, *again)
    assert mode(lab, host)["mode"] == "mixed-size"
    assert places(lab, host) == found
    assert vgpumgr(lab, *again).document["changed"] is False
