"""A GPU that NVML cannot reach is no place for a vGPU, and what is on it is not said to be as wanted (found: fidelity D6; newcomer 1, 2, 4)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.acceptance.command import vgpumgr
from tests.turn import in_turn

if TYPE_CHECKING:
    from tests.lab_fixtures import Lab

pytestmark = pytest.mark.lab

DEAD, ALIVE = "0000:41:00.0", "0000:81:00.0"


@pytest.mark.parametrize(("host", "vms"), in_turn([("kvm01", "p"), ("kvm03", "v")]))
def test_a_gpu_that_fell_off_the_bus_is_no_place_and_what_was_there_is_unverified(
    frameworks_wiped: Lab, host: str, vms: str
) -> None:
    first, second, third = (f"{vms}{number}" for number in (1, 2, 3))
    lab = frameworks_wiped
    vgpumgr(lab, "attach", first, "--profile", "4Q", "--on", host, "--gpu-id", DEAD)
    vgpumgr(lab, "attach", second, "--profile", "4Q", "--on", host, "--gpu-id", ALIVE)
    lab.control(host, "fault", name=f"gpu-lost:{DEAD}")
    said = "has fallen off the bus"
    ran = vgpumgr(lab, "attach", third, "--profile", "4Q", "--on", host, "-o", "json")
    assert {row["gpu"] for row in ran.document["result"]["vgpus"]} == {ALIVE}
    assert (
        said
        in vgpumgr(lab, "attach", third, "--slot", "a", "--profile", "4Q", "--gpu-id", DEAD, "--on", host, code=5).err
    )
    assert said in vgpumgr(lab, "capacity", "4Q", "--on", host).out
    assert said in vgpumgr(lab, "explain", "--profile", "4Q", "--on", host).out
    for command in (
        ("plan", host),
        ("plan", host, "--quiet", "--record"),
        ("reconcile", "--limit", host, "--yes", "--quiet"),
    ):
        ran = vgpumgr(lab, *command, code=4)
        assert f"{host}: GPU {DEAD} {said}" in ran.err, command
        assert "1 vGPU there is unverified" in ran.err, command
    assert "1 unverified" in vgpumgr(lab, "plan", host, code=4).out
    assert said in vgpumgr(lab, "list", host).err
    assert said in vgpumgr(lab, "discover", host).err
    lab.control(host, "clear")
    vgpumgr(lab, "plan", host)


def test_a_driver_that_does_not_answer_is_one_finding_of_its_host(frameworks_wiped: Lab) -> None:
    """No mode is guessed, and no reason is given that was not read."""
    lab = frameworks_wiped
    vgpumgr(lab, "attach", "v1", "v2", "--profile", "4Q", "--on", "kvm03")
    lab.control("kvm03", "fault", name="nvml-down")
    ran = vgpumgr(lab, "plan", "kvm03", code=4)
    assert "kvm03: GPUs 0000:41:00.0, 0000:81:00.0 do not answer: their driver is not loaded" in ran.err
    assert ran.err.count("do not answer") == 1
    assert "2 vGPUs there are unverified" in ran.err
    told = vgpumgr(lab, "explain", "--profile", "8Q", "--on", "kvm03").out
    assert "equal-size" not in told
    assert "does not answer" in told
    refused = vgpumgr(lab, "attach", "v3", "--profile", "4Q", "--on", "kvm03", code=5).err
    assert "does not answer" in refused
