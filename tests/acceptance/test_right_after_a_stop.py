"""Whatever takes a vGPU away right after its VM's stop waits for what is left of the VM, and nothing is lost.

Once for each framework; with VGPUMGR_FULL=1 twenty times, and with all that can be left of a VM.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.acceptance import truth
from tests.acceptance.command import vgpumgr
from tests.dose import FULL

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.lab_fixtures import Lab, LabFactory

pytestmark = pytest.mark.lab

HOST, VM = "kvm01", "vm01"
TIMES = 20 if FULL else 1
ON = ("--on", HOST)
# What is left of a VM, and for how long.
LEFT = ("slow-plugin:1", "slow-exit:1", "slow-plugin:4", "slow-exit:4", "slow-plugin:12", "slow-exit:12")
BOARDS = {
    "mdev-pf": "{board: T4}",
    "mdev-vf": "{board: A40, vfs: 4, framework: mdev-vf}",
    "vendor-vfio": "{board: L40S, vfs: 4, framework: vendor-vfio}",
}
SPEC = "hosts:\n  kvm01: {{driver: 570, boards: [{board}], vms: [vm01]}}\n"


@pytest.fixture(scope="module", params=BOARDS)
def lab(
    request: pytest.FixtureRequest, lab_factory: LabFactory, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Lab]:
    spec = tmp_path_factory.mktemp("stop") / f"{request.param}.yml"
    spec.write_text(SPEC.format(board=BOARDS[request.param]), encoding="utf-8")
    lab = lab_factory(str(spec), shared=False)
    yield lab
    lab.down()


def lost(lab: Lab) -> list[str]:
    found: list[str] = lab.control(HOST, "status")["lost"]
    return found


def stop_slowly(lab: Lab, left: str) -> None:
    """The VM has its vGPU and runs; it stops, and something of it is left."""
    vgpumgr(lab, "attach", VM, "--profile", "4Q", *ON)
    lab.control(HOST, "hold", vm=VM)
    lab.control(HOST, "clear")
    lab.control(HOST, "fault", name=left)
    lab.control(HOST, "release", vm=VM)


@pytest.mark.parametrize("turn", range(TIMES))
@pytest.mark.parametrize("left", LEFT if FULL else LEFT[1:2])
def test_a_detach_right_after_a_stop_waits_and_loses_nothing(lab: Lab, left: str, turn: int) -> None:
    stop_slowly(lab, left)
    vgpumgr(lab, "detach", VM, *ON, "--yes")
    assert (lost(lab), truth.hardware(lab, HOST), truth.ledger(lab, HOST)) == ([], {}, []), turn


@pytest.mark.parametrize("turn", range(TIMES))
def test_a_replacement_right_after_a_stop_waits_and_loses_nothing(lab: Lab, turn: int) -> None:
    stop_slowly(lab, LEFT[turn % 4])
    vgpumgr(lab, "attach", VM, "--profile", "4C", "--replace", *ON, "--yes")
    assert (lost(lab), len(truth.hardware(lab, HOST))) == ([], 1)
    vgpumgr(lab, "detach", VM, *ON, "--yes")


@pytest.mark.parametrize("turn", range(TIMES))
def test_a_scheduler_set_right_after_a_stop_waits_and_loses_nothing(lab: Lab, turn: int) -> None:
    stop_slowly(lab, LEFT[turn % 4])
    policy = ("fixed-share", "equal-share")[turn % 2]
    gpu = ("--gpu-id", "0000:41:00.0")
    vgpumgr(lab, "scheduler", "set", *ON, *gpu, "--policy", policy, "--yes")
    assert (lost(lab), len(truth.hardware(lab, HOST))) == ([], 1)
    vgpumgr(lab, "detach", VM, *ON, "--yes")


@pytest.mark.parametrize("left", ["slow-plugin:30", "slow-exit:4"] if FULL else ["slow-plugin:30"])
def test_without_the_guard_the_same_removal_loses_the_vgpu(lab: Lab, left: str) -> None:
    """What a hand's `echo 1 >remove` does; on vendor-vfio the driver refuses, and nothing is lost. The last test."""
    stop_slowly(lab, left)
    (device,) = truth.hardware(lab, HOST)
    if ":" in device:
        assert lab.ssh(HOST, f"echo 0 >/sys/bus/pci/devices/{device}/nvidia/current_vgpu_type").returncode != 0
        assert lost(lab) == []
    else:
        lab.must(HOST, f"echo 1 >/sys/bus/mdev/devices/{device}/remove")
        assert len(lost(lab)) == 1
    lab.control(HOST, "clear")
    lab.control(HOST, "reboot")
    vgpumgr(lab, "detach", VM, *ON, "--yes")
