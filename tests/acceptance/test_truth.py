"""What is shown is true, and attach agrees with it: drift, a broken ledger, VMs that are gone, declarations, libvirt down."""

from __future__ import annotations

import json
import re
import shlex
from typing import TYPE_CHECKING, Any

import pytest

from tests.acceptance import domains, inventories, truth
from tests.acceptance.command import vgpumgr, vgpus

if TYPE_CHECKING:
    from pathlib import Path

    from tests.lab_fixtures import Lab

pytestmark = pytest.mark.lab

HOST, VM = "kvm01", "vm01"
ATTACH = ("attach", VM, "--profile", "4Q", "--on", HOST)


@pytest.fixture
def vf_lab(one_wiped: Lab) -> Lab:
    """kvm01, which each test leaves as it likes."""
    return one_wiped


@pytest.fixture
def given(vf_lab: Lab) -> str:
    """A VM that has a vGPU (slot vgpu0)."""
    vgpumgr(vf_lab, *ATTACH)
    return VM


def findings(lab: Lab, *, code: int = 0) -> list[dict[str, Any]]:
    document = json.loads(vgpumgr(lab, "list", HOST, "-o", "json", code=code).out)["findings"]
    assert isinstance(document, list)
    return document


def run_command_of(lab: Lab, finding: dict[str, Any]) -> None:
    """Do what a finding says, as a person who pastes it."""
    found = re.search(r"`vgpumgr ([^`]*)`", finding["text"])
    assert found is not None, finding
    vgpumgr(lab, *shlex.split(found[1]), "--yes")


# The definition


@pytest.mark.parametrize(
    ("pattern", "text"),
    [
        (r"(?s)<hostdev.*</hostdev>", ""),
        (r"<alias name='ua-vgpu0'/>", ""),
        ("ua-vgpu0", "ua-mine"),
        (r"(?s)(<source>\s*<address uuid=')[^']*", r"\g<1>00000000-0000-4000-8000-00000000000a"),
    ],
    ids=["no hostdev", "no alias", "another alias", "another device"],
)
def test_what_a_person_changed_in_the_definition_is_drift_that_attach_mends(
    vf_lab: Lab, given: str, pattern: str, text: str
) -> None:
    """`list` shows it as made with a finding, never as bound; the command that the finding prints puts it right."""
    whole = domains.hostdevs(domains.dump(vf_lab, HOST, given))
    domains.define(vf_lab, HOST, re.sub(pattern, text, domains.dump(vf_lab, HOST, given)))
    listed = vgpumgr(vf_lab, "list", HOST, "-o", "json").document
    assert [row["state"] for row in listed["vgpus"]] == ["made"]
    (finding,) = listed["findings"]
    assert (finding["kind"], finding["vm"], finding["slot"]) == ("drift", given, "vgpu0")
    vgpumgr(vf_lab, *ATTACH, "--check", code=3)

    run_command_of(vf_lab, finding)
    mended = domains.hostdevs(domains.dump(vf_lab, HOST, given))
    assert {alias: domains.device_of(device) for alias, device in mended.items()} == {
        alias: domains.device_of(device) for alias, device in whole.items()
    }
    listed = vgpumgr(vf_lab, "list", HOST, "-o", "json").document
    assert ([row["state"] for row in listed["vgpus"]], listed["findings"]) == (["bound"], [])


# The ledger


def test_a_ledger_that_cannot_be_read_is_said_once_and_nothing_is_made_of_it(vf_lab: Lab, given: str) -> None:
    """4, one finding, each vGPU once in unknown state; what is given away and what fits are unknown, not nothing."""
    vgpumgr(vf_lab, "attach", "vm02", "--profile", "4Q", "--on", HOST)
    vf_lab.must(HOST, "cd /var/lib/vgpumgr && cp -p ledger.json kept && echo '{' > ledger.json")

    listed = vgpumgr(vf_lab, "list", "-o", "json", code=4)
    document = json.loads(listed.out)
    assert [(row["vm"], row["state"], row["origin"]) for row in document["vgpus"]] == [
        (given, "unknown", "ours"),
        ("vm02", "unknown", "ours"),
    ]
    assert [(finding["kind"], finding["host"]) for finding in document["findings"]] == [("ledger", HOST)]
    text = document["findings"][0]["text"]
    assert all(part in text for part in (HOST, "/var/lib/vgpumgr/ledger.json", "not JSON", "restore it"))
    assert [(row["host"], row["error"]) for row in document["unreached"]] == [(HOST, "LedgerBroken")]
    assert document["outcomes"] == ["done", "unreached"]
    assert listed.error["error"] == "LedgerBroken"

    (gpus,) = ([row.split() for row in vgpumgr(vf_lab, "discover", HOST, code=4).out.splitlines()[1:]],)
    assert [(row[-2], row[-1]) for row in gpus] == [("2", "?"), ("0", "?")]
    fits = json.loads(vgpumgr(vf_lab, "profiles", HOST, "--fits", "-o", "json", code=4).out)["profiles"]
    assert {row["fits_now"] for row in fits} == {None}
    shown = json.loads(vgpumgr(vf_lab, "show", given, "--on", HOST, "-o", "json", code=4).out)
    assert [finding["kind"] for finding in shown["findings"]] == ["ledger"]
    vgpumgr(vf_lab, *ATTACH, "--check", code=4)

    vf_lab.must(HOST, "cd /var/lib/vgpumgr && mv kept ledger.json")
    assert findings(vf_lab) == []


# VMs that are gone


def test_what_a_vm_had_that_was_defined_anew_is_freed_by_its_old_uuid(vf_lab: Lab, given: str) -> None:
    """The new VM of that name has nothing; the finding's own command frees the old one's, unless a definition names it."""
    document = domains.dump(vf_lab, HOST, given)
    vf_lab.must(HOST, f"virsh undefine {given}")
    domains.define(vf_lab, HOST, re.sub(r"<uuid>.*?</uuid>", "", domains.without_ours(document)))
    (row,) = vgpus(vf_lab, HOST)
    shown = vgpumgr(vf_lab, "show", given, "--on", HOST, "-o", "json").document
    assert (row["vm"], row["state"], shown["vm"]["vgpus"]) == (given, "lost", [])
    assert row["vm_uuid"] != shown["vm"]["uuid"]
    nothing = vgpumgr(vf_lab, "detach", given, "--on", HOST, "-o", "json").document
    assert (nothing["changed"], nothing["result"]["vgpus"]) == (False, [])

    named = domains.dump(vf_lab, HOST, "vm02")
    hostdev = re.search(r"(?s)<hostdev.*</hostdev>", document)
    assert hostdev is not None
    foreign = re.sub(r"<address type='pci'[^>]*>", "", hostdev[0])
    domains.define(vf_lab, HOST, named.replace("</devices>", foreign + "</devices>"))
    before = truth.kept(vf_lab, HOST)
    error = vgpumgr(vf_lab, "detach", row["vm_uuid"], "--on", HOST, "--yes", "-o", "json", code=5).error
    assert (error["error"], error["details"]) == ("InUse", ["VM vm02 has it in its definition"])
    assert truth.kept(vf_lab, HOST) == before
    domains.define(vf_lab, HOST, named)

    vgpumgr(vf_lab, "detach", row["vm_uuid"], "--on", HOST, code=2)  # it asks, and there is nobody to ask
    plan = vgpumgr(vf_lab, "detach", row["vm_uuid"], "--on", HOST, "--check", "-o", "json", code=3).document["plan"]
    assert [step["verb"] for step in plan] == ["destroy_vgpu"]
    (finding,) = findings(vf_lab)
    run_command_of(vf_lab, finding)
    assert (truth.hardware(vf_lab, HOST), truth.ledger(vf_lab, HOST)) == ({}, [])


# Declarations


def test_a_claim_says_where_it_comes_from(vf_lab: Lab, given: str, tmp_path: Path) -> None:
    """The same attach after the declaration writes it into the claim, and after its removal takes it out again."""
    declared = str(inventories.declaring(vf_lab, tmp_path, HOST, f"{given}: {{vgpu0: {{profile: 4Q}}}}"))

    def origin() -> str:
        (claim,) = vgpumgr(vf_lab, "show", given, "--on", HOST, "-o", "json").document["vm"]["claims"]
        return str(claim["from"])

    assert origin() == "attach"
    plan = vgpumgr(vf_lab, *ATTACH, "-i", declared, "-o", "json").document
    assert ([step["verb"] for step in plan["plan"]], origin()) == (["bind_claim"], "inventory")
    assert not vgpumgr(vf_lab, *ATTACH, "-i", declared, "-o", "json").document["changed"]
    assert findings(vf_lab) == []
    assert "~ claim    vgpu0: from attach, was from inventory" in vgpumgr(vf_lab, *ATTACH).out
    assert origin() == "attach"


# Libvirt


def test_without_libvirt_the_gpus_are_shown_all_the_same(vf_lab: Lab, given: str) -> None:
    """`discover` shows what /sys and NVML tell and names libvirt as what failed (4); `list` says where to look."""
    vf_lab.control(HOST, "fault", name="libvirtd-down")
    discovered = vgpumgr(vf_lab, "discover", HOST, "-o", "json", code=4)
    listed = vgpumgr(vf_lab, "list", HOST, code=4)
    document = json.loads(discovered.out)
    (host,) = document["hosts"]
    assert [(gpu["board"], gpu["vgpus"]) for gpu in host["gpus"]] == [("A40", 1), ("A40", 0)]
    assert host["versions"]["libvirt"] is None
    (unreached,) = document["unreached"]
    assert (unreached["host"], unreached["error"]) == (HOST, "Unreachable")
    assert unreached["message"].startswith(f"{HOST}: libvirt: ")
    assert f"`vgpumgr discover {HOST}` shows its GPUs without libvirt" in listed.err
