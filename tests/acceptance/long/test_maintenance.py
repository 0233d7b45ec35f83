"""cordon and uncordon, on hosts: two controllers see it, a reboot does not end it, and what is there stays."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from tests.acceptance.command import vgpumgr, vgpus

if TYPE_CHECKING:
    from tests.acceptance.near import Near
    from tests.lab_fixtures import Lab

HOST, GPU = "kvm01", "0000:41:00.0"
LEDGER = "var/lib/vgpumgr/ledger.json"


def json_of(lab: Near, *words: str, code: int = 0) -> Any:
    return vgpumgr(lab, *words, "-o", "json", code=code).document


def test_a_cordon_is_kept_by_the_host_and_nothing_new_is_made_there(near_host: Near) -> None:
    lab = near_host
    vgpumgr(lab, "attach", "vm01", "--profile", "4Q")
    ledger = lab.machines[HOST].root / LEDGER
    before = ledger.read_bytes()
    vgpumgr(lab, "cordon", HOST, "--reason", "new  PSU", "--check", code=3)
    assert ledger.read_bytes() == before
    done = vgpumgr(lab, "cordon", HOST, "--reason", "new  PSU")
    assert "kvm01 takes no new vGPUs; existing ones stay." in done.out
    again = vgpumgr(lab, "cordon", HOST, "--reason", "new PSU")
    assert "is cordoned already: new PSU (" in again.out
    assert [path.name for path in ledger.parent.iterdir() if path.name != "ledger.json"] == []
    lab.machines[HOST].reboot()

    refused = vgpumgr(lab, "attach", "vm02", "--profile", "4Q", code=5)
    assert "error: kvm01 is cordoned: new PSU (" in refused.err
    assert refused.err.endswith("hint: `vgpumgr uncordon kvm01` once the work is done\n")
    vgpumgr(lab, "attach", "vm01", "--profile", "4Q")  # what it had comes back
    (row,) = json_of(lab, "list")["vgpus"]
    assert (row["vm"], row["state"]) == ("vm01", "bound")

    (found,) = json_of(lab, "list")["findings"]
    assert (found["kind"], found["host"]) == ("cordoned", HOST)
    assert json_of(lab, "discover")["hosts"][0]["cordon"]["reason"] == "new PSU"
    assert json_of(lab, "host", "status")["hosts"][0]["cordons"][0]["reason"] == "new PSU"
    (answer,) = json_of(lab, "capacity", "4Q")["totals"]
    assert (answer["fits_now"], answer["at_least"]) == (0, False)

    vgpumgr(lab, "cordon", HOST, "--gpu-id", GPU, "--reason", "ECC errors")
    rows = [line.split()[:4] for line in vgpumgr(lab, "cordon").out.splitlines()]
    assert rows == [["HOST", "GPU", "VF", "REASON"], [HOST, "-", "-", "new"], [HOST, GPU, "-", "ECC"]]
    lifted = vgpumgr(lab, "uncordon", HOST)
    assert "GPU 0000:41:00.0 is cordoned: ECC errors" in lifted.err
    vgpumgr(lab, "attach", "vm02", "--profile", "4Q", "--gpu-id", GPU, code=5)
    vgpumgr(lab, "attach", "vm02", "--profile", "4Q")
    (elsewhere,) = json_of(lab, "list", "vm02")["vgpus"]
    assert elsewhere["gpu"] != GPU
    vgpumgr(lab, "uncordon", HOST, "--gpu-id", GPU)
    assert vgpumgr(lab, "cordon").out == "no cordon on kvm01\n"
    written = json.loads(ledger.read_bytes())
    assert ("cordons" in written, len(written["entries"])) == (False, 2)
    assert [one["verb"] for one in json_of(lab, "history", HOST)["runs"]].count("cordon") == 2


@pytest.mark.lab
def test_a_function_in_quarantine_gets_nothing_new_and_what_it_has_stays(frameworks_wiped: Lab) -> None:
    lab, host = frameworks_wiped, "kvm03"
    vgpumgr(lab, "attach", "v1", "--on", host, "--profile", "4Q")
    (row,) = vgpus(lab, host)
    done = vgpumgr(lab, "cordon", host, "--vf", row["vf"], "--reason", "its VMs fail")
    assert done.out.splitlines()[:2] == [f"virtual function {row['vf']} of {host}", "  + cordon  its VMs fail"]
    lab.control(host, "reboot")
    vgpumgr(lab, "reconcile", "--limit", host, "--yes")
    assert [one["vf"] for one in vgpus(lab, host)] == [row["vf"]]

    vgpumgr(lab, "detach", "v1", "--on", host, "--yes")
    for _ in range(2):
        vgpumgr(lab, "attach", "v1", "v2", "--on", host, "--profile", "4Q", "--gpu-id", row["gpu"])
        assert row["vf"] not in [one["vf"] for one in vgpus(lab, host)]
        vgpumgr(lab, "detach", "v1", "v2", "--on", host, "--yes")
    (found,) = vgpumgr(lab, "list", host, "-o", "json").document["findings"]
    assert (found["kind"], row["vf"] in found["text"]) == ("cordoned", True)
    drain = vgpumgr(lab, "drain", host, "--vf", row["vf"], code=2)
    assert "drain empties a host or a GPU, not one virtual function" in drain.err
    vgpumgr(lab, "uncordon", host, "--vf", row["vf"])
    assert "no cordon" in vgpumgr(lab, "cordon").out
