"""A vGPU's plugin parameters: asked for, and kept by drain, --replace, a change of mode and a reboot."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.acceptance.command import vgpumgr, vgpus
from tests.turn import in_turn

if TYPE_CHECKING:
    from tests.lab_fixtures import Lab

pytestmark = pytest.mark.lab

# Two GPUs each: an mdev on a physical function, and a virtual function without an mdev.
HOSTS = {"kvm01": "p1", "kvm03": "v1"}


def params(lab: Lab, host: str, vm: str) -> set[str]:
    """What the driver has for the VM's one vGPU."""
    return set(lab.must(host, "cat", _file(lab, host, vm)).strip().split(",")) - {""}


def _file(lab: Lab, host: str, vm: str) -> str:
    (row,) = (row for row in vgpus(lab, host) if row["vm"] == vm)
    place = f"mdev/devices/{row['uuid']}" if row["uuid"] else f"pci/devices/{row['vf']}"
    return f"/sys/bus/{place}/nvidia/vgpu_params"


@pytest.mark.parametrize("host", in_turn(HOSTS))
def test_they_are_asked_for_once_and_whatever_moves_the_vgpu_keeps_them(frameworks_wiped: Lab, host: str) -> None:
    vm = HOSTS[host]
    ask = ("attach", vm, "--on", host, "--profile", "4Q", "--param", "enable_uvm=1")
    lab = frameworks_wiped
    done = vgpumgr(lab, *ask)
    assert "requested --profile 4Q --param enable_uvm=1" in done.out
    assert params(lab, host, vm) == {"enable_uvm=1"}
    before = lab.revisions()[host]
    vgpumgr(lab, *ask)
    assert lab.writes(host, since=before) == []

    by_hand = {"enable_uvm=1", "disable_vnc=1"}
    lab.must(host, f"echo disable_vnc=1,enable_uvm=1 >{_file(lab, host, vm)}")
    (row,) = vgpus(lab, host)
    vgpumgr(lab, "drain", host, "--gpu-id", row["gpu"], "--reason", "fan", "--yes")
    assert vgpus(lab, host)[0]["gpu"] != row["gpu"]
    assert params(lab, host, vm) == by_hand
    vgpumgr(lab, "uncordon", host, "--gpu-id", row["gpu"])
    vgpumgr(lab, "attach", vm, "--on", host, "--profile", "8Q", "--param", "enable_uvm=1", "--replace", "--yes")
    assert params(lab, host, vm) == by_hand
    lab.control(host, "reboot")
    vgpumgr(lab, "reconcile", "--limit", host, "--yes")
    assert params(lab, host, vm) == by_hand

    off = ("attach", vm, "--on", host, "--profile", "8Q", "--param", "enable_uvm=0")
    assert f"{vm} slot vgpu0 has" in vgpumgr(lab, *off, code=5).err
    vgpumgr(lab, *off, "--replace", "--yes")
    assert params(lab, host, vm) == {"enable_uvm=0", "disable_vnc=1"}
