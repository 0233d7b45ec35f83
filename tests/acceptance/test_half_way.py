"""A host that goes wrong between two steps: what can be undone is undone, and the rest is said; the same command goes on."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.acceptance import domains, truth
from tests.acceptance.command import Ran, vgpumgr, vgpus

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.lab_fixtures import Lab

pytestmark = pytest.mark.lab

HOST = "kvm01"
VM = "vm01"
ATTACH = ("attach", VM, "--profile", "4Q", "--on", HOST)
DETACH = ("detach", VM, "--on", HOST, "--yes")
# The program, whose one step meets bad luck: before it is begun, or (`in`) once libvirt has carried it out and not answered.
_UNLUCKY = """
# In the host program: libvirt has attached the device, and nobody hears of it before the connection is lost.
WITHOUT_ANSWER = b'''
def _attach_without_answer(domain, step):
    domain.attach_device(step["xml"], AFFECT_CONFIG)
    while True:
        domain.xml()
_CHANGES[ATTACH_DEVICE] = _attach_without_answer
'''
import json, sys, threading
from pathlib import Path
from vgpumgr import resources
from vgpumgr.cli.main import main
from vgpumgr.controller.engine import executor
from vgpumgr.lab.machine import control
from vgpumgr.lab.layout import Layout
luck = json.loads(sys.argv.pop(1))
def strike():
    control.ask(Layout(folder=Path(luck["dir"])).host("kvm01"), luck["op"], luck["fields"])
really = executor.Executor.execute
def execute(self, step):
    if luck["when"] == f"before:{step.verb}":
        strike()
    really(self, step)
executor.Executor.execute = execute
if luck["when"] == "in:attach_hostdev":
    really_sources = resources.host_sources
    def sources():
        found = really_sources()
        found["vgpumgr_host/libvirt/definitions.py"] += WITHOUT_ANSWER
        return found
    resources.host_sources, sys.dont_write_bytecode = sources, True
    def hear(event, arguments):
        if event == "vgpumgr.moment" and arguments[1:] == ("begin", "attach_hostdev"):
            threading.Timer(2, strike).start()
    sys.addaudithook(hear)
sys.exit(main())
"""


@pytest.fixture
def lab(vf_lab: Lab) -> Iterator[Lab]:
    """kvm01 with nothing on it, before and after."""
    assert (truth.hardware(vf_lab, HOST), truth.ledger(vf_lab, HOST)) == ({}, [])
    yield vf_lab
    vf_lab.control(HOST, "clear")
    vf_lab.control(HOST, "release", vm=VM)
    vgpumgr(vf_lab, *DETACH, "--all")
    assert (truth.hardware(vf_lab, HOST), truth.ledger(vf_lab, HOST)) == ({}, [])


def unlucky(lab: Lab, *arguments: str, when: str, op: str, code: int, **fields: str) -> Ran:
    """Run the program; at that point of its plan the host's supervisor is asked for `op`."""
    luck = json.dumps({"dir": os.fspath(lab.dir), "when": when, "op": op, "fields": fields})
    done = subprocess.run(
        [sys.executable, "-c", _UNLUCKY, luck, *arguments, "-o", "json"],
        env={**lab.env, "PYTHONPATH": str(Path(__file__).resolve().parents[2])},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
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


def test_libvirt_that_goes_before_the_claim_is_bound_leaves_what_the_definition_names(lab: Lab) -> None:
    error = unlucky(lab, *ATTACH, when="before:bind_claim", op="fault", name="libvirtd-down", code=1).error
    assert "left: put_claim, create_vgpu, attach_hostdev" in error["message"]
    assert len(truth.hardware(lab, HOST)) == 1
    lab.control(HOST, "clear")
    vgpumgr(lab, *ATTACH)
    (row,) = vgpus(lab, HOST)
    assert row["state"] == "bound"


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
