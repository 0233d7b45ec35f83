"""What finds no room may wait for it: noted with the VM, told with the reasons, served by reconcile."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.acceptance.command import vgpumgr
from tests.acceptance.near import NearHost, document

if TYPE_CHECKING:
    from tests.acceptance.near import Near, Sites

ON = ("--on", "kvm01")


@pytest.fixture
def site(near_site: Sites) -> Near:
    """A host of two A40, each with a 48Q."""
    site = near_site({"kvm01": NearHost(vms=("vm01", "vm02", "vm03"))})
    for vm in ("vm01", "vm02"):
        vgpumgr(site, "attach", vm, "--profile", "48Q", *ON)
    return site


def test_a_vm_waits_until_reconcile_finds_room_for_it(site: Near) -> None:
    refused = vgpumgr(site, "attach", "vm03", "--profile", "8Q", *ON, code=5)
    assert "no GPU of kvm01 can take an 8 GiB vGPU" in refused.err
    noted = vgpumgr(site, "attach", "vm03", "--profile", "8Q", "--wait", *ON)
    assert "  + waiting  vgpu0: --profile 8Q\n" in noted.out
    assert "vm03 vgpu0 waits for room, since " in noted.err
    again = vgpumgr(site, "attach", "vm03", "--profile", "8Q", "--wait", *ON)
    assert again.out.startswith("vm03 already waits for room: vgpu0 since ")
    assert "vm03 vgpu0 waits for room since " in vgpumgr(site, "list").err

    (row,) = document(site, "waiting")["slots"]
    assert (row["vm"], row["asked"], row["origin"], row["fits_now"]) == ("vm03", "--profile 8Q", "attach", False)
    assert len(row["details"]) == 2
    told = vgpumgr(site, "waiting").out
    assert "after `vgpumgr detach vm01`" in told
    night = vgpumgr(site, "reconcile")
    assert "waits until there is room" in night.err
    vgpumgr(site, "reconcile", "--strict", code=5)

    vgpumgr(site, "detach", "vm01", "--yes", *ON)
    assert "there is room now" in vgpumgr(site, "waiting").out
    served = vgpumgr(site, "reconcile")
    assert "    - waiting  vgpu0\n" in served.out
    assert [vgpu["vm"] for vgpu in document(site, "list")["vgpus"]] == ["vm02", "vm03"]
    (record,) = document(site, "history", "--limit", "1")["runs"]
    assert record["why"].endswith("; it waited for room")
    for quietly in ((), ("-q",)):
        assert vgpumgr(site, "waiting", *quietly).out == "no slot waits for room\n"
        assert vgpumgr(site, "reconcile", "--restart-window", *quietly).out.startswith("no VM waits for a restart")


def test_who_no_longer_wants_to_wait_says_detach(site: Near) -> None:
    vgpumgr(site, "attach", "vm03", "--profile", "8Q", "--wait", "--count", "2", *ON)
    assert [row["slot"] for row in document(site, "waiting")["slots"]] == ["vgpu0", "vgpu1"]
    vgpumgr(site, "detach", "vm03", "--all", "--yes", *ON)
    assert document(site, "waiting")["slots"] == []


@pytest.mark.parametrize("other", [("--replace",), ("--gpu-id", "0000:41:00.0"), ("--live",), ("--policy", "pack")])
def test_what_a_wait_does_not_keep_is_refused(site: Near, other: tuple[str, ...]) -> None:
    ran = vgpumgr(site, "attach", "vm03", "--profile", "8Q", "--wait", *other, code=2)
    assert f"--wait and {other[0]} cannot be combined" in ran.err
