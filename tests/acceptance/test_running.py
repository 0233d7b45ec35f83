"""A VM that runs: what attach changes of it, and what says so until its next start."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.acceptance import domains
from tests.acceptance.command import vgpumgr, vgpus

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.lab_fixtures import Lab

pytestmark = pytest.mark.lab

HOST, VM = "kvm01", "vm03"


@pytest.fixture
def running(vf_lab: Lab) -> Iterator[Lab]:
    """The lab while the VM runs, without a vGPU."""
    vf_lab.must(HOST, f"virsh start {VM}")
    yield vf_lab
    vf_lab.ssh(HOST, f"virsh destroy {VM}")
    vgpumgr(vf_lab, "detach", VM, "--yes")


def test_what_a_running_vm_is_given_waits_for_its_restart(running: Lab) -> None:
    """attach, repeated or not, list, show and the restart window say so; only the inactive definition was changed."""
    live = running.must(HOST, f"virsh dumpxml {VM}")
    first = vgpumgr(running, "attach", VM, "--profile", "4Q")
    (told,) = first.warnings
    assert told.startswith(f"pending restart: {VM} runs without A40-4Q on 0000:")
    assert running.must(HOST, f"virsh dumpxml {VM}") == live
    assert "ua-vgpu0" in domains.hostdevs(domains.dump(running, HOST, VM))

    assert vgpumgr(running, "attach", VM, "--profile", "4Q").warnings == [told]
    assert vgpumgr(running, "show", VM).warnings == [told]
    (row,) = [one for one in vgpus(running, HOST) if one["vm"] == VM]
    assert (row["state"], row["holder"]) == ("pending_restart", None)

    window = vgpumgr(running, "reconcile", "--restart-window", "-o", "json").document
    assert window["vms"] == [
        {
            "vm": VM,
            "vm_uuid": row["vm_uuid"],
            "host": HOST,
            "slots": [
                {"slot": "vgpu0", "does": "gets", "type_name": "A40-4Q", "parent": row["vf"], "device": row["uuid"]}
            ],
        }
    ]
    assert vgpumgr(running, "reconcile", "--restart-window", "-o", "name").out == f"{VM}\n"
    assert vgpumgr(running, "reconcile", "--restart-window").out.splitlines()[1].split(maxsplit=2) == [
        VM,
        HOST,
        "gets vgpu0 (A40-4Q)",
    ]
    assert vgpumgr(running, "reconcile", "--restart-window", "--limit", "kvm02").out == "no VM waits for a restart\n"

    running.must(HOST, f"virsh destroy {VM}")
    assert vgpumgr(running, "reconcile", "--restart-window", "-o", "json").document["vms"] == []
    assert [one["state"] for one in vgpus(running, HOST) if one["vm"] == VM] == ["bound"]


def test_the_restart_window_is_for_reading_only(running: Lab) -> None:
    """It changes nothing, also where something is to do, and takes no option of a change."""
    vgpumgr(running, "attach", VM, "--profile", "4Q")
    before = running.revisions()
    vgpumgr(running, "reconcile", "--restart-window", "--yes")
    assert running.revisions() == before
    for option in (["--confirm-destroys", "1"], ["--out", "file.json"]):
        ran = vgpumgr(running, "reconcile", "--restart-window", *option, code=2)
        assert f"--restart-window and {option[0]} cannot be combined" in ran.err


def test_a_vm_that_could_not_start_gets_nothing(vf_lab: Lab) -> None:
    """5 before anything is made, with what to do; whoever wants it gets it, and the finding stays."""
    other = "vm04"
    vf_lab.must(HOST, "mv /dev/vfio/vfio /dev/vfio-away")
    try:
        before = vf_lab.revisions()
        said = vgpumgr(vf_lab, "attach", other, "--profile", "4Q", "-o", "json", code=5).error
        assert (said["error"], vf_lab.revisions()) == ("WillNotStart", before)
        assert "it has no /dev/vfio/vfio" in said["message"]
        assert "modprobe vfio-pci" in said["hint"]
        forced = vgpumgr(
            vf_lab, "attach", other, "--profile", "4Q", "--even-if-it-will-not-start", "-o", "json"
        ).document
        assert [one["kind"] for one in forced["findings"]] == ["will-not-start"]
        assert len(vgpumgr(vf_lab, "show", other).warnings) == 1
    finally:
        vf_lab.must(HOST, "mv /dev/vfio-away /dev/vfio/vfio")
    assert vgpumgr(vf_lab, "show", other).warnings == []
    vgpumgr(vf_lab, "detach", other, "--yes")
