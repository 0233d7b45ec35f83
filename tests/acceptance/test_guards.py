"""What detach refuses, and how it is allowed: in use, several slots, saved images, snapshots, copies, VMs that went away."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.acceptance import domains, truth
from tests.acceptance.command import vgpumgr, vgpus

if TYPE_CHECKING:
    from tests.acceptance.near import Near
    from tests.lab_fixtures import Lab

pytestmark = pytest.mark.lab

HOST = "kvm01"


@pytest.fixture
def given(one_wiped: Lab) -> str:
    """A VM that has a vGPU (slot vgpu0)."""
    vgpumgr(one_wiped, "attach", "vm01", "--profile", "4Q", "--on", HOST)
    return "vm01"


def detach(lab: Lab, vm: str, *more: str) -> None:
    vgpumgr(lab, "detach", vm, "--on", HOST, "--yes", *more)


def refuse(lab: Lab, *arguments: str, code: int, error: str) -> str:
    """Run it with json; it has to be refused, and the hardware and the definition stay as they are. All it said."""
    before = truth.kept(lab, HOST)
    said = vgpumgr(lab, *arguments, "--on", HOST, "--yes", "-o", "json", code=code).error
    assert said["error"] == error
    assert truth.kept(lab, HOST) == before
    return "\n".join([said["message"], *said["details"], said["hint"] or ""])


# Slots


def test_several_slots_want_a_name_or_all(near_host: Near) -> None:
    """Detach of a VM with two slots names them and wants --slot or --all (2); each frees what it names; twice is no change."""
    attach, detach = ("attach", "vm01", "--profile", "4Q"), ("detach", "vm01", "--yes", "-o", "json")
    vgpumgr(near_host, *attach)
    vgpumgr(near_host, *attach, "--slot", "extra")
    before = near_host.trace(HOST)
    refused = vgpumgr(near_host, *detach, code=2).error
    said = "\n".join([refused["message"], *refused["details"], refused["hint"] or ""])
    assert refused["error"] == "UnknownSlot"
    assert all(word in said for word in ("vgpu0", "extra", "--slot", "--all"))
    assert near_host.trace(HOST) == before

    vgpumgr(near_host, *detach, "--slot", "extra")
    assert [row["slot"] for row in vgpus(near_host, HOST)] == ["vgpu0"]
    assert vgpumgr(near_host, *detach, "--slot", "extra").document["outcomes"] == ["unchanged"]

    vgpumgr(near_host, *attach, "--slot", "extra")
    vgpumgr(near_host, *detach, "--all")
    assert near_host.machines[HOST].hardware() == {}
    assert vgpumgr(near_host, *detach, "--all").document["outcomes"] == ["unchanged"]


# What could come back


def test_a_managed_save_image_refuses_attach_and_detach(one_wiped: Lab, given: str) -> None:
    """Its own XML would win at the next start: 5 both ways, and the hint says how to get rid of it; then it works."""
    saved = "vm02"
    one_wiped.must(HOST, f"virsh start {saved} && virsh managedsave {saved}")
    said = refuse(one_wiped, "attach", saved, "--profile", "4Q", code=5, error="SavedImage")
    assert f"virsh managedsave-remove {saved}" in said
    refuse(one_wiped, "detach", saved, code=5, error="SavedImage")
    one_wiped.must(HOST, f"virsh managedsave-remove {saved}")
    vgpumgr(one_wiped, "attach", saved, "--profile", "4Q", "--on", HOST)
    detach(one_wiped, saved)


def test_a_snapshot_that_names_the_device_refuses_detach(one_wiped: Lab, given: str) -> None:
    """5, naming the snapshot; --keep-snapshots frees it all the same, and says which become unusable."""
    _snapshot(one_wiped, given, "before-upgrade")
    said = refuse(one_wiped, "detach", given, code=5, error="NamedInSnapshot")
    assert ("before-upgrade" in said, "--keep-snapshots" in said) == (True, True)
    document = vgpumgr(one_wiped, "detach", given, "--keep-snapshots", "--on", HOST, "--yes", "-o", "json").document
    assert document["changed"]
    (finding,) = document["findings"]
    assert (finding["kind"], "before-upgrade" in finding["text"]) == ("unusable-snapshot", True)


def _snapshot(lab: Lab, vm: str, name: str, definition: str | None = None) -> None:
    """A snapshot of the definition as it is. Redefined, because the lab's VMs have no disk that could be snapshotted."""
    document = (
        f"<domainsnapshot><name>{name}</name><state>shutoff</state><creationTime>1700000000</creationTime>"
        f"<memory snapshot='no'/>{definition or domains.dump(lab, HOST, vm)}</domainsnapshot>"
    )
    lab.must(
        HOST, f"cat > /root/snapshot.xml && virsh snapshot-create {vm} /root/snapshot.xml --redefine", text=document
    )


# Copies and names


def test_a_renamed_vm_keeps_its_vgpu(one_wiped: Lab, given: str) -> None:
    """Identity is the VM's UUID: under a new name the same attach changes nothing, and detach frees it."""
    one_wiped.must(HOST, f"virsh domrename {given} renamed01")
    (row,) = vgpus(one_wiped, HOST)
    assert (row["vm"], row["state"]) == ("renamed01", "bound")
    again = vgpumgr(one_wiped, "attach", "renamed01", "--profile", "4Q", "--on", HOST, "-o", "json").document
    assert not again["changed"]
    detach(one_wiped, "renamed01")


# What is not ours


def test_a_foreign_vgpu_is_listed_and_never_changed(one_wiped: Lab) -> None:
    """One that somebody made by hand: listed as foreign without a VM, in nobody's way, untouched by everything."""
    uuid, parent = "11111111-2222-4333-8444-555555555555", "0000:41:00.4"
    one_wiped.must(HOST, f"echo {uuid} > /sys/bus/pci/devices/{parent}/mdev_supported_types/nvidia-560/create")
    (row,) = vgpus(one_wiped, HOST)
    assert (row["origin"], row["state"], row["uuid"], row["vf"]) == ("foreign", "foreign", uuid, parent)
    assert (row["vm"], row["slot"], row["profile"], row["type_name"]) == (None, None, None, "A40-4Q")

    vgpumgr(one_wiped, "attach", "vm05", "--profile", "4Q", "--on", HOST, "--gpu-id", "0000:41:00.0")
    assert {row["vf"] for row in vgpus(one_wiped, HOST)} == {parent, "0000:41:00.5"}
    error = vgpumgr(
        one_wiped, "attach", "vm06", "--profile", "8Q", "--gpu-id", "0000:41:00.0", "--on", HOST, "-o", "json", code=5
    ).error
    assert "foreign" in error["details"][0]
    detach(one_wiped, "vm05")
    (left,) = vgpus(one_wiped, HOST)
    assert left == row
    assert [write["path"] for write in truth.writes(one_wiped, HOST) if uuid in write["path"]] == []
