"""A VM that runs: what attach changes of it, and what says so until its next start."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree

import pytest

from tests.acceptance import domains, truth
from tests.acceptance.command import vgpumgr, vgpus

if TYPE_CHECKING:
    from tests.lab_fixtures import Lab

pytestmark = pytest.mark.lab

HOST, VM = "kvm01", "vm03"


@pytest.fixture
def vf_lab(one_wiped: Lab) -> Lab:
    """kvm01, which each test leaves as it likes."""
    return one_wiped


@pytest.fixture
def running(vf_lab: Lab) -> Lab:
    """The lab while the VM runs, without a vGPU."""
    vf_lab.must(HOST, f"virsh start {VM}")
    return vf_lab


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


def test_a_vm_that_could_not_start_gets_nothing(vf_lab: Lab) -> None:
    """5 before anything is made, with what to do; whoever wants it gets it, and the finding stays."""
    other = "vm04"
    vf_lab.must(HOST, "mv /dev/vfio/vfio /dev/vfio-away")
    before = vf_lab.revisions()
    said = vgpumgr(vf_lab, "attach", other, "--profile", "4Q", "-o", "json", code=5).error
    assert (said["error"], vf_lab.revisions()) == ("WillNotStart", before)
    assert "it has no /dev/vfio/vfio" in said["message"]
    assert "modprobe vfio-pci" in said["hint"]
    forced = vgpumgr(vf_lab, "attach", other, "--profile", "4Q", "--even-if-it-will-not-start", "-o", "json").document
    assert [one["kind"] for one in forced["findings"]] == ["will-not-start"]
    assert len(vgpumgr(vf_lab, "show", other).warnings) == 1
    vf_lab.must(HOST, "mv /dev/vfio-away /dev/vfio/vfio")
    assert vgpumgr(vf_lab, "show", other).warnings == []


def started(lab: Lab, vm: str) -> dict[str, Any]:
    """A VM that runs with its vGPU, under libvirt: its row."""
    vgpumgr(lab, "attach", vm, "--profile", "4Q")
    vgpumgr(lab, "lab", "start", vm)
    return row_of(lab, vm)


def row_of(lab: Lab, vm: str) -> dict[str, Any]:
    (row,) = [one for one in vgpus(lab, HOST) if one["vm"] == vm]
    return row


def test_a_guest_that_runs_with_its_mdev_keeps_it_until_all_of_it_has_ended(vf_lab: Lab) -> None:
    """list names the holder; detach is refused and changes nothing, on the host and in the definition. After its stop there are
    4 s in which only nvidia-vgpu-mgr has the vGPU: detach waits, nothing is written before its end, and nothing is lost.
    """
    vm = "vm05"
    row = started(vf_lab, vm)
    assert (row["state"], row["holder"]) == ("in_use", vm)
    assert row["uuid"] in vf_lab.must(HOST, f"virsh dumpxml {vm}")
    before, kept = vf_lab.revisions(), truth.kept(vf_lab, HOST)
    said = vgpumgr(vf_lab, "detach", vm, "--yes", "-o", "json", code=5).error
    assert said["error"] == "InUse"
    assert f"VM {vm} is running with it" in said["details"]
    assert any(line.startswith(f"VM {vm} holds /dev/vfio/") for line in said["details"])
    assert (vf_lab.revisions(), truth.kept(vf_lab, HOST)) == (before, kept)

    vf_lab.control(HOST, "fault", name="slow-plugin:4")
    vgpumgr(vf_lab, "lab", "stop", vm)
    assert vf_lab.must(HOST, "pgrep -c nvidia-vgpu-mgr").strip() == "1"
    vgpumgr(vf_lab, "detach", vm, "--yes")
    assert [one for one in vgpus(vf_lab, HOST) if one["vm"] == vm] == []
    assert vf_lab.control(HOST, "status")["lost"] == []


def test_what_the_definition_of_a_guest_loses_waits_for_its_restart(vf_lab: Lab) -> None:
    """Somebody takes the hostdev out of the inactive definition: list and the restart window say so, until the VM is off."""
    vm = "vm07"
    row = started(vf_lab, vm)
    device = ElementTree.tostring(domains.hostdevs(domains.dump(vf_lab, HOST, vm))["ua-vgpu0"], encoding="unicode")
    vf_lab.must(HOST, f"cat > /tmp/device.xml && virsh detach-device {vm} /tmp/device.xml --config", text=device)
    now = row_of(vf_lab, vm)
    assert (now["state"], now["holder"]) == ("pending_restart", vm)
    (waits,) = vgpumgr(vf_lab, "reconcile", "--restart-window", "-o", "json").document["vms"]
    assert [(one["does"], one["device"]) for one in waits["slots"]] == [("loses", row["uuid"])]
    vgpumgr(vf_lab, "lab", "stop", vm)
    assert vgpumgr(vf_lab, "reconcile", "--restart-window", "-o", "json").document["vms"] == []


def test_a_live_attach_is_shown_and_asked_for_and_what_qemu_refuses_leaves_nothing(vf_lab: Lab) -> None:
    """The lab's kernel has no VFIO, so its QEMU takes no device while it runs: all that was done before is undone."""
    vm = "vm06"
    vf_lab.must(HOST, f"virsh start {vm}")
    live = ("attach", vm, "--profile", "4Q", "--live")
    planned = vgpumgr(vf_lab, *live, "--check", code=3)
    lines = [line.split(maxsplit=2)[:2] for line in planned.out.splitlines() if line.startswith("  ")]
    assert lines == [["+", "claim"], ["+", "vGPU"], ["+", "hostdev"], ["+", "live"]]
    assert "pending restart" not in planned.err
    dumps = f"virsh dumpxml {vm}; virsh dumpxml --inactive {vm}; ls /sys/bus/mdev/devices"
    before, revisions = vf_lab.must(HOST, dumps), vf_lab.revisions()
    asked = vgpumgr(vf_lab, *live, code=2)
    assert "attach --live of vm06 needs confirmation, and stdin is not a terminal" in asked.err
    assert (vf_lab.must(HOST, dumps), vf_lab.revisions()) == (before, revisions)
    refused = vgpumgr(vf_lab, *live, "--yes", "-o", "json", code=1).error
    assert refused["error"] == "HypervisorError"
    assert refused["message"].startswith(f"{HOST}: give the device to the running VM: ")
    assert refused["details"] == ["the steps before it are undone"]
    left = vf_lab.must(HOST, dumps).replace("  <metadata/>\n", "")  # libvirt 9.0 keeps the empty element
    assert left == before
    assert [one for one in vgpus(vf_lab, HOST) if one["vm"] == vm] == []


def test_a_live_attach_is_for_a_vm_that_runs(vf_lab: Lab) -> None:
    before = vf_lab.revisions()
    said = vgpumgr(vf_lab, "attach", "vm08", "--profile", "4Q", "--live", "--yes", "-o", "json", code=5).error
    assert (said["error"], said["hint"]) == ("NotWhileRunning", "without --live it gets the vGPU at its next start")
    assert said["message"] == "vm08 is shut off, and --live is for a VM that runs; nothing was changed"
    assert vf_lab.revisions() == before
