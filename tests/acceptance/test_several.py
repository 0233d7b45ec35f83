"""Twenty VMs in one command: one look, one question, all or none; by names, ranges and files."""

from __future__ import annotations

import json
from collections import Counter
from typing import TYPE_CHECKING

import pytest

from tests.acceptance import near
from tests.acceptance.command import vgpumgr, vgpus
from tests.unit.documents import published

if TYPE_CHECKING:
    from pathlib import Path

    from tests.acceptance.near import Near, Sites

PER_GPU = 12  # of 4Q on an A40
RANGE = "vm[01:20]"
TWENTY = [f"vm{number:02}" for number in range(1, 21)]
ATTACH = ("attach", RANGE, "--profile", "4Q")
HOSTS = {
    "kvm01": near.NearHost(vms=(*TWENTY, "big"), vfs=PER_GPU),
    "kvm02": near.NearHost(vms=("vm31", "vm32"), board="A100"),
}


@pytest.fixture
def clean(near_site: Sites) -> Near:
    """kvm01 has room for 24 of them."""
    return near_site(HOSTS)


def requests(site: Near, *arguments: str) -> list[int]:
    """How many each connection took that the command opened."""
    vgpumgr(site, *arguments)
    return [link.program.requests for link in site.links]


def outcomes(document: dict[str, object]) -> dict[str, str]:
    """What became of each VM."""
    result = document["result"]
    assert isinstance(result, dict)
    return {row["vm"]: row["outcome"] for row in result["vms"]}


def test_a_file_attaches_and_frees_the_slots_that_it_names(clean: Near, tmp_path: Path) -> None:
    """On two hosts, from a file and from stdin, with a plan that is kept; a detach asks, and without a terminal says so."""
    file = tmp_path / "vms.yml"
    file.write_text("vm03: {vgpu0: {profile: 4Q}}\nvm31: {vgpu0: {gpu_memory: 8G}, vgpu1: {profile: 8C}}\n")
    plan = tmp_path / "plan.json"
    vgpumgr(clean, "attach", "-f", str(file), "--check", "--out", str(plan), code=3)
    assert published.problems("plan", json.loads(plan.read_text())) == []
    made = vgpumgr(clean, "attach", "-f", str(file), "--plan", str(plan), "-o", "json").document
    assert published.problems("change", made) == []
    assert {(row["vm"], row["slot"], row["type_name"]) for vm in made["result"]["vms"] for row in vm["vgpus"]} == {
        ("vm03", "vgpu0", "A40-4Q"),
        ("vm31", "vgpu0", "A100-8C"),
        ("vm31", "vgpu1", "A100-8C"),
    }
    vgpumgr(clean, "attach", "vm31", "--profile", "8C", "--slot", "other")
    asked = vgpumgr(clean, "detach", "-f", str(file), code=2)
    assert "detach of 2 VMs on 2 hosts needs confirmation" in asked.err
    freed = clean.run("detach", "-f", "-", "--yes", text=file.read_text())
    assert (freed.returncode, freed.stdout.rpartition(": ")[2]) == (0, "3 changed.\n")
    assert [(row["vm"], row["slot"]) for row in vgpus(clean)] == [("vm31", "other")]


def test_twenty_are_made_in_one_look_and_again_nothing_changes(clean: Near) -> None:
    """Each host is connected to once; the VMs' names, the lock, four steps for each of twenty, the last look."""
    made = requests(clean, *ATTACH)
    assert sorted(made) == [1, 3 + 4 * len(TWENTY)]
    assert Counter(row["vm"] for row in vgpus(clean)) == Counter(TWENTY)
    before = clean.trace("kvm01")
    assert sorted(requests(clean, *ATTACH)) == [1, 2]
    assert clean.trace("kvm01") == before


def test_with_room_for_twelve_none_is_made_and_with_partial_twelve_are(clean: Near) -> None:
    """One card holds another size. Without --partial the host is left as it is; with it the eight others are named."""
    vgpumgr(clean, "attach", "big", "--profile", "24Q")
    before = clean.trace("kvm01")
    checked = vgpumgr(clean, *ATTACH, "--check", code=5)
    none = vgpumgr(clean, *ATTACH, "-o", "json", code=5)
    assert clean.trace("kvm01") == before
    assert checked.out == "nothing was changed. 12 of 20 could be served: --partial does that.\n"
    assert "error: 8 of 20 VMs cannot be served" in checked.err
    assert all(f"for {vm}\n" in checked.err for vm in TWENTY[PER_GPU:])
    assert none.error["error"] == "NoCapacity"
    document = json.loads(none.out)
    assert published.problems("change", document) == []
    assert Counter(outcomes(document).values()) == {"refused": PER_GPU, "no_capacity": 8}
    assert (document["changed"], document["outcomes"], document["plan"]) == (False, ["no_capacity"], [])
    some = vgpumgr(clean, *ATTACH, "--partial", code=5)
    assert "20 VMs on 1 host in " in some.out
    assert some.out.endswith(" s: 12 changed, 8 refused (8 no capacity).\n")
    assert all(f"for {vm}\n" in some.err for vm in TWENTY[PER_GPU:])
    assert [row["vm"] for row in vgpus(clean, "kvm01") if row["vm"] != "big"] == TWENTY[:PER_GPU]


def test_patterns_choose_vms_that_are_there(clean: Near) -> None:
    """list and top show what they match, detach frees it; attach serves only VMs that are named."""
    vgpumgr(clean, "attach", "vm01,vm02", "vm[04:05]", "vm31", "--profile", "8C", "--yes")
    assert [row["vm"] for row in vgpus(clean, "vm0*", "!vm02", "vm31")] == ["vm01", "vm04", "vm05", "vm31"]
    ran = vgpumgr(clean, "list", "vm31", "vm13", "vm99", "-o", "name", code=2)
    assert (ran.out, ran.err.splitlines()[-2:]) == (
        "vm31\n",
        ["error: no host and no VM 'vm99'", "hint: `virsh list --all` on a host shows its VMs"],
    )
    assert vgpumgr(clean, "top", "--once", "vm04", "-o", "name").out == "vm04\n"
    guessed = vgpumgr(clean, "attach", "vm1*", "--profile", "8C", code=2)
    assert "'vm1*' does not name VMs" in guessed.err
    vgpumgr(clean, "detach", "vm0*", "!vm02", "--yes")
    assert [row["vm"] for row in vgpus(clean)] == ["vm02", "vm31"]
    assert "is called 'vm0[13]*'" in vgpumgr(clean, "detach", "vm0*", "vm0[13]*", "--yes", code=2).err
