"""A host whose ledger was lost: what is there is shown, entered again and freed, and nothing is made a second time."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.acceptance import domains, truth
from tests.acceptance.command import vgpumgr, vgpus
from tests.lab_fixtures import fewer_vfs

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.lab_fixtures import Lab, LabFactory

pytestmark = pytest.mark.lab

HOST = "kvm01"
VMS = ("vm01", "vm02", "vm03")
LEDGER = "/var/lib/vgpumgr/ledger.json"


@pytest.fixture(scope="module", params=["mdev-pf", "mdev-vf", "vendor-vfio"])
def lab(
    request: pytest.FixtureRequest, lab_factory: LabFactory, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Lab]:
    found = lab_factory(fewer_vfs(request.param, tmp_path_factory.mktemp("spec")), shared=False)
    assert truth.hardware(found, HOST) == {}
    yield found
    found.down()


@pytest.fixture
def given(lab: Lab) -> Iterator[dict[str, str]]:
    """Three VMs with a vGPU each: their definitions."""
    for vm in VMS:
        # The lab's libvirt refuses to start a VF; what is defined is the same.
        vgpumgr(lab, "attach", vm, "--profile", "4Q", "--on", HOST)
    yield definitions(lab)
    for vm in VMS:
        vgpumgr(lab, "detach", vm, "--on", HOST, "--all", "--yes")
    assert truth.hardware(lab, HOST) == {}
    assert truth.ledger(lab, HOST) == []


def definitions(lab: Lab) -> dict[str, str]:
    return {vm: domains.dump(lab, HOST, vm) for vm in VMS}


def entries(lab: Lab) -> list[tuple[str, str, str]]:
    return sorted((row["vm_name"], row["slot"], row["parent"]) for row in truth.ledger(lab, HOST))


def findings(lab: Lab) -> dict[str, str]:
    told = vgpumgr(lab, "list", HOST, "-o", "json").document["findings"]
    return {row["kind"]: row["text"] for row in told if row["kind"] != "will-not-start"}


def test_a_lost_ledger_is_said_entered_again_and_freed_and_nothing_is_made_twice(
    lab: Lab, given: dict[str, str]
) -> None:
    """list says what happened; reconcile makes nothing and ends with the same three; so does adopt; detach frees right after."""
    hardware, known = truth.hardware(lab, HOST), entries(lab)
    assert len(hardware) == 3
    lab.must(HOST, "rm", LEDGER)
    told = findings(lab)
    assert list(told) == ["ledger-missing"]
    assert "is missing, but 3 bound claims name this host" in told["ledger-missing"]
    assert [row["vm"] for row in vgpus(lab, HOST)] == list(VMS)

    before = lab.revisions()[HOST]
    done = vgpumgr(lab, "reconcile", "--limit", HOST, "--yes", "-o", "json").document
    assert {step["verb"] for step in done["plan"]} == {"enter_vgpu"}
    assert lab.writes(HOST, since=before) == []
    assert (truth.hardware(lab, HOST), entries(lab), definitions(lab)) == (hardware, known, given)
    assert findings(lab) == {}

    lab.must(HOST, "rm", LEDGER)
    trace = truth.trace(lab, HOST)
    assert vgpumgr(lab, "adopt", HOST, "--check", "-o", "json", code=3).document["changed"]
    assert truth.differing(trace, truth.trace(lab, HOST)) == []
    made = vgpumgr(lab, "adopt", HOST, "-o", "json").document
    assert {row["vm"] for row in made["result"]["vgpus"]} == set(VMS)
    assert (truth.hardware(lab, HOST), entries(lab), definitions(lab)) == (hardware, known, given)
    assert vgpumgr(lab, "adopt", HOST).out == f"{HOST}: nothing to adopt.\n"

    lab.must(HOST, "rm", LEDGER)
    freed = vgpumgr(lab, "detach", VMS[0], "--on", HOST, "--yes").out
    assert "= vGPU" in freed
    assert "- vGPU" in freed
    assert len(truth.hardware(lab, HOST)) == 2
    vgpumgr(lab, "attach", VMS[1], "--profile", "4Q", "--on", HOST)
    assert len(truth.hardware(lab, HOST)) == 2
    assert [vm for vm, _, _ in entries(lab)] == [VMS[1]]


def test_a_foreign_vgpu_is_adopted_by_its_name_and_is_ours_from_then_on(lab: Lab, given: dict[str, str]) -> None:
    """Its ledger entry and claim are taken away, and it keeps its own UUID or VF; what no definition names is refused (5)."""
    hardware = truth.hardware(lab, HOST)
    (device,) = (domains.device_of(one) for one in domains.hostdevs(given[VMS[0]]).values())
    lab.must(HOST, "rm", LEDGER)
    lab.must(HOST, "virsh", "metadata", VMS[0], "urn:vgpumgr:domain:2", "--config", "--remove")
    vgpumgr(lab, "adopt", HOST)
    said = vgpumgr(lab, "detach", device, "--on", HOST, "--yes", "-o", "json", code=2).error
    assert "vgpumgr adopt" in said["hint"]

    before = truth.trace(lab, HOST)
    vgpumgr(lab, "adopt", HOST, device, "--check", code=3)
    assert truth.differing(before, truth.trace(lab, HOST)) == []
    vgpumgr(lab, "adopt", HOST, device)
    assert (truth.hardware(lab, HOST), len(entries(lab))) == (hardware, 3)
    assert domains.claim_states(domains.dump(lab, HOST, VMS[0])) == {"vgpu0": "bound"}
    assert findings(lab) == {}
    again = vgpumgr(lab, "adopt", HOST, device, "-o", "json").document
    assert (again["changed"], again["outcomes"]) == (False, ["unchanged"])
    assert not vgpumgr(lab, "attach", VMS[0], "--profile", "4Q", "--on", HOST, "-o", "json").document["changed"]

    vgpumgr(lab, "adopt", HOST, "0000:ff:1f.7", code=2)
    (other,) = (domains.device_of(one) for one in domains.hostdevs(given[VMS[1]]).values())
    lab.must(HOST, "rm", LEDGER)
    lab.must(HOST, "virsh", "detach-device-alias", VMS[1], "ua-vgpu0", "--config")
    assert vgpumgr(lab, "adopt", HOST, other, "-o", "json", code=5).error["error"] == "ForeignDevice"
    domains.define(lab, HOST, given[VMS[1]])
    vgpumgr(lab, "adopt", HOST)
    assert len(entries(lab)) == 3
