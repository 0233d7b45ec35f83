"""What detach refuses, and how it is allowed: in use, several slots, saved images, snapshots, copies, VMs that went away."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
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
def vf_lab(one_wiped: Lab) -> Lab:
    """kvm01, which each test leaves as it likes."""
    return one_wiped


@pytest.fixture
def given(vf_lab: Lab) -> str:
    """A VM that has a vGPU (slot vgpu0)."""
    vgpumgr(vf_lab, "attach", "vm01", "--profile", "4Q", "--on", HOST)
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


# In use


def test_what_is_held_is_not_taken_away(vf_lab: Lab, given: str) -> None:
    """While something has the vGPU open detach is refused (5) and names it; `list` says in_use and by whom; then it goes."""
    vf_lab.control(HOST, "hold", vm=given)
    (row,) = vgpus(vf_lab, HOST)
    assert (row["state"], row["holder"]) == ("in_use", given)
    said = refuse(vf_lab, "detach", given, code=5, error="InUse")
    assert f"VM {given} holds /dev/vfio/" in said
    assert f"shut {given} down" in said
    refuse(vf_lab, "attach", given, "--profile", "8Q", "--replace", code=5, error="InUse")

    vf_lab.control(HOST, "release", vm=given)
    detach(vf_lab, given)


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


def test_a_managed_save_image_refuses_attach_and_detach(vf_lab: Lab, given: str) -> None:
    """Its own XML would win at the next start: 5 both ways, and the hint says how to get rid of it; then it works."""
    saved = "vm02"
    vf_lab.must(HOST, f"virsh start {saved} && virsh managedsave {saved}")
    said = refuse(vf_lab, "attach", saved, "--profile", "4Q", code=5, error="SavedImage")
    assert f"virsh managedsave-remove {saved}" in said
    refuse(vf_lab, "detach", saved, code=5, error="SavedImage")
    vf_lab.must(HOST, f"virsh managedsave-remove {saved}")
    vgpumgr(vf_lab, "attach", saved, "--profile", "4Q", "--on", HOST)
    detach(vf_lab, saved)


def test_a_vm_saved_with_its_vgpu_keeps_it(vf_lab: Lab, given: str) -> None:
    """A VM that was saved while it had a vGPU in its definition: detach is refused until the image is gone."""
    detach(vf_lab, given)
    vf_lab.must(HOST, f"virsh start {given}")
    vgpumgr(vf_lab, "attach", given, "--profile", "4Q", "--on", HOST)
    (row,) = vgpus(vf_lab, HOST)
    assert row["state"] == "pending_restart"
    vf_lab.must(HOST, f"virsh managedsave {given}")
    refuse(vf_lab, "detach", given, code=5, error="SavedImage")


def test_a_snapshot_that_names_the_device_refuses_detach(vf_lab: Lab, given: str) -> None:
    """5, naming the snapshot; --keep-snapshots frees it all the same, and says which become unusable."""
    _snapshot(vf_lab, given, "before-upgrade")
    said = refuse(vf_lab, "detach", given, code=5, error="NamedInSnapshot")
    assert ("before-upgrade" in said, "--keep-snapshots" in said) == (True, True)
    document = vgpumgr(vf_lab, "detach", given, "--keep-snapshots", "--on", HOST, "--yes", "-o", "json").document
    assert document["changed"]
    (finding,) = document["findings"]
    assert (finding["kind"], "before-upgrade" in finding["text"]) == ("unusable-snapshot", True)


def test_another_vms_snapshot_that_names_the_device_refuses_detach(vf_lab: Lab, given: str) -> None:
    """A VM had the vGPU once, and has it no more but in a snapshot: 5, naming both; --keep-snapshots says it, too."""
    other = "vm02"
    bare = domains.dump(vf_lab, HOST, other)
    hostdev = ET.tostring(domains.hostdevs(domains.dump(vf_lab, HOST, given))["ua-vgpu0"], encoding="unicode")
    had = bare.replace("</devices>", f"{hostdev}</devices>")
    _snapshot(vf_lab, other, "before-upgrade", had)
    plan = vgpumgr(vf_lab, "detach", given, "--on", HOST, "--check", "-o", "json", code=5).error
    assert plan["error"] == "NamedInSnapshot"
    said = refuse(vf_lab, "detach", given, code=5, error="NamedInSnapshot")
    assert f"snapshots of {other} (before-upgrade)" in said
    refuse(vf_lab, "attach", given, "--profile", "8Q", "--replace", code=5, error="NamedInSnapshot")

    document = vgpumgr(vf_lab, "detach", given, "--keep-snapshots", "--on", HOST, "--yes", "-o", "json").document
    (finding,) = document["findings"]
    assert (finding["kind"], finding["vm"]) == ("unusable-snapshot", other)


def test_another_vms_managed_save_image_that_names_the_device_holds_it(vf_lab: Lab, given: str) -> None:
    """It wins at that VM's next start, so the vGPU is in use (5) whatever the definitions say; --keep-snapshots is no way past."""
    other = "vm02"
    hostdev = ET.tostring(domains.hostdevs(domains.dump(vf_lab, HOST, given))["ua-vgpu0"], encoding="unicode")
    vf_lab.must(HOST, f"virsh start {other} && virsh managedsave {other}")
    vgpumgr(vf_lab, "detach", given, "--on", HOST, "--check", code=3)  # an image without it is in nobody's way
    image = f"/var/lib/libvirt/qemu/save/{other}.save"
    vf_lab.must(HOST, "python3", "-I", "-", image, text=f"HOSTDEV = {hostdev.encode()!r}\n{_PUT_INTO_IMAGE}")
    said = refuse(vf_lab, "detach", given, "--keep-snapshots", code=5, error="InUse")
    assert f"VM {other} has it in its managed-save image" in said


# libvirt itself takes no device into an image, and the lab's QEMU cannot start with one. The file's header: 16 letters, the
# version, the length of XML and cookie, was running, compressed, the cookie's offset; each of the numbers 32 bits.
_PUT_INTO_IMAGE = """
import struct, sys
from pathlib import Path
image = Path(sys.argv[1])
data = image.read_bytes()
version, length, running, compressed, cookie = struct.unpack_from("=5I", data, 16)
at = data.index(b"</devices>")
assert data.startswith(b"LibvirtQemudSave") and at < length
header = struct.pack("=5I", version, length + len(HOSTDEV), running, compressed, cookie + len(HOSTDEV) if cookie else 0)
image.write_bytes(data[:16] + header + data[36:at] + HOSTDEV + data[at:])
"""


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


def test_a_clone_is_found_as_copied_and_its_detach_spares_the_original(vf_lab: Lab, given: str) -> None:
    """A copied definition carries our claim: `list` says copied, attach to it is refused, its detach cleans it alone."""
    clone = "clone01"
    original = domains.dump(vf_lab, HOST, given)
    copy = re.sub(r"\s*<uuid>.*?</uuid>", "", original).replace(f"<name>{given}</name>", f"<name>{clone}</name>")
    domains.define(vf_lab, HOST, copy)
    before = truth.hardware(vf_lab, HOST), truth.ledger(vf_lab, HOST)

    findings = vgpumgr(vf_lab, "list", HOST, "-o", "json").document["findings"]
    assert [(finding["kind"], finding["vm"]) for finding in findings] == [("copied", clone), ("shared", given)]
    refuse(vf_lab, "attach", clone, "--profile", "4Q", code=5, error="ConflictingClaim")
    refuse(vf_lab, "detach", given, code=5, error="InUse")

    detach(vf_lab, clone)
    assert (truth.hardware(vf_lab, HOST), truth.ledger(vf_lab, HOST)) == before
    assert domains.dump(vf_lab, HOST, given) == original
    cleaned = domains.dump(vf_lab, HOST, clone)
    assert (domains.hostdevs(cleaned), domains.claim_states(cleaned)) == ({}, {})
    vgpumgr(vf_lab, "attach", clone, "--profile", "4Q", "--on", HOST)
    detach(vf_lab, clone)


def test_a_renamed_vm_keeps_its_vgpu(vf_lab: Lab, given: str) -> None:
    """Identity is the VM's UUID: under a new name the same attach changes nothing, and detach frees it."""
    vf_lab.must(HOST, f"virsh domrename {given} renamed01")
    (row,) = vgpus(vf_lab, HOST)
    assert (row["vm"], row["state"]) == ("renamed01", "bound")
    again = vgpumgr(vf_lab, "attach", "renamed01", "--profile", "4Q", "--on", HOST, "-o", "json").document
    assert not again["changed"]
    detach(vf_lab, "renamed01")


def test_an_undefined_vm_leaves_a_lost_vgpu_that_comes_back_with_it(vf_lab: Lab, given: str) -> None:
    """`list` says lost and never frees it; defined again, with or without its claim, detach frees it."""
    document = domains.dump(vf_lab, HOST, given)
    vf_lab.must(HOST, f"virsh undefine {given}")
    listed = vgpumgr(vf_lab, "list", HOST, "-o", "json").document
    (row,) = listed["vgpus"]
    assert (row["vm"], row["state"], row["origin"]) == (given, "lost", "ours")
    assert [finding["kind"] for finding in listed["findings"]] == ["lost"]
    assert len(truth.hardware(vf_lab, HOST)) == 1

    domains.define(vf_lab, HOST, domains.without_ours(document))
    (row,) = vgpus(vf_lab, HOST)
    assert row["state"] == "lost"
    detach(vf_lab, given)
    assert truth.ledger(vf_lab, HOST) == []


# What is not ours


def test_a_foreign_vgpu_is_listed_and_never_changed(vf_lab: Lab) -> None:
    """One that somebody made by hand: listed as foreign without a VM, in nobody's way, untouched by everything."""
    uuid, parent = "11111111-2222-4333-8444-555555555555", "0000:41:00.4"
    vf_lab.must(HOST, f"echo {uuid} > /sys/bus/pci/devices/{parent}/mdev_supported_types/nvidia-560/create")
    (row,) = vgpus(vf_lab, HOST)
    assert (row["origin"], row["state"], row["uuid"], row["vf"]) == ("foreign", "foreign", uuid, parent)
    assert (row["vm"], row["slot"], row["profile"], row["type_name"]) == (None, None, None, "A40-4Q")

    vgpumgr(vf_lab, "attach", "vm05", "--profile", "4Q", "--on", HOST, "--gpu-id", "0000:41:00.0")
    assert {row["vf"] for row in vgpus(vf_lab, HOST)} == {parent, "0000:41:00.5"}
    error = vgpumgr(
        vf_lab, "attach", "vm06", "--profile", "8Q", "--gpu-id", "0000:41:00.0", "--on", HOST, "-o", "json", code=5
    ).error
    assert "foreign" in error["details"][0]
    detach(vf_lab, "vm05")
    (left,) = vgpus(vf_lab, HOST)
    assert left == row
    assert [write["path"] for write in truth.writes(vf_lab, HOST) if uuid in write["path"]] == []
