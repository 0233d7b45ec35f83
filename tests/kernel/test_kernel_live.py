"""attach --live and detach --live: the running guest, its definition and the vGPU agree, whatever happened in between.

The guests have no operating system. `native` gives a device back all the same (tests/kernel/guests.py), vm04 never does.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.acceptance.command import vgpumgr, vgpus
from tests.kernel import cases, guests, seen
from tests.kernel.marks import each_commit
from tests.kernel.release import DEBIAN12, DEBIAN13, RELEASES

if TYPE_CHECKING:
    from tests.kernel.vm import Vm

pytestmark = pytest.mark.kernel

FORCED = ("--live", "--force-live-detach", "--yes")


def attach(vm: Vm, guest: str, profile: str = cases.PF.profile) -> dict[str, str]:
    """Attach to the running guest; its one row in `list`."""
    vgpumgr(vm, "attach", guest, "--profile", profile, "--live", "--yes")
    (row,) = vgpus(vm)
    return row


def agree(vm: Vm, guest: str, uuid: str) -> None:
    """The guest runs with the vGPU, at the address that its definition has for it."""
    live = guests.buses(guests.running(vm, guest))
    assert live == guests.buses(seen.definition(vm, guest))
    assert list(live) == [uuid]
    assert min(live.values()) > 0
    assert seen.group(vm, uuid) in seen.open_vfio(vm, guest)


def nothing_left(vm: Vm, guest: str) -> bool:
    """No vGPU, no entry, no claim, and no device in either definition."""
    both = guests.running(vm, guest) + seen.definition(vm, guest)
    return (seen.hardware(vm), seen.ledger(vm)) == ({}, []) and "hostdev" not in both and "vgpumgr" not in both


@each_commit(*RELEASES)
def test_a_running_guest_gets_its_vgpu_and_gives_it_back(vm: Vm, native: str) -> None:
    """Without --force-live-detach nothing is taken from it."""
    row = attach(vm, native)
    assert (row["state"], row["holder"]) == ("in_use", native)
    agree(vm, native, row["uuid"])
    again = vgpumgr(vm, "attach", native, "--profile", cases.PF.profile, "--live", "--yes", "-o", "json")
    assert (again.document["changed"], again.document["findings"]) == (False, [])
    before = seen.kept(vm)
    for options in (("--yes",), ("--live", "--yes")):
        refused = vgpumgr(vm, "detach", native, *options, "-o", "json", code=5)
        assert refused.error["error"] == ("NotWhileRunning" if "--live" in options else "InUse")
    assert seen.kept(vm) == before
    vgpumgr(vm, "detach", native, *FORCED)
    assert nothing_left(vm, native)


def test_after_a_restart_the_guest_has_its_vgpu_at_the_same_address(vm: Vm, native: str) -> None:
    row = attach(vm, native)
    buses = guests.buses(guests.running(vm, native))
    vm.must(f"virsh -q destroy {native}")
    vm.start_guest(native)
    agree(vm, native, row["uuid"])
    assert guests.buses(guests.running(vm, native)) == buses


def test_a_guest_that_does_not_let_go_keeps_its_vgpu_and_its_definition(vm: Vm) -> None:
    vm.start_guest(guests.LIKE)
    row = attach(vm, guests.LIKE)
    before = seen.kept(vm)
    refused = vgpumgr(vm, "detach", guests.LIKE, *FORCED, "-o", "json", code=5)
    assert refused.error["error"] == "NotWhileRunning"
    assert "still runs with it" in refused.error["message"]
    agree(vm, guests.LIKE, row["uuid"])
    assert seen.kept(vm) == before


def test_what_waits_for_a_restart_is_given_at_the_address_that_the_definition_has(vm: Vm, native: str) -> None:
    vgpumgr(vm, "attach", native, "--profile", cases.PF.profile)
    (row,) = vgpus(vm)
    assert row["state"] == "pending_restart"
    buses = guests.buses(seen.definition(vm, native))
    vgpumgr(vm, "attach", native, "--profile", cases.PF.profile, "--live", "--yes")
    agree(vm, native, row["uuid"])
    assert guests.buses(seen.definition(vm, native)) == buses


def test_without_a_free_port_nothing_is_changed(vm: Vm, native: str) -> None:
    """The first has the only root port that is free."""
    attach(vm, native)
    before = seen.kept(vm)
    second = ("attach", native, "--profile", cases.PF.profile, "--slot", "vgpu1", "--live", "--yes", "-o", "json")
    refused = vgpumgr(vm, *second, code=5)
    assert refused.error["error"] == "NotWhileRunning"
    assert "root ports" in refused.error["message"]
    assert seen.kept(vm) == before


def test_a_virtual_function_is_given_to_a_running_guest_from_libvirt_9_7_on(vm: Vm, native: str) -> None:
    """Older ones would refuse it half way: it is refused before, also where the inventory allows what will not start."""
    before = seen.kept(vm)
    options = ("attach", native, "--profile", cases.VENDOR.profile, "--live", "--yes", "-o", "json")
    if vm.name == DEBIAN12.name:
        refused = vgpumgr(vm, *options, code=5)
        assert refused.error["error"] == "NotWhileRunning"
        assert "needs 9.7 or newer" in refused.error["message"]
        assert seen.kept(vm) == before
        return
    assert vm.name == DEBIAN13.name
    vgpumgr(vm, *options)
    (row,) = vgpus(vm)
    assert (row["state"], row["holder"]) == ("in_use", native)
    assert seen.group(vm, row["vf"]) in seen.open_vfio(vm, native)
    vgpumgr(vm, "detach", native, *FORCED)
    assert nothing_left(vm, native)


KILLS = [
    ("before:plug_hostdev", "before:unplug_hostdev"),
    ("sent:plug_hostdev", "sent:unplug_hostdev"),
    ("after:plug_hostdev", "after:unplug_hostdev"),
    ("after:attach_hostdev", "after:detach_hostdev"),
]


def killed(vm: Vm, at: str, *arguments: str) -> None:
    """The controller dies there; the same command then has to finish what it began."""
    assert vm.start(*arguments, interference={"at": at, "do": "kill"}).wait(240) == -9
    vgpumgr(vm, *arguments)


def test_a_killed_controllers_command_given_again_finishes_it(vm: Vm, native: str) -> None:
    for in_attach, in_detach in KILLS:
        killed(vm, in_attach, "attach", native, "--profile", cases.PF.profile, "--live", "--yes")
        (row,) = vgpus(vm)
        assert row["state"] == "in_use"
        agree(vm, native, row["uuid"])
        killed(vm, in_detach, "detach", native, *FORCED)
        assert nothing_left(vm, native), (in_attach, in_detach)
