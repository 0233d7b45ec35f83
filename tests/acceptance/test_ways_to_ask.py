"""Every row of docs/asking.md, by command line and by the inventory: the same type, and the second time nothing changes."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.acceptance import near
from tests.acceptance.command import vgpumgr, vgpus

if TYPE_CHECKING:
    from tests.acceptance.command import Ran
    from tests.acceptance.near import Near

HOST, VM, OTHER = "kvm01", "vm01", "vm02"
FIRST, SECOND = "0000:41:00.0", "0000:81:00.0"
DOCS = Path(__file__).parents[2] / "docs" / "asking.md"


@dataclass(frozen=True, slots=True, kw_only=True)
class Site:
    """A host whose inventory says what one fGPU is, and may declare slots."""

    near: Near

    def run(self, *arguments: str) -> Any:
        return self.near.run(*arguments)

    def declare(self, *, unit: object = 2, **slot: object) -> None:
        """The slot of VM, or none; and how many fGPUs an A40 is."""
        vms = {"vgpumgr_vms": {VM: {"vgpu0": slot}}} if slot else {}
        self.near.declare(HOST, vgpumgr_fgpu_per_gpu={"A40": unit}, **vms)


@pytest.fixture
def site(near_host: Near) -> Site:
    found = Site(near=near_host)
    found.declare()
    return found


def words(asked: dict[str, object]) -> list[str]:
    """The options of the command line."""
    return [
        word
        for key, value in asked.items()
        for word in (f"--{key.replace('_', '-')}", *(() if value is True else (str(value),)))
    ]


def row_of(site: Site) -> dict[str, Any]:
    """What `list` says of VM's vGPU."""
    (row,) = (row for row in vgpus(site) if row["vm"] == VM)
    return dict(row)


def attached(site: Site, **asked: object) -> dict[str, Any]:
    """By command line; the second time nothing changes."""
    done = vgpumgr(site, "attach", VM, *words(asked), "-o", "json").document
    assert done["changed"] is True
    assert vgpumgr(site, "attach", VM, *words(asked), "-o", "json").document["changed"] is False
    found = row_of(site)
    assert done["result"]["vgpus"][0] == found
    assert done["plan"][0]["requested"] == found["requested"]
    assert done["plan"][0]["waste_pct"] == found["waste_pct"]
    return found


def declared(site: Site, *, unit: object = 2, **asked: object) -> dict[str, Any]:
    """By the inventory; the second reconcile changes nothing, and neither does the same attach."""
    site.declare(unit=unit, **asked)
    assert vgpumgr(site, "reconcile", "-o", "json").document["changed"] is True
    assert vgpumgr(site, "reconcile", "-o", "json").document["changed"] is False
    ways = {key: value for key, value in asked.items() if key != "gpu_id"}
    assert vgpumgr(site, "attach", VM, *words(ways), "-o", "json").document["changed"] is False
    return row_of(site)


def both(site: Site, *, unit: object = 2, **asked: object) -> dict[str, Any]:
    """Either way; what they come to has to be the same."""
    site.declare(unit=unit)
    one = attached(site, **asked)
    vgpumgr(site, "detach", VM, "--yes")
    other = declared(site, unit=unit, **asked)
    site.declare()
    vgpumgr(site, "detach", VM, "--yes")
    assert {**one, "requested_at": None} == {**other, "requested_at": None}
    return one


def refused(site: Site, **asked: object) -> Ran:
    """Either way, for no capacity."""
    ran = vgpumgr(site, "attach", VM, *words(asked), "-o", "json", code=5)
    site.declare(**asked)
    hosts = json.loads(vgpumgr(site, "reconcile", "-o", "json", code=5).out)["result"]["hosts"]
    (kept,) = (unit["error"] for host in hosts for unit in host["units"])
    assert kept["error"] == ran.error["error"] == "NoCapacity"
    assert kept["details"] == ran.error["details"]
    site.declare()
    return ran


def test_profile(site: Site) -> None:
    row = both(site, profile="4Q")
    assert (row["type_name"], row["profile"], row["waste_pct"], row["asked_mib"]) == ("A40-4Q", "4Q", 0, 4096)


def test_gpu_memory(site: Site) -> None:
    row = both(site, gpu_memory="4G")
    assert (row["type_name"], row["profile"], row["requested"]) == ("A40-4C", None, "--gpu-memory 4G")
    attached(site, gpu_memory="4G")
    again = vgpumgr(site, "attach", VM, "--gpu-memory", "4096M", "-o", "json").document
    assert again["outcomes"] == ["unchanged"]


def test_gpu_memory_beside_a_card_that_holds_another_size(site: Site) -> None:
    """It goes to the emptier card, with the closer fit, and says so; where there is none, to the other one."""
    vgpumgr(site, "attach", OTHER, "--profile", "8Q", "--gpu-id", FIRST)
    explained = vgpumgr(site, "explain", "--gpu-memory", "5G", "--on", HOST, "-o", "json").document["hosts"][0]["gpus"]
    assert [(gpu["pci"], gpu["rank"], gpu["type_name"]) for gpu in explained] == [
        (SECOND, 1, "A40-6C"),
        (FIRST, 2, "A40-8C"),
    ]
    shown = vgpumgr(site, "attach", VM, "--gpu-memory", "5G")
    assert f"      {explained[0]['why']}" in shown.out
    assert "A40-6C, 6 of 48 GiB, asked 5 GiB, 16.67 % waste, guest sees at least 5.22 GiB" in shown.out
    assert f"the closest fit: {FIRST} holds 8Q and would give 8C, 37.5 % waste" in shown.out
    assert (row_of(site)["type_name"], row_of(site)["gpu"]) == ("A40-6C", SECOND)
    vgpumgr(site, "detach", VM, "--yes")
    row = both(site, gpu_memory="5G", gpu_id=FIRST)
    assert (row["type_name"], row["gpu"], row["waste_pct"]) == ("A40-8C", FIRST, 37.5)


def test_gpu(site: Site) -> None:
    assert both(site, gpu=0.25)["type_name"] == "A40-12C"
    row = both(site, gpu=0.2)
    assert (row["type_name"], row["waste_pct"], row["asked_mib"], row["guest_mib"]) == ("A40-12C", 20, 9831, 10704)


def test_fgpu(site: Site) -> None:
    assert both(site, fgpu=0.5)["type_name"] == "A40-12C"
    assert both(site, unit=4, fgpu=0.5)["type_name"] == "A40-6C"
    assert both(site, unit={"memory": "24G"}, fgpu=0.5)["type_name"] == "A40-12C"


def test_mig_profile(site: Site) -> None:
    ran = refused(site, mig_profile="2g.10gb")
    assert ran.error["message"] == "no GPU of kvm01 is in MIG mode, which --mig-profile 2g.10gb for vm01 needs"


def test_series(site: Site) -> None:
    assert both(site, gpu_memory="4G", series="Q")["type_name"] == "A40-4Q"


def test_usable(site: Site) -> None:
    row = both(site, gpu_memory="4G", usable=True)
    assert (row["type_name"], row["guest_mib"] >= 4096) == ("A40-6C", True)


def test_max_waste(site: Site) -> None:
    ran = refused(site, gpu=0.2, max_waste=10)
    assert ran.error["details"][0] == f"{FIRST}  A40  12C would waste 20 % (at most 10 %)"
    assert both(site, gpu=0.2, max_waste=20)["type_name"] == "A40-12C"


def test_compute(site: Site) -> None:
    assert both(site, profile="4Q", compute="best-effort")["type_name"] == "A40-4Q"
    fixed = ("--profile", "4Q", "--compute", "fixed-share")
    assert "~ policy   of GPU" in vgpumgr(site, "attach", VM, *fixed, "--check", code=3).out
    assert "needs confirmation" in vgpumgr(site, "attach", VM, *fixed, "-o", "json", code=2).error["message"]
    vgpumgr(site, "attach", OTHER, "--profile", "4Q", "--gpu-id", FIRST)
    equal = ("--profile", "4Q", "--compute", "equal-share", "--gpu-id", FIRST)
    in_use = vgpumgr(site, "attach", VM, *equal, "-o", "json", code=5)
    vgpumgr(site, "detach", OTHER, "--yes")
    assert in_use.error["details"][0] == f"{FIRST}  A40  its scheduler is best-effort, not equal-share"
    vgpumgr(site, "scheduler", "set", "--policy", "fixed-share", "--on", HOST, "--gpu-id", SECOND, "--yes")
    assert both(site, gpu_memory="4G", compute="fixed-share")["gpu"] == SECOND


def test_only(site: Site) -> None:
    assert both(site, gpu_memory="4G", only="time-sliced")["type_name"] == "A40-4C"
    assert "is in MIG mode" in refused(site, gpu_memory="4G", only="mig").error["message"]


def test_prefer(site: Site) -> None:
    assert both(site, gpu_memory="4G", prefer="mig")["type_name"] == "A40-4C"


def test_gpu_id(site: Site) -> None:
    assert both(site, gpu_memory="4G", gpu_id=SECOND)["gpu"] == SECOND


def test_policy(site: Site) -> None:
    """spread leaves the GPU that has the size already."""
    vgpumgr(site, "attach", OTHER, "--profile", "4Q", "--gpu-id", FIRST)
    assert both(site, profile="4Q", policy="spread")["gpu"] == SECOND


def test_on(site: Site) -> None:
    assert attached(site, gpu_memory="4G", on=HOST)["host"] == HOST


def test_count(site: Site) -> None:
    """All slots or none, undone by one command; the second time nothing changes."""
    full = vgpumgr(site, "attach", VM, "--gpu", "0.5", "--count", "5", "-o", "json", code=5)
    assert full.error["message"].endswith(": 4 of 5 slots could get one, so none is created")
    assert vgpus(site) == []
    vgpumgr(site, "attach", VM, "--gpu", "0.5", "--count", "2")
    assert "Undo" not in vgpumgr(site, "attach", VM, "--gpu", "0.5", "--count", "3").out
    vgpumgr(site, "detach", VM, "--all", "--yes")
    done = vgpumgr(site, "attach", VM, "--gpu", "0.5", "--count", "4")
    assert f"Undo: vgpumgr detach {VM} --all" in done.out
    assert [(row["slot"], row["type_name"]) for row in vgpus(site)] == [(f"vgpu{at}", "A40-24C") for at in range(4)]
    again = vgpumgr(site, "attach", VM, "--gpu", "0.5", "--count", "4")
    assert f"{VM} already has them: vgpu0 A40-24C on " in again.out
    vgpumgr(site, "detach", VM, "--all", "--yes")
    assert "cannot be combined" in vgpumgr(site, "attach", VM, "--gpu", "1", "--count", "2", "--slot", "x", code=2).err


def test_param(site: Site) -> None:
    row = both(site, profile="4Q", param="frame_rate_limiter=0,enable_uvm=1")
    assert row["requested"] == "--profile 4Q --param enable_uvm=1,frame_rate_limiter=0"
    site.declare(profile="4Q")
    vgpumgr(site, "reconcile")
    first = row_of(site)["uuid"]
    site.declare(profile="4Q", param="enable_uvm=1")
    replaced = vgpumgr(site, "reconcile", "--yes", "-o", "json").document
    assert [step["verb"] for step in replaced["plan"]].count("create_vgpu") == 1
    assert vgpumgr(site, "reconcile", "-o", "json").document["changed"] is False
    assert row_of(site)["uuid"] != first


def test_every_row_has_a_test_of_its_name() -> None:
    table = DOCS.read_text(encoding="utf-8").split("| option |")[1].split("\n\n")[0]
    options = re.findall(r"^\| `--([a-z-]+)` ", table, re.MULTILINE)
    assert len(options) == 16
    assert [option for option in options if f"test_{option.replace('-', '_')}" not in globals()] == []


def test_capacity_says_whether_so_many_fit_together_and_where(near_fleet: Near) -> None:
    """kvm01 has two A40, kvm02 two A100; each GPU takes six vGPUs at most, as many as it has virtual functions."""
    asked = ("capacity", "--gpu-memory", "8G", "--count")
    some = vgpumgr(near_fleet, *asked, "12", "-o", "json").document
    assert [(one["host"], one["fits_now"], one["fits"]) for one in some["hosts"]] == [
        ("kvm01", 12, True),
        ("kvm02", 10, False),
    ]
    assert [(one["fits_now"], one["count"], one["fits"]) for one in some["totals"]] == [(22, 12, True)]
    assert vgpumgr(near_fleet, *asked, "11", "-o", "name").out == "kvm01\n"
    assert "but on no host alone: kvm01 (room for 12), kvm02 (room for 10)\n" in vgpumgr(near_fleet, *asked, "13").out
    short = vgpumgr(near_fleet, *asked, "23", code=5)
    assert "error: 23 of --gpu-memory 8G do not fit together: there is room for 22\n" in short.err
    assert near.document(near_fleet, *asked, "23", code=5)["outcomes"] == ["done", "no_capacity"]
    near_fleet.dead.add("kvm02")
    assert near.document(near_fleet, *asked, "13", code=4)["totals"][0]["fits"] is None


def test_place_names_host_and_gpu_of_vms_that_do_not_exist_yet(near_fleet: Near) -> None:
    """Over both hosts, for a provisioning tool; what does not fit is told, and one policy beside the other."""
    asked = ("place", "--gpu-memory", "20G")
    found = near.document(near_fleet, *asked, "--count", "3")["places"]
    assert [(one["number"], one["host"], one["type_name"]) for one in found] == [
        (1, "kvm02", "A100-20C"),
        (2, "kvm02", "A100-20C"),
        (3, "kvm02", "A100-20C"),
    ]
    every = near.document(near_fleet, *asked, "--count", "2", "--policy", "all")["places"]
    assert [one["policy"] for one in every[::2]] == ["least-fragmentation", "pack", "spread", "numa"]
    short = vgpumgr(near_fleet, "place", "--profile", "A40-24Q", "--count", "5", code=5)
    assert short.out.count("kvm01") == 4
    assert "error: 4 of 5 find a place (--profile A40-24Q, policy least-fragmentation)\n" in short.err
    ways = [f"`vgpumgr {verb} --profile A40-24Q`" for verb in ("explain", "capacity")]
    assert f"hint: {ways[0]} says why for each GPU, {ways[1]} how many fit\n" in short.err
    none = vgpumgr(near_fleet, "place", "--profile", "99Q", code=2)
    assert (none.out, "no GPU of these 2 hosts has a profile" in none.err) == ("", True)
    full = vgpumgr(near_fleet, "place", "--gpu-memory", "900G", code=5)
    assert (full.out, "0 of 1 find a place (--gpu-memory 900G" in full.err) == ("", True)
    near_fleet.dead.add("kvm02")
    assert near.document(near_fleet, "place", "--profile", "A40-24Q", code=4)["places"][0]["host"] == "kvm01"
    assert vgpumgr(near_fleet, *asked, "--policy", "nosuch", code=2).err.startswith(
        "error: there is no placement policy"
    )


def test_what_two_hosts_refuse_is_told_host_by_host_and_a_hint_names_both(near_fleet: Near) -> None:
    unknown = vgpumgr(near_fleet, "attach", "vm01", "vm31", "--profile", "77Q", code=2)
    assert (
        "error: no GPU of these 2 hosts has a profile '77Q'\n  kvm01:\n    0000:41:00.0  A40  has no 77Q" in unknown.err
    )
    assert "\n  not served: vm01, vm31\n" in unknown.err
    assert (
        "hint: `vgpumgr profiles kvm01` lists the profiles that it has; `vgpumgr profiles` those of all" in unknown.err
    )
    full = vgpumgr(near_fleet, "attach", "vm01", "vm31", "--gpu-memory", "900G", code=5)
    assert "\n  kvm01:\n    0000:41:00.0  A40" in full.err
    assert "\n  kvm02:\n    0000:41:00.0  A100" in full.err
    alone = vgpumgr(near_fleet, "attach", "vm01", "vm02", "--gpu-memory", "900G", code=5)
    assert "\n  0000:41:00.0  A40" in alone.err
