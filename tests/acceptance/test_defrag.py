"""Room that is made by moving what is shut off: foretold, kept as a plan, carried out once, refused while VMs run."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.acceptance.command import vgpumgr
from tests.acceptance.near import NearHost, document

if TYPE_CHECKING:
    from pathlib import Path

    from tests.acceptance.near import Near, Sites

HOSTS = {"kvm01": NearHost(vms=("vm01", "vm02"))}
FIRST, SECOND = "0000:41:00.0", "0000:81:00.0"
DEFRAG = ("defrag", "kvm01", "--profile", "24Q", "--count", "2")


@pytest.fixture
def site(near_site: Sites) -> Near:
    """A host of two A40, with a 4Q on each."""
    site = near_site(HOSTS)
    vgpumgr(site, "attach", "vm01", "--profile", "4Q", "--gpu-id", FIRST)
    vgpumgr(site, "attach", "vm02", "--profile", "4Q", "--gpu-id", SECOND)
    return site


def where(site: Near) -> list[tuple[str, str, str]]:
    return [(row["vm"], row["gpu"], row["state"]) for row in document(site, "list")["vgpus"]]


def test_it_tells_moves_once_and_then_has_nothing_to_do(site: Near, tmp_path: Path) -> None:
    before = where(site)
    told = vgpumgr(site, *DEFRAG, "--check", code=3)
    assert "vm01 vgpu0, moves to make room" in told.out
    assert told.out.splitlines()[-1] == (
        "dry run: nothing was changed (--check). --profile 24Q would fit 2 times then."
    )
    assert "error: defrag moves 1 idle vGPU, and stdin is not a terminal" in vgpumgr(site, *DEFRAG, code=2).err
    kept = str(tmp_path / "plan.json")
    vgpumgr(site, *DEFRAG, "--check", "--out", kept, code=3)
    assert where(site) == before
    done = vgpumgr(site, "defrag", *DEFRAG[2:], "--plan", kept, "--yes")
    assert done.out.splitlines()[-1].endswith("--profile 24Q fits 2 times: `vgpumgr place --profile 24Q` shows where.")
    assert where(site) == [("vm01", SECOND, "bound"), ("vm02", SECOND, "bound")]
    again = vgpumgr(site, *DEFRAG, "--yes")
    assert again.out.splitlines()[-1] == "--profile 24Q fits 2 times already. Nothing to do."
    assert [run["verb"] for run in document(site, "history")["runs"]].count("defrag") == 1


def test_where_no_moves_are_enough_it_says_what_else_would_make_room(site: Near) -> None:
    refused = vgpumgr(site, "defrag", "--profile", "48Q", "--count", "2", "--yes", code=5)
    assert "  with moves, 1 would fit\n" in refused.err
    (line,) = [line for line in refused.err.splitlines() if "one more would fit" in line]
    assert line == f"  kvm01: one more would fit on {FIRST} after `vgpumgr detach vm01` (frees A40-4Q of vm01)"
    vgpumgr(site, "detach", "vm01", "--yes")
    refused = vgpumgr(site, "defrag", "--profile", "48Q", "--count", "2", "--yes", code=5)
    assert f"one more would fit on {SECOND} after `vgpumgr detach vm02` (frees A40-4Q of vm02)\n" in refused.err
    vgpumgr(site, "detach", "vm02", "--yes")
    vgpumgr(site, "defrag", "--profile", "48Q", "--count", "2")


def test_while_the_vms_run_nothing_is_moved(site: Near) -> None:
    machine = site.machines["kvm01"]
    for entry in machine.ledger():
        machine.hold(entry["uuid"], entry["vm_uuid"], entry["vm_name"])
    before = where(site)
    refused = vgpumgr(site, *DEFRAG, "--yes", code=5)
    assert "0 of 2 fit (--profile 24Q), and no set of at most 4 moves is enough" in refused.err
    assert "0 vGPUs of shut-off VMs could move" in refused.err
    assert where(site) == before
    assert "9Q" in vgpumgr(site, "defrag", "--profile", "9Q", code=2).err
