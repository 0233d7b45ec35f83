"""A wish that names a board is served by that board, in each spelling, once and for all (found: fidelity D1, D2; field-hosts c3)."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from tests import dose
from tests.acceptance import near
from tests.acceptance.near import document
from vgpumgr.core.driver.profiles import parse_type_name
from vgpumgr.host.protocol.gpu import MDEV_PF, VENDOR_VFIO
from vgpumgr.lab.driver import boards
from vgpumgr.lab.driver.upgrade import Upgrade

if TYPE_CHECKING:
    from tests.acceptance.near import Near, Sites

VMS = ("vm01", "vm02", "vm03")
BOARDS = ("A40", "A100", "H100XM", "M10", "RTX6000-Ada", "RTXPRO4500", "RTXPRO6000", "T4")


@pytest.mark.parametrize("code", boards.board_codes() if dose.FULL else BOARDS)
def test_the_same_wish_twice_is_no_change_whatever_is_done_between(code: str, near_site: Sites) -> None:
    """Attach again, --replace, declare, plan, and a boot with other type ids: each vGPU is the one that was asked for, at its place."""
    board = boards.board(code, "test")
    kind = min(board.types, key=lambda one: one.framebuffer_mib)
    short = parse_type_name(kind.name).short
    spellings = dict(zip(VMS, (short, f"{code}-{short}", kind.name), strict=True))
    framework = VENDOR_VFIO if board.vfs else MDEV_PF
    one = near.NearHost(vms=VMS, board=code, framework=framework, vfs=2)
    host = near_site({"kvm01": one})
    for vm, asked in spellings.items():
        attach = ("attach", vm, "--profile", asked, "--even-if-it-will-not-start")
        document(host, *attach)
        assert not document(host, *attach)["changed"], asked
        assert not document(host, *attach, "--replace")["changed"], asked
    before = host.machines["kvm01"].hardware().keys()
    slots = {vm: {"vgpu0": {"profile": asked}} for vm, asked in spellings.items()}
    host.declare("kvm01", vgpumgr_vms=slots, vgpumgr_even_if_it_will_not_start=True)
    document(host, "reconcile", "--yes")
    document(host, "plan")
    host.machines["kvm01"].reboot(Upgrade(renumber=True))
    document(host, "reconcile", "--yes")
    document(host, "plan")
    there = host.machines["kvm01"].hardware()
    assert there.keys() == before
    assert {vgpu.type.name for vgpu in there.values()} == {kind.name}


@pytest.fixture
def both(near_site: Sites) -> Near:
    """An RTX PRO 6000 and an RTX PRO 4500, whose types the driver calls DC alike."""
    one = near.NearHost(vms=VMS, board="RTXPRO6000", second="RTXPRO4500", framework=VENDOR_VFIO, vfs=2)
    return near_site({"kvm01": one})


@pytest.mark.parametrize(
    ("asked", "gpu"),
    [
        ("NVIDIA RTX Pro 4500 Blackwell DC-16C", 1),
        ("RTXPRO4500-16C", 1),
        ("NVIDIA RTX Pro 6000 Blackwell DC-16C", 0),
        ("RTXPRO6000-16C", 0),
    ],
)
def test_a_name_that_says_which_of_two_boards_is_served_by_that_one(both: Near, asked: str, gpu: int) -> None:
    """Attached, declared and after a boot; the VM's second wish, for the other board, is another wish."""
    document(both, "attach", "vm01", "--profile", asked, "--even-if-it-will-not-start")
    both.machines["kvm01"].reboot()
    both.declare("kvm01", vgpumgr_vms={"vm01": {"vgpu0": {"profile": asked}}}, vgpumgr_even_if_it_will_not_start=True)
    document(both, "reconcile", "--yes")
    document(both, "plan")
    machine = both.machines["kvm01"]
    assert [place.gpu for place in machine.hardware()] == [machine.gpus()[gpu].uuid]
    other = asked.replace(*(("4500", "6000") if gpu else ("6000", "4500")))
    assert both.run("attach", "vm01", "--profile", other).returncode == 5


def test_a_name_of_a_board_that_no_gpu_is_serves_nothing(near_site: Sites) -> None:
    one = near.NearHost(vms=VMS, board="RTXPRO6000", framework=VENDOR_VFIO, vfs=2)
    host = near_site({"kvm01": one})
    done = host.run("attach", "vm01", "--profile", "NVIDIA RTX Pro 4500 Blackwell DC-8C")
    assert (done.returncode, host.machines["kvm01"].hardware()) == (5, {})
    assert "has no NVIDIA RTX Pro 4500 Blackwell DC-8C" in done.stderr


@pytest.mark.parametrize("asked", ["RTX2070-2", "GRID RTX2070-2"])
def test_a_name_without_a_series_can_be_asked_for_with_its_board(asked: str, near_site: Sites) -> None:
    """An unlocked driver has such names beside the usual ones; an amount of memory is served by a series as ever."""
    usual = [kind for kind in boards.board("T4", "test").types if kind.framebuffer_mib == 2048]
    odd = replace(usual[0], id=900, name="GRID RTX2070-2")
    one = near.NearHost(vms=VMS, board="T4", framework=MDEV_PF, types=(*usual, odd))
    host = near_site({"kvm01": one})
    for changed in (True, False):
        assert document(host, "attach", "vm01", "--profile", asked)["changed"] is changed
    document(host, "attach", "vm02", "--gpu-memory", "2G", "--series", "Q")
    assert "RTX2070-2" in host.run("profiles").stdout
    names = [vgpu.type.name for vgpu in host.machines["kvm01"].hardware().values()]
    assert sorted(names) == ["GRID RTX2070-2", "GRID T4-2Q"]


def test_what_capacity_says_of_a_shared_instance_is_what_can_be_attached(near_site: Sites) -> None:
    """Also where NVML does not say how many an instance takes (before R575): planner and host count alike (found: anchors A4)."""
    vms = tuple(f"vm{number:02}" for number in range(1, 12))
    one = near.NearHost(vms=vms, board="RTXPRO6000", framework=VENDOR_VFIO, vfs=12)
    host = near_site({"kvm01": one})
    gpu = ("--gpu-id", "0000:41:00.0")
    document(host, "mode", "set", "mig", "--on", "kvm01", *gpu, "--yes")
    attach = ("--profile", "1-3Q", *gpu, "--even-if-it-will-not-start")
    document(host, "attach", *vms[:3], *attach)
    assert len(host.machines["kvm01"].gpus()[0].instances) == 1
    document(host, "attach", *vms[3:], *attach)
    assert [len(gpu.instances) for gpu in host.machines["kvm01"].gpus()] == [2, 0]
