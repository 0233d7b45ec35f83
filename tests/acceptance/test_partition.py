"""`partition advise` and `partition apply`: idle GPUs are divided by what the inventory declares and the journal knows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tests.acceptance.command import vgpumgr

if TYPE_CHECKING:
    from tests.acceptance.near import Near

ADVISE = ("partition", "advise", "kvm01")
APPLY = ("partition", "apply", "kvm01")
WISHES = {"vm01": "24Q", "vm02": "8Q", "vm03": "8Q", "vm04": "12Q", "vm05": "4Q"}


def declare(near: Near, **more: Any) -> None:
    near.declare("kvm01", vgpumgr_vms={vm: {"vgpu0": {"profile": text}} for vm, text in WISHES.items()}, **more)


def modes(near: Near) -> list[str]:
    document = vgpumgr(near, "mode", "show", "kvm01", "-o", "json").document
    return [gpu["mode"] for gpu in document["hosts"][0]["gpus"]]


def test_declared_slots_decide_the_modes_and_reconcile_then_serves_them_all(near_host: Near) -> None:
    declare(near_host)
    told = vgpumgr(near_host, *ADVISE).out
    assert "5 requests (5 declared): 3 served -> 5, 40 GiB -> 56 GiB" in told
    assert "equal-size of 8Q" in told
    planned = vgpumgr(near_host, *APPLY, "--check", code=3)
    assert "requested mixed-size" in planned.out
    assert modes(near_host) == ["equal-size", "equal-size"]
    assert "--yes" in vgpumgr(near_host, *APPLY, code=2).err
    done = vgpumgr(near_host, *APPLY, "--yes")
    assert "GPU 0000:41:00.0 as equal-size of 8Q needs no step" in done.err
    assert 'declare it: vgpumgr_gpus: {"0000:81:00.0": {mode: mixed-size}}' in done.err
    assert modes(near_host) == ["equal-size", "mixed-size"]
    assert vgpumgr(near_host, "history").out.count("requested mixed-size") == 1
    again = vgpumgr(near_host, *APPLY, "--yes", "-o", "json").document
    assert (again["changed"], again["plan"]) == (False, [])
    served = vgpumgr(near_host, "reconcile", "--yes", "-o", "json").document
    assert served["errors"] == []
    assert "No GPU needs another mode" in vgpumgr(near_host, *APPLY).out


def test_the_journal_s_attaches_count_and_nothing_known_changes_nothing(near_host: Near) -> None:
    nothing = vgpumgr(near_host, *ADVISE).out
    assert "no declared slot without a vGPU, and no attach of the last 4 weeks" in nothing
    assert "No GPU needs another mode" in vgpumgr(near_host, *APPLY).out
    for vm, profile in (("vm01", "24Q"), ("vm02", "8Q")):
        vgpumgr(near_host, "attach", vm, "--profile", profile)
    vgpumgr(near_host, "detach", "vm01", "vm02", "--yes")
    (host,) = vgpumgr(near_host, *ADVISE, "-o", "json").document["hosts"]
    assert {(one["requested"], one["source"]) for one in host["requests"]} == {("8Q", "journal"), ("24Q", "journal")}
    assert host["after"]["served"] >= host["before"]["served"]
    assert vgpumgr(near_host, *ADVISE, "--weeks", "0", "-o", "json").document["hosts"][0]["requests"] == []


def test_what_is_declared_of_a_gpu_stays_and_a_reset_is_allowed_first(near_fleet: Near) -> None:
    declare(near_fleet, vgpumgr_boards={"A40": {"mode": "equal-size"}})
    assert vgpumgr(near_fleet, *ADVISE).out.count("declared (") == 2
    near_fleet.declare("kvm02", vgpumgr_vms={"vm31": {"vgpu0": {"mig_profile": "2g.10gb"}}})
    assert "--allow-reset" in vgpumgr(near_fleet, "partition", "advise", "kvm02").out
    allowed = ("kvm02", "--allow-reset")
    assert "MIG: 2g.10gb" in vgpumgr(near_fleet, "partition", "advise", *allowed).out
    done = vgpumgr(near_fleet, "partition", "apply", *allowed, "--yes", "-o", "json").document
    assert [unit["outcome"] for host in done["result"]["hosts"] for unit in host["units"]] == ["done", "done"]
    shown = vgpumgr(near_fleet, "mig", "show", "kvm02").out
    assert "2g.10gb" in shown
