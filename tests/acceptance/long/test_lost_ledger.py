"""A host whose ledger was lost: what is there is shown, entered again and freed, and nothing is made a second time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest

from tests.acceptance import domains, truth
from tests.acceptance.command import vgpumgr, vgpus
from tests.lab_fixtures import FRAMEWORKS
from tests.turn import in_turn

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from tests.lab_fixtures import Lab, LabFactory

pytestmark = pytest.mark.lab

# tests/unit/core/evidence/test_ownership.py adopts on every framework. These two are an mdev on a VF, and a VF without an mdev.
HOSTS = {"kvm02": "f", "kvm03": "v"}
LEDGER = "/var/lib/vgpumgr/ledger.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class Site:
    """One host of the lab, and three VMs that have a vGPU each: their definitions."""

    lab: Lab
    host: str
    given: dict[str, str]

    def named(self, vm: str) -> list[str]:
        """What has to be named to adopt the VM's vGPU after a lost ledger: a virtual function, but no mdev of ours."""
        if self.host != "kvm03":
            return []
        return [domains.device_of(one) for one in domains.hostdevs(self.given[vm]).values()]


@pytest.fixture(params=in_turn(HOSTS))
def site(request: pytest.FixtureRequest, lab_factory: LabFactory) -> Iterator[Site]:
    """The lab's libvirt refuses to start a VF; what is defined is the same."""
    host = str(request.param)
    vms = [f"{HOSTS[host]}{number}" for number in (1, 2, 3)]
    with lab_factory.lend(FRAMEWORKS, wiped=True) as lab:
        vgpumgr(lab, "attach", *vms, "--profile", "4Q", "--on", host)
        yield Site(lab=lab, host=host, given=definitions(lab, host, vms))


def definitions(lab: Lab, host: str, vms: Iterable[str]) -> dict[str, str]:
    return {vm: domains.dump(lab, host, vm) for vm in vms}


def entries(lab: Lab, host: str) -> list[tuple[str, str, str]]:
    return sorted((row["vm_name"], row["slot"], row["parent"]) for row in truth.ledger(lab, host))


def findings(lab: Lab, host: str) -> dict[str, str]:
    told = vgpumgr(lab, "list", host, "-o", "json").document["findings"]
    return {row["kind"]: row["text"] for row in told if row["kind"] != "will-not-start"}


@pytest.mark.parametrize("site", ["kvm02"], indirect=True)
def test_a_lost_ledger_is_said_entered_again_and_freed_and_nothing_is_made_twice(site: Site) -> None:
    """list says what happened; reconcile makes nothing and ends with the same three; so does adopt; detach frees right after."""
    lab, host, given, vms = site.lab, site.host, site.given, list(site.given)
    hardware, known = truth.hardware(lab, host), entries(lab, host)
    assert len(hardware) == 3
    lab.must(host, "rm", LEDGER)
    told = findings(lab, host)
    assert list(told) == ["ledger-missing"]
    assert "is missing, but 3 bound claims name this host" in told["ledger-missing"]
    assert [row["vm"] for row in vgpus(lab, host)] == vms

    before = lab.revisions()[host]
    done = vgpumgr(lab, "reconcile", "--limit", host, "--yes", "-o", "json").document
    assert {step["verb"] for step in done["plan"]} == {"enter_vgpu"}
    assert lab.writes(host, since=before) == []
    assert (truth.hardware(lab, host), entries(lab, host), definitions(lab, host, vms)) == (hardware, known, given)
    assert findings(lab, host) == {}

    lab.must(host, "rm", LEDGER)
    trace = truth.trace(lab, host)
    assert vgpumgr(lab, "adopt", host, "--check", "-o", "json", code=3).document["changed"]
    assert truth.differing(trace, truth.trace(lab, host)) == []
    made = vgpumgr(lab, "adopt", host, "-o", "json").document
    assert {row["vm"] for row in made["result"]["vgpus"]} == set(vms)
    assert (truth.hardware(lab, host), entries(lab, host), definitions(lab, host, vms)) == (hardware, known, given)
    assert vgpumgr(lab, "adopt", host).out == f"{host}: nothing to adopt.\n"

    lab.must(host, "rm", LEDGER)
    freed = vgpumgr(lab, "detach", vms[0], "--on", host, "--yes").out
    assert "= vGPU" in freed
    assert "- vGPU" in freed
    assert len(truth.hardware(lab, host)) == 2
    vgpumgr(lab, "attach", vms[1], "--profile", "4Q", "--on", host)
    assert len(truth.hardware(lab, host)) == 2
    assert [vm for vm, _, _ in entries(lab, host)] == [vms[1]]


def test_a_foreign_vgpu_is_adopted_by_its_name_and_is_ours_from_then_on(site: Site) -> None:
    """Its ledger entry and claim are taken away, and it keeps its own UUID or VF; what no definition names is refused (5)."""
    lab, host, given, vms = site.lab, site.host, site.given, list(site.given)
    hardware = truth.hardware(lab, host)
    (device,) = (domains.device_of(one) for one in domains.hostdevs(given[vms[0]]).values())
    lab.must(host, "rm", LEDGER)
    lab.must(host, "virsh", "metadata", vms[0], "urn:vgpumgr:domain:2", "--config", "--remove")
    others = [one for vm in vms[1:] for one in site.named(vm)]
    vgpumgr(lab, "adopt", host, *others)
    said = vgpumgr(lab, "detach", device, "--on", host, "--yes", "-o", "json", code=2).error
    assert "vgpumgr adopt" in said["hint"]

    before = truth.trace(lab, host)
    vgpumgr(lab, "adopt", host, device, "--check", code=3)
    assert truth.differing(before, truth.trace(lab, host)) == []
    vgpumgr(lab, "adopt", host, device)
    assert (truth.hardware(lab, host), len(entries(lab, host))) == (hardware, 3)
    assert domains.claim_states(domains.dump(lab, host, vms[0])) == {"vgpu0": "bound"}
    assert findings(lab, host) == {}
    again = vgpumgr(lab, "adopt", host, device, "-o", "json").document
    assert (again["changed"], again["outcomes"]) == (False, ["unchanged"])
    assert not vgpumgr(lab, "attach", vms[0], "--profile", "4Q", "--on", host, "-o", "json").document["changed"]

    vgpumgr(lab, "adopt", host, "0000:ff:1f.7", code=2)
    (other,) = (domains.device_of(one) for one in domains.hostdevs(given[vms[1]]).values())
    lab.must(host, "rm", LEDGER)
    lab.must(host, "virsh", "detach-device-alias", vms[1], "ua-vgpu0", "--config")
    assert vgpumgr(lab, "adopt", host, other, "-o", "json", code=5).error["error"] == "ForeignDevice"
    domains.define(lab, host, given[vms[1]])
    vgpumgr(lab, "adopt", host, *(one for vm in vms for one in site.named(vm)))
    assert len(entries(lab, host)) == 3
