"""A host that goes wrong between two steps: what can be undone is undone, and the rest is said; the same command goes on."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from tests.acceptance import altered, domains, truth
from tests.acceptance.command import Ran, vgpumgr, vgpus

if TYPE_CHECKING:
    from tests.lab_fixtures import Lab

pytestmark = pytest.mark.lab

HOST = "kvm01"
VM = "vm01"
ATTACH = ("attach", VM, "--profile", "4Q", "--on", HOST)
DETACH = ("detach", VM, "--on", HOST, "--yes")


@pytest.fixture
def lab(one_wiped: Lab) -> Lab:
    """kvm01 with nothing on it."""
    return one_wiped


def unlucky(lab: Lab, *arguments: str, when: str, op: str, code: int, **fields: str) -> Ran:
    """Run the program; at that point of its plan the host's supervisor is asked for `op`."""
    luck = {"dir": os.fspath(lab.dir), "when": when, "op": op, "fields": fields}
    done = lab.run(*arguments, "-o", "json", first=altered.unlucky, given=luck)
    assert done.returncode == code, done.stdout + done.stderr
    return Ran(arguments=arguments, code=code, out=done.stdout, err=done.stderr)


def claim_states(lab: Lab) -> dict[str, str]:
    return domains.claim_states(domains.dump(lab, HOST, VM))


def test_libvirt_that_goes_before_the_hostdev_leaves_only_the_pending_claim(lab: Lab) -> None:
    """The vGPU and its entry are taken back through the host program; the error says what is left; then it goes on."""
    error = unlucky(lab, *ATTACH, when="before:attach_hostdev", op="fault", name="libvirtd-down", code=1).error
    assert error["error"] == "PartialApply"
    assert "undone: create_vgpu" in error["message"]
    assert "left: put_claim, the claim of slot vgpu0 stays pending" in error["message"]
    assert "the same command again" in error["hint"]
    assert (truth.hardware(lab, HOST), truth.ledger(lab, HOST)) == ({}, [])

    lab.control(HOST, "clear")
    assert claim_states(lab) == {"vgpu0": "pending"}
    assert domains.hostdevs(domains.dump(lab, HOST, VM)) == {}
    vgpumgr(lab, *ATTACH)
    (row,) = vgpus(lab, HOST)
    assert (row["vm"], row["state"]) == (VM, "bound")


def test_a_vgpu_that_a_definition_may_name_is_not_taken_from_under_it(lab: Lab) -> None:
    """libvirt did attach the device and its answer was lost: the vGPU stays, so that the VM can start; then it goes on."""
    error = unlucky(lab, *ATTACH, when="in:attach_hostdev", op="fault", name="libvirtd-down", code=1).error
    assert error["error"] == "PartialApply"
    assert "not known whether attach_hostdev was done" in error["message"]
    assert "left: put_claim, create_vgpu" in error["message"]
    assert len(truth.hardware(lab, HOST)) == len(truth.ledger(lab, HOST)) == 1

    lab.control(HOST, "clear")
    (hostdev,) = domains.hostdevs(domains.dump(lab, HOST, VM)).values()
    assert list(truth.hardware(lab, HOST)) == [domains.device_of(hostdev)]
    vgpumgr(lab, *ATTACH)
    (row,) = vgpus(lab, HOST)
    assert (row["vm"], row["state"]) == (VM, "bound")


def test_who_takes_it_at_the_last_moment_has_it_in_use(lab: Lab) -> None:
    """5 as in a plan, naming the holder; the hostdev and the claim are put back."""
    vgpumgr(lab, *ATTACH)
    before = truth.hardware(lab, HOST), truth.ledger(lab, HOST)
    error = unlucky(lab, *DETACH, when="before:detach_hostdev", op="hold", vm=VM, code=5).error
    assert error["error"] == "InUse"
    assert "in use" in error["message"]
    assert any("open by pid" in line and VM in line for line in error["details"])
    assert f"shut {VM} down" in error["hint"]
    assert (truth.hardware(lab, HOST), truth.ledger(lab, HOST)) == before
    assert claim_states(lab) == {"vgpu0": "bound"}
    assert list(domains.hostdevs(domains.dump(lab, HOST, VM))) == ["ua-vgpu0"]
