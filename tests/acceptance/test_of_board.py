"""`mode set` and `scheduler set` with --board: all GPUs of a board on the hosts that are named, each for itself."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.acceptance.command import vgpumgr
from tests.model.fleet import vm_uuid

if TYPE_CHECKING:
    from tests.acceptance.near import Near

SHARE = ("scheduler", "set", "--board", "A40", "--policy", "equal-share")


def policies(fleet: Near) -> list[tuple[str, str]]:
    document = vgpumgr(fleet, "scheduler", "show", "-o", "json").document
    return [(gpu["board"], gpu["policy"]) for host in document["hosts"] for gpu in host["gpus"]]


def test_every_gpu_of_the_board_is_set_and_no_other(near_fleet: Near) -> None:
    before = policies(near_fleet)
    planned = vgpumgr(near_fleet, *SHARE, "--on", "all", "--check", code=3)
    assert "GPU 0000:41:00.0" in planned.out
    assert "GPU 0000:81:00.0" in planned.out
    assert "--yes" in vgpumgr(near_fleet, *SHARE, "--on", "all", code=2).err
    assert policies(near_fleet) == before
    done = vgpumgr(near_fleet, *SHARE, "--on", "all", "--yes", "-o", "json").document
    assert [(host["name"], len(host["units"])) for host in done["result"]["hosts"]] == [("kvm01", 2), ("kvm02", 0)]
    assert policies(near_fleet) == [("A40", "equal-share")] * 2 + [("A100", "best-effort")] * 2
    assert not vgpumgr(near_fleet, *SHARE, "--on", "all", "-o", "json").document["changed"]
    mixed = ("mode", "set", "mixed-size", "--board", "A100", "--on", "kvm02")
    assert vgpumgr(near_fleet, *mixed, "--check", code=3).out.count("requested mixed-size") == 2


def test_a_gpu_in_use_is_refused_and_the_other_one_is_set(near_host: Near) -> None:
    vgpumgr(near_host, "attach", "vm01", "--profile", "4Q", "--gpu-id", "0000:41:00.0")
    machine, uuid = near_host.machines["kvm01"], vm_uuid("kvm01", "vm01")
    machine.libvirt.vms[uuid].live = machine.libvirt.vms[uuid].inactive
    machine.hold(machine.ledger()[0]["uuid"], uuid, "vm01")
    refused = vgpumgr(near_host, *SHARE, "--on", "kvm01", "--yes", code=5)
    assert "vm01" in refused.err
    assert policies(near_host) == [("A40", "best-effort"), ("A40", "equal-share")]


def test_a_board_that_no_host_has_is_named(near_fleet: Near) -> None:
    share = ("scheduler", "set", "--policy", "equal-share", "--board", "T4")
    assert "no GPU of these 2 hosts is a T4" in vgpumgr(near_fleet, *share, "--on", "kvm0*", code=2).err
    assert "missing option '--on'" in vgpumgr(near_fleet, *share, code=2).err
