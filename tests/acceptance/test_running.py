"""A VM that runs: what attach changes of it, and what says so until its next start."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.acceptance import domains, truth
from tests.acceptance.command import vgpumgr, vgpus
from vgpumgr.lab.machine import emulator

if TYPE_CHECKING:
    from tests.lab_fixtures import Lab

pytestmark = pytest.mark.lab

HOST, VM = "kvm01", "vm03"


@pytest.fixture
def running(one_wiped: Lab) -> Lab:
    """The lab while the VM runs, without a vGPU."""
    one_wiped.must(HOST, f"virsh start {VM}")
    return one_wiped


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
                {
                    "slot": "vgpu0",
                    "does": "gets",
                    "type_name": "A40-4Q",
                    "parent": row["vf"],
                    "waits": None,
                    "device": row["uuid"],
                }
            ],
        }
    ]
    assert vgpumgr(running, "reconcile", "--restart-window", "-o", "name").out == f"{VM}\n"
    assert vgpumgr(running, "reconcile", "--restart-window").out.splitlines()[1].split() == [
        VM,
        HOST,
        "vgpu0",
        "gets",
        "A40-4Q",
    ]

    running.must(HOST, f"virsh destroy {VM}")
    assert vgpumgr(running, "reconcile", "--restart-window", "-o", "json").document["vms"] == []
    assert [one["state"] for one in vgpus(running, HOST) if one["vm"] == VM] == ["bound"]


def started(lab: Lab, vm: str) -> dict[str, Any]:
    """A VM that runs with its vGPU, under libvirt: its row."""
    vgpumgr(lab, "attach", vm, "--profile", "4Q")
    vgpumgr(lab, "lab", "start", vm)
    return row_of(lab, vm)


def row_of(lab: Lab, vm: str) -> dict[str, Any]:
    (row,) = [one for one in vgpus(lab, HOST) if one["vm"] == vm]
    return row


def test_a_guest_that_runs_with_its_mdev_keeps_it_until_all_of_it_has_ended(one_wiped: Lab) -> None:
    """list names the holder; detach is refused and changes nothing, on the host and in the definition. After its stop there are
    4 s in which only nvidia-vgpu-mgr has the vGPU: detach waits, nothing is written before its end, and nothing is lost.
    """
    vm = "vm05"
    row = started(one_wiped, vm)
    assert (row["state"], row["holder"]) == ("in_use", vm)
    assert row["uuid"] in one_wiped.must(HOST, f"virsh dumpxml {vm}")
    before, kept = one_wiped.revisions(), truth.kept(one_wiped, HOST)
    said = vgpumgr(one_wiped, "detach", vm, "--yes", "-o", "json", code=5).error
    assert said["error"] == "InUse"
    assert f"VM {vm} is running with it" in said["details"]
    assert any(line.startswith(f"VM {vm} holds /dev/vfio/") for line in said["details"])
    assert (one_wiped.revisions(), truth.kept(one_wiped, HOST)) == (before, kept)

    one_wiped.control(HOST, "fault", name="slow-plugin:4")
    vgpumgr(one_wiped, "lab", "stop", vm)
    assert one_wiped.must(HOST, "pgrep -c nvidia-vgpu-mgr").strip() == "1"
    vgpumgr(one_wiped, "detach", vm, "--yes")
    assert [one for one in vgpus(one_wiped, HOST) if one["vm"] == vm] == []
    assert one_wiped.control(HOST, "status")["lost"] == []


def test_a_live_attach_is_shown_and_asked_for_and_what_qemu_refuses_leaves_nothing(one_wiped: Lab) -> None:
    """The lab's kernel has no VFIO, so its QEMU takes no device while it runs: all that was done before is undone."""
    vm = "vm06"
    one_wiped.must(HOST, f"virsh start {vm}")
    live = ("attach", vm, "--profile", "4Q", "--live")
    planned = vgpumgr(one_wiped, *live, "--check", code=3)
    lines = [line.split(maxsplit=2)[:2] for line in planned.out.splitlines() if line.startswith("  ")]
    assert lines == [["+", "claim"], ["+", "vGPU"], ["+", "hostdev"], ["+", "live"]]
    assert "pending restart" not in planned.err
    dumps = f"virsh dumpxml {vm}; virsh dumpxml --inactive {vm}; ls /sys/bus/mdev/devices"
    before, revisions = one_wiped.must(HOST, dumps), one_wiped.revisions()
    asked = vgpumgr(one_wiped, *live, code=2)
    assert "attach --live of vm06 needs confirmation, and stdin is not a terminal" in asked.err
    assert (one_wiped.must(HOST, dumps), one_wiped.revisions()) == (before, revisions)
    refused = vgpumgr(one_wiped, *live, "--yes", "-o", "json", code=1).error
    assert refused["error"] == "HypervisorError"
    assert refused["message"].startswith(f"{HOST}: give the device to the running VM: ")
    assert refused["details"] == ["the steps before it are undone"]
    left = one_wiped.must(HOST, dumps).replace("  <metadata/>\n", "")  # libvirt 9.0 keeps the empty element
    assert left == before
    assert [one for one in vgpus(one_wiped, HOST) if one["vm"] == vm] == []


def test_a_vm_that_could_not_start_with_its_host_is_started_once_its_vgpu_is_back(one_wiped: Lab) -> None:
    """Not by a reconcile that is not asked to; nor a VM that a person shut down."""
    lab = one_wiped
    vgpumgr(lab, "attach", VM, "vm04", "--profile", "4Q", "--on", HOST)
    for vm in (VM, "vm04"):
        domains.define(lab, HOST, emulator.prepared(domains.dump(lab, HOST, vm)))
    for row in vgpus(lab, HOST):
        lab.must(HOST, f"echo 1 > /sys/bus/mdev/devices/{row['uuid']}/remove")
    lab.must(HOST, f"virsh autostart {VM} && ! virsh start {VM} && ! virsh start vm04")

    (told,) = [one for one in vgpumgr(lab, "list", HOST).warnings if "last start failed" in one]
    assert told.startswith(f"{VM} is to start with {HOST}, but its last start failed")
    vgpumgr(lab, "reconcile", HOST)
    assert vgpumgr(lab, "reconcile", HOST, "--start", "--check", "-o", "json", code=3).document["plan"] == [
        {"verb": "start_vm", "vm": VM, "inverse": "start_vm", "host": HOST}
    ]
    assert f"+ start    {VM}" in vgpumgr(lab, "reconcile", HOST, "--start").out
    assert lab.must(HOST, "virsh list --name").split() == [VM]
    assert "in sync" in vgpumgr(lab, "reconcile", HOST, "--start").out
    lab.must(HOST, f"virsh destroy {VM}")
    vgpumgr(lab, "reconcile", HOST, "--start")
    assert lab.must(HOST, "virsh list --name").split() == []
