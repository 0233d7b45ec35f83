"""What is shown is true, and attach agrees with it: drift, a broken ledger, libvirt down."""

from __future__ import annotations

import json
import re
import shlex
from typing import TYPE_CHECKING, Any

import pytest

from tests.acceptance import domains
from tests.acceptance.command import vgpumgr

if TYPE_CHECKING:
    from tests.lab_fixtures import Lab

pytestmark = pytest.mark.lab

HOST, VM = "kvm01", "vm01"
ATTACH = ("attach", VM, "--profile", "4Q", "--on", HOST)


@pytest.fixture
def given(one_wiped: Lab) -> str:
    """A VM that has a vGPU (slot vgpu0)."""
    vgpumgr(one_wiped, *ATTACH)
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
    one_wiped: Lab, given: str, pattern: str, text: str
) -> None:
    """`list` shows it as made with a finding, never as bound; the command that the finding prints puts it right."""
    whole = domains.hostdevs(domains.dump(one_wiped, HOST, given))
    domains.define(one_wiped, HOST, re.sub(pattern, text, domains.dump(one_wiped, HOST, given)))
    listed = vgpumgr(one_wiped, "list", HOST, "-o", "json").document
    assert [row["state"] for row in listed["vgpus"]] == ["made"]
    (finding,) = listed["findings"]
    assert (finding["kind"], finding["vm"], finding["slot"]) == ("drift", given, "vgpu0")
    vgpumgr(one_wiped, *ATTACH, "--check", code=3)

    run_command_of(one_wiped, finding)
    mended = domains.hostdevs(domains.dump(one_wiped, HOST, given))
    assert {alias: domains.device_of(device) for alias, device in mended.items()} == {
        alias: domains.device_of(device) for alias, device in whole.items()
    }
    listed = vgpumgr(one_wiped, "list", HOST, "-o", "json").document
    assert ([row["state"] for row in listed["vgpus"]], listed["findings"]) == (["bound"], [])


# The ledger


def test_a_ledger_that_cannot_be_read_is_said_once_and_nothing_is_made_of_it(one_wiped: Lab, given: str) -> None:
    """4, one finding, each vGPU once in unknown state; what is given away and what fits are unknown, not nothing."""
    vgpumgr(one_wiped, "attach", "vm02", "--profile", "4Q", "--on", HOST)
    one_wiped.must(HOST, "cd /var/lib/vgpumgr && cp -p ledger.json kept && echo '{' > ledger.json")

    listed = vgpumgr(one_wiped, "list", "-o", "json", code=4)
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

    (gpus,) = ([row.split() for row in vgpumgr(one_wiped, "discover", HOST, code=4).out.splitlines()[1:]],)
    assert [(row[-2], row[-1]) for row in gpus] == [("2", "?"), ("0", "?")]
    fits = json.loads(vgpumgr(one_wiped, "profiles", HOST, "--fits", "-o", "json", code=4).out)["profiles"]
    assert {row["fits_now"] for row in fits} == {None}
    shown = json.loads(vgpumgr(one_wiped, "show", given, "--on", HOST, "-o", "json", code=4).out)
    assert [finding["kind"] for finding in shown["findings"]] == ["ledger"]
    vgpumgr(one_wiped, *ATTACH, "--check", code=4)

    one_wiped.must(HOST, "cd /var/lib/vgpumgr && mv kept ledger.json")
    assert findings(one_wiped) == []


# Libvirt


def test_without_libvirt_the_gpus_are_shown_all_the_same(one_wiped: Lab, given: str) -> None:
    """`discover` shows what /sys and NVML tell and names libvirt as what failed (4); `list` says where to look."""
    one_wiped.control(HOST, "fault", name="libvirtd-down")
    discovered = vgpumgr(one_wiped, "discover", HOST, "-o", "json", code=4)
    listed = vgpumgr(one_wiped, "list", HOST, code=4)
    document = json.loads(discovered.out)
    (host,) = document["hosts"]
    assert [(gpu["board"], gpu["vgpus"]) for gpu in host["gpus"]] == [("A40", 1), ("A40", 0)]
    assert host["versions"]["libvirt"] is None
    (unreached,) = document["unreached"]
    assert (unreached["host"], unreached["error"]) == (HOST, "Unreachable")
    assert unreached["message"].startswith(f"{HOST}: libvirt: ")
    assert f"`vgpumgr discover {HOST}` shows its GPUs without libvirt" in listed.err
