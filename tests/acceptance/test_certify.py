"""host certify, as a person meets it: what it asks first, what it leaves, what it refuses, and who goes on after a kill."""

from __future__ import annotations

import errno
import json
from typing import TYPE_CHECKING, Any

import pytest

from tests.acceptance.command import vgpumgr
from tests.acceptance.near import NearHost
from tests.unit.documents import published
from vgpumgr import errors, files
from vgpumgr.controller import certify
from vgpumgr.core.certify import probes
from vgpumgr.host.protocol.gpu import VENDOR_VFIO

if TYPE_CHECKING:
    from pathlib import Path

    from tests.acceptance.near import Near, Sites

GPU = "0000:41:00.0"
TRIES = ("--allow-destructive", "--yes", "-o", "json")
HOSTS = {
    "kvm01": NearHost(vms=("vm01",), vfs=2),
    "kvm02": NearHost(vms=("vm02",), vfs=2, board="L40S", framework=VENDOR_VFIO),
}
# What the machines of this test show otherwise than a host: they have not all of its files.
_NOT_THERE = {"driver-files", "vf-group"}


def answers(near: Near, host: str, *options: str, code: int) -> dict[str, dict[str, Any]]:
    """The answers of one GPU, by belief."""
    report = vgpumgr(near, "host", "certify", host, "--gpu-id", GPU, *options, code=code).document
    assert published.problems("certify", report) == []
    return {one["belief"]: one for one in report["answers"]}


def differing(found: dict[str, dict[str, Any]]) -> dict[str, list[str]]:
    return {name: one["seen"] for name, one in found.items() if one["verdict"] == "differs" and name not in _NOT_THERE}


def test_it_reads_and_with_consent_tries_and_leaves_nothing(near_site: Sites, tmp_path: Path) -> None:
    near = near_site(HOSTS)
    before = {host: near.trace(host) for host in HOSTS}
    file = tmp_path / "report.json"
    found = answers(near, "kvm01", "-o", "json", "--report", str(file), code=0)
    assert found["create"]["verdict"] == "unanswered"
    assert "--allow-destructive" in found["create"]["evidence"]
    assert "kvm01" not in file.read_text()
    assert json.loads(files.read_bytes(file))["capture"]["definitions"][0]["vm"] == "vm-1"
    refused = vgpumgr(near, "host", "certify", "kvm01", "--allow-destructive", code=2)
    assert "certify makes and removes vGPUs" in refused.err
    shown = vgpumgr(near, "host", "certify", "kvm01", "--allow-destructive", "--check", code=3)
    assert f"~ {GPU}: vGPUs are made and removed" in shown.out
    assert near.trace("kvm01") == before["kvm01"]
    for host, code in (("kvm01", 0), ("kvm02", 5)):
        tried = answers(near, host, *TRIES, code=code)
        assert differing(tried) == {}
        assert {tried[name]["verdict"] for name in ("create", "other-size", "remove", "after-removal")} == {"holds"}
        assert near.trace(host)[1:] == before[host][1:]
        assert near.machines[host].ledger() == []
    assert [one["verb"] for one in vgpumgr(near, "history", "-o", "json").document["runs"]] == ["certify", "certify"]


def test_each_other_answer_of_the_driver_is_named_and_nothing_stays(near_site: Sites) -> None:
    near = near_site(HOSTS)
    for host, fault, seen in (
        ("kvm01", "answers:other-size:ENOSPC", {"other-size": ["ENOSPC"]}),
        ("kvm01", "answers:other-size:accepted", {"other-size": ["accepted"]}),
        ("kvm02", "answers:unknown-type:ENODEV", {"unknown-type": ["ENODEV"]}),
        ("kvm02", "answers:same-type:accepted", {"same-type": ["accepted"]}),
        ("kvm02", "answers:no-type:EBUSY", {"no-type": ["EBUSY"]}),
        ("kvm02", "create-eio", {"create": ["EIO"]}),
    ):
        driver = near.machines[host].driver
        driver.set_fault(fault)
        assert differing(answers(near, host, *TRIES, code=5)) == seen, fault
        driver.clear_faults()
        assert near.machines[host].ledger() == [], fault
        assert near.machines[host].hardware() == {}, fault


def _make_one_and_die(one: certify._OneGpu) -> None:
    tries = probes.Tries.on(one._look()[1])
    assert tries is not None
    one._create(tries.first)
    raise KeyboardInterrupt


def test_what_a_killed_run_left_is_removed_by_the_next(near_site: Sites, monkeypatch: pytest.MonkeyPatch) -> None:
    near = near_site(HOSTS)
    for host in HOSTS:
        with monkeypatch.context() as patch:
            patch.setattr(certify._OneGpu, "carry_out", _make_one_and_die)
            near.run("host", "certify", host, "--gpu-id", GPU, "--allow-destructive", "--yes")
        assert len(near.machines[host].hardware()) == 1, host
        rows = vgpumgr(near, "list", host, "-o", "json").document["vgpus"]
        assert [one["vm"] for one in rows] == [probes.VM_NAME]
        assert differing(answers(near, host, *TRIES, code=5 if host == "kvm02" else 0)) == {}
        assert near.machines[host].hardware() == {}


def _odd(one: certify._OneGpu, *_: object) -> None:
    raise errors.ProgramFailed(one._link.host, "it answers oddly")


@pytest.mark.parametrize("kept", [{"vgpu0"}, {"vgpu0", "vgpu2"}], ids=len)
def test_what_the_host_does_not_let_certify_remove_is_told_with_the_command_that_removes_it(
    near_site: Sites, monkeypatch: pytest.MonkeyPatch, kept: set[str]
) -> None:
    """The answers are given all the same, and no other GPU is tried. vgpu2 is made because the driver does not refuse it."""
    near = near_site(HOSTS)
    machine = near.machines["kvm01"]
    machine.driver.set_fault("answers:other-size:accepted")
    usual = machine.write

    def write(path: str, text: bytes) -> None:
        if path.endswith("/remove") and any(one["slot"] in kept and one["uuid"] in path for one in machine.ledger()):
            raise OSError(errno.EIO, "refused")
        usual(path, text)

    with monkeypatch.context() as patch:
        patch.setattr(machine, "write", write)
        with monkeypatch.context() as other:
            if kept == {"vgpu0"}:
                other.setattr(certify._OneGpu, "_beside", _odd)
            done = vgpumgr(near, "host", "certify", "kvm01", *TRIES, code=1)
        again = vgpumgr(near, "host", "certify", "kvm01", *TRIES, code=1)
    left = machine.ledger()
    assert {one["slot"] for one in left} == kept
    assert len(machine.hardware()) == len(kept)
    told = json.loads(done.err)
    assert (told["error"], told["message"]) == (
        "PartialApply",
        f"kvm01: certify could not remove what it made on GPU {GPU}",
    )
    assert f"`vgpumgr host certify kvm01 --gpu-id {GPU} --allow-destructive`" in told["hint"]
    for one in left:
        assert any(line.startswith(f"{one['type_name']} on {one['parent']}: ") for line in told["details"]), told
    odd = ["kvm01: it answers oddly"] if kept == {"vgpu0"} else []
    assert sorted([*json.loads(again.err)["details"], *odd]) == sorted(told["details"])
    report = json.loads(done.out)
    assert report["outcomes"] == ["done", "failed"]
    tried = {one["gpu"] for one in report["answers"] if one["belief"] == "create" and one["seen"]}
    assert tried == {GPU}
    ends = [one["outcome"] for one in vgpumgr(near, "history", "-o", "json").document["runs"]]
    assert ends == ["failed", "failed"]
    answers(near, "kvm01", *TRIES, code=5)
    assert machine.hardware() == {}


def test_a_gpu_that_holds_anything_is_left_alone_and_named(near_site: Sites) -> None:
    near = near_site(HOSTS)
    vgpumgr(near, "attach", "vm01", "--profile", "4Q", "--on", "kvm01")
    before = near.trace("kvm01")
    refused = vgpumgr(near, "host", "certify", "kvm01", "--gpu-id", GPU, *TRIES[:2], code=5)
    assert f"{GPU}: the ledger has vGPUs or reservations there" in refused.err
    report = vgpumgr(near, "host", "certify", "kvm01", *TRIES).document
    assert {one["gpu"] for one in report["answers"] if one["belief"] == "create" and one["seen"]} == {"0000:81:00.0"}
    assert near.trace("kvm01") == before


def test_a_host_that_has_no_such_gpu_or_offers_nothing_says_so(near_site: Sites) -> None:
    near = near_site(HOSTS)
    assert "it has 0000:41:00.0" in vgpumgr(near, "host", "certify", "kvm01", "--gpu-id", "0000:42:00.0", code=2).err
    for pci in (GPU, "0000:81:00.0"):
        near.machines["kvm01"].driver.set_vfs(pci, on=False)
    near.machines["kvm01"].show()
    assert "no GPU of kvm01 offers vGPUs" in vgpumgr(near, "host", "certify", "kvm01", code=5).err
