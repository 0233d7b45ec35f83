"""What cannot be done: each with its exit code, its words and its way on, for people and for scripts; nothing is changed.

Every run here goes through `vgpumgr()`, which finds a traceback on either stream.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import pytest

from tests.acceptance import domains, inventories, truth
from tests.acceptance.command import vgpumgr
from tests.model.fleet import vm_uuid

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.acceptance.command import Runs
    from tests.acceptance.near import Near
    from tests.lab_fixtures import Lab

pytestmark = pytest.mark.lab

HOST, OTHER = "kvm01", "kvm02"
GPUS = ("0000:41:00.0", "0000:81:00.0")


@pytest.fixture
def broken(vf_fleet: Lab) -> Iterator[Lab]:
    """The lab for a test that breaks hosts of it: mended afterwards."""
    yield vf_fleet
    for host in (HOST, OTHER):
        vf_fleet.control(host, "clear")


def fail(lab: Runs, *arguments: str, code: int, error: str) -> dict[str, Any]:
    """Run it with `-o json`: the exit code, the class of the error, and nothing on stdout."""
    ran = vgpumgr(lab, *arguments, "-o", "json", code=code)
    assert ran.out == ""
    assert ran.error["error"] == error
    return ran.error


# What was asked


def test_an_unknown_vm_gets_the_nearest_name(near_fleet: Near) -> None:
    """Exit 2, and the hint names the VM that was likely meant."""
    ran = vgpumgr(near_fleet, "attach", "vm001", "--profile", "4Q", code=2)
    assert ran.out == ""
    assert ran.err.splitlines()[-2:] == ["error: none of 2 hosts has a VM 'vm001'", "hint: did you mean vm01?"]


@pytest.mark.parametrize(
    ("line", "code", "error", "says"),
    [
        ("attach nosuchvm --profile 4Q", 2, "UnknownVm", ("nosuchvm", "virsh list")),
        ("attach vm31 --profile 4C --on kvm01", 2, "UnknownVm", ("kvm01 has no VM 'vm31'",)),
        ("attach vm01 --profile 4Q --on kwm01", 2, "UnknownHost", (HOST,)),
        ("attach vm01 --profile 5Q --on kvm01", 2, "UnknownProfile", ("5Q", *GPUS, "vgpumgr profiles")),
        ("attach vm01 --profile banana", 2, "BadName", ("4Q",)),
        ("attach vm01 --profile 4Q --on kvm01 --gpu-id 0000:99:00.0", 2, "UnknownGpu", GPUS),
        ("attach --profile 4Q", 2, "UsageError", ("no VM is named", "-f")),
        ("detach", 2, "UsageError", ("no VM is named", "-f")),
        ("detach vm08 --live --yes", 5, "NotWhileRunning", ("needs --force-live-detach; nothing was changed",)),
        ("detach vm08 --force-live-detach --yes", 2, "UsageError", ("--live",)),
        (
            "reconcile --restart-window --confirm-destroys 1",
            2,
            "UsageError",
            ("--confirm-destroys cannot be combined",),
        ),
        ("reconcile --restart-window --out file.json", 2, "UsageError", ("--out cannot be combined",)),
        ("attach vm31 --profile A40-4Q --on kvm02", 5, "ProfileNotHere", ("0000:41:00.0  A100  has no A40-4Q",)),
        ("attach vm31 --profile 4Q --on kvm02", 5, "NoCapacity", (HOST,)),
    ],
)
def test_what_is_not_there_is_named_with_what_is(
    near_fleet: Near, line: str, code: int, error: str, says: tuple[str, ...]
) -> None:
    """The nearest name, each GPU in a line, the host that could, or how such a thing is written or looked up."""
    told = fail(near_fleet, *line.split(), code=code, error=error)
    whole = "\n".join([told["message"], *told["details"], told["hint"] or ""])
    assert [text for text in says if text not in whole] == []


def test_an_ambiguous_vm_names_the_hosts_and_the_option(near_fleet: Near) -> None:
    """Exit 2 for a name that two hosts have; --on decides it."""
    for host in (HOST, OTHER):
        near_fleet.machines[host].libvirt.define("twin", vm_uuid(host, "twin"))
    error = fail(near_fleet, "attach", "twin", "--profile", "4C", code=2, error="AmbiguousVm")
    assert (HOST in error["message"], OTHER in error["message"], "--on" in error["hint"]) == (True, True, True)
    vgpumgr(near_fleet, "attach", "twin", "--profile", "4C", "--on", OTHER, "--check", code=3)


def test_what_removes_needs_a_yes(near_fleet: Near) -> None:
    """Without a terminal detach does nothing and leaves with 2, saying that --yes is wanted; attach never asks."""
    vgpumgr(near_fleet, "attach", "vm03", "--profile", "4Q", "--on", HOST)
    before = near_fleet.machines[HOST].hardware()
    assert "--yes" in fail(near_fleet, "detach", "vm03", "--on", HOST, code=2, error="UsageError")["hint"]
    assert near_fleet.machines[HOST].hardware() == before
    vgpumgr(near_fleet, "--yes", "detach", "vm03", "--on", HOST)


# The inventory


def test_a_declared_slot_is_decided_in_the_inventory(near_fleet: Near) -> None:
    """Another wish than the declared one is a ConflictingClaim (5) naming file:line; another host is a usage error (2)."""
    near_fleet.declare(HOST, vgpumgr_vms={"vm06": {"vgpu0": {"profile": "8Q"}}})
    error = fail(near_fleet, "attach", "vm06", "--profile", "4Q", code=5, error="ConflictingClaim")
    assert "host_vars/kvm01.yml:1" in error["message"]
    asked = ("attach", "vm06", "--profile", "8Q", "--on", OTHER)
    assert "host_vars/kvm01.yml:1" in fail(near_fleet, *asked, code=2, error="UsageError")["message"]


def test_without_a_host_the_inventory_is_the_error(near_fleet: Near, tmp_path: Path) -> None:
    """Exit 2 where the inventory has no host, and where there is no inventory."""
    (tmp_path / "hosts.yml").write_text("hypervisors: {hosts: {}}\n", encoding="utf-8")
    error = fail(near_fleet, "-i", str(tmp_path), "attach", "vm01", "--profile", "4Q", code=2, error="InventoryError")
    assert "no host" in error["details"][0]
    missing = fail(near_fleet, "-i", str(tmp_path / "none"), "list", code=2, error="InventoryError")
    assert str(tmp_path / "none") in missing["message"]


# The hosts


def test_several_dead_hosts_are_still_one_error_object(broken: Lab) -> None:
    """With -o json stderr has one object however many hosts fail, and each has its line."""
    for host in (HOST, OTHER):
        broken.control(host, "fault", name="ssh-refused")
    error = vgpumgr(broken, "list", "-o", "json", code=4).error
    assert [line.split(":")[0] for line in error["details"]] == [HOST, OTHER]
    people = vgpumgr(broken, "list", code=4)
    assert people.out == ""
    assert people.err.count("error: kvm0") == 2


def test_a_vm_that_may_be_on_a_dead_host_is_unreached(broken: Lab) -> None:
    """Exit 4, not 2: nobody can say that the VM does not exist. A VM that is found goes on, with a finding."""
    broken.control(HOST, "fault", name="ssh-refused")
    error = fail(broken, "attach", "vm01", "--profile", "4Q", code=4, error="VmNotSeen")
    assert error["details"][0].startswith("kvm01: tcp: ")
    found = vgpumgr(broken, "attach", "vm31", "--profile", "4C", "--check", "-o", "json", code=3).document
    assert [finding["kind"] for finding in found["findings"]] == ["unreached"]


def test_an_unknown_host_key_is_refused_with_the_fix(vf_fleet: Lab, tmp_path: Path) -> None:
    """Exit 4; the fingerprint that the host offers, and the command that trusts it."""
    inventory = inventories.trusting(vf_fleet, tmp_path, lambda _: "")
    error = fail(vf_fleet, "-i", str(inventory), "show", "vm01", "--on", HOST, code=4, error="HostKeyRefused")
    assert "SHA256:" in error["message"]
    assert "ssh-keyscan" in error["hint"]


def test_a_driver_that_says_eio_is_translated_and_everything_is_undone(broken: Lab) -> None:
    """Exit 1 with the path, the errno and its likely causes; claim, hostdev, ledger and /sys are as before.

    What was undone is in nobody's way: the same command works once the driver does.
    """
    before = domains.settle(broken, HOST, "vm04"), truth.hardware(broken, HOST), truth.ledger(broken, HOST)
    broken.control(HOST, "fault", name="create-eio")
    error = fail(broken, "attach", "vm04", "--profile", "4Q", "--on", HOST, code=1, error="SysfsRefused")
    assert re.search(r"/sys/.*/create.*EIO", error["message"])
    assert error["details"][0] == "kernel: NVRM: Failed to add vgpu create request: 0x40"
    assert error["details"][1].endswith(": vGPU creation failed, -5")
    assert error["details"][2].startswith("likely: ")
    after = domains.dump(broken, HOST, "vm04")
    domains.assert_equivalent(before[0], after)
    assert (truth.hardware(broken, HOST), truth.ledger(broken, HOST)) == before[1:]

    broken.control(HOST, "clear")
    vgpumgr(broken, "attach", "vm04", "--profile", "4Q", "--on", HOST)
    vgpumgr(broken, "detach", "vm04", "--on", HOST, "--yes")
