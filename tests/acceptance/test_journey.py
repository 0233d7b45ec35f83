"""attach, the same attach again, detach: on each framework, with libvirtd, /sys and nvidia-smi as witnesses.

The journeys are made once per framework; each test then looks at one thing that was seen on the way.
"""

from __future__ import annotations

import xml.etree.ElementTree as ET
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest

from tests.acceptance import domains, truth
from tests.acceptance.command import Ran, vgpumgr, vgpus
from tests.lab_fixtures import FRAMEWORKS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.lab_fixtures import Lab, LabFactory

pytestmark = pytest.mark.lab

HOSTS = {"mdev-pf": "kvm01", "mdev-vf": "kvm02", "vendor-vfio": "kvm03"}
LETTERS = {"mdev-pf": "p", "mdev-vf": "f", "vendor-vfio": "v"}  # their VMs


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """A host and one VM of it at one moment."""

    xml: str
    rows: list[dict[str, Any]]
    hardware: dict[str, tuple[str, int]]
    smi: dict[str, list[str]]
    ledger: list[dict[str, Any]]
    writes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Journey:
    """A VM with a VNC password: before, attached, attached again, detached."""

    framework: str
    before: Seen
    attach: Ran
    attached: Seen
    show: Ran
    again: Ran
    after_again: Seen
    detached: Seen

    @property
    def row(self) -> dict[str, Any]:
        """The one row of `list` while the VM had its vGPU."""
        (row,) = self.attached.rows
        return row

    @property
    def device(self) -> str:
        """What `list` says that the vGPU is: the mdev's UUID, or the VF where it has none."""
        device = self.row["uuid"] or self.row["vf"]
        assert isinstance(device, str)
        return device


@dataclass(frozen=True, slots=True, kw_only=True)
class Site:
    """A host of that framework."""

    lab: Lab
    framework: str

    @property
    def host(self) -> str:
        return HOSTS[self.framework]


@pytest.fixture(scope="module", params=HOSTS)
def site(request: pytest.FixtureRequest, lab_factory: LabFactory) -> Iterator[Site]:
    with lab_factory.lend(FRAMEWORKS, wiped=True) as lab:
        yield Site(lab=lab, framework=str(request.param))


def look(site: Site, vm: str, rows: list[dict[str, Any]] | None = None) -> Seen:
    """Everything at once. `rows` spares a `list` where another command has just printed the same."""
    lab, host = site.lab, site.host
    return Seen(
        xml=domains.dump(lab, host, vm),
        rows=vgpus(lab, host) if rows is None else rows,
        hardware=truth.hardware(lab, host),
        smi=truth.nvidia_smi(lab, host),
        ledger=truth.ledger(lab, host),
        writes=lab.revisions()[host],
    )


@pytest.fixture(scope="module")
def journey(site: Site) -> Journey:
    lab, host, vm = site.lab, site.host, "vnc01"
    domains.define(lab, host, domains.new_vm(vm))
    domains.settle(lab, host, vm)
    before = look(site, vm)
    attach = vgpumgr(lab, "attach", vm, "--profile", "4Q", "--on", host)
    attached = look(site, vm)
    show = vgpumgr(lab, "show", vm, "--on", host)
    again = vgpumgr(lab, "attach", vm, "--profile", "4Q", "--on", host, "-o", "json")
    after_again = look(site, vm, again.document["result"]["vgpus"])
    vgpumgr(lab, "detach", vm, "--on", host, "--yes")
    return Journey(
        framework=site.framework,
        before=before,
        attach=attach,
        attached=attached,
        show=show,
        again=again,
        after_again=after_again,
        detached=look(site, vm),
    )


def test_libvirt_holds_the_very_device_that_list_names(journey: Journey) -> None:
    """`virsh dumpxml --inactive` over plain ssh has one hostdev, with our alias, for the device of `list -o json`."""
    hostdevs = domains.hostdevs(journey.attached.xml)
    assert {alias: domains.device_of(device) for alias, device in hostdevs.items()} == {"ua-vgpu0": journey.device}
    kind = {"vendor-vfio": ("pci", None)}.get(journey.framework, ("mdev", "vfio-pci"))
    assert (hostdevs["ua-vgpu0"].get("type"), hostdevs["ua-vgpu0"].get("model")) == kind
    assert hostdevs["ua-vgpu0"].get("managed") == "no"


def test_list_says_whose_it_is_and_what(journey: Journey) -> None:
    """The row names VM, slot, host, framework, the short type name and the state bound."""
    row = journey.row
    assert (row["vm"], row["slot"], row["host"], row["profile"]) == ("vnc01", "vgpu0", HOSTS[journey.framework], "4Q")
    assert (row["framework"], row["state"], row["origin"], row["holder"]) == (journey.framework, "bound", "ours", None)
    assert row["type_name"] == f"{row['board']}-4Q"
    assert row["framebuffer_mib"] == 4096
    assert (row["uuid"] is None) == (journey.framework == "vendor-vfio")
    assert (row["vf"] is None) == (journey.framework == "mdev-pf")


def test_sysfs_nvidia_smi_and_the_ledger_have_that_vgpu_and_no_other(journey: Journey) -> None:
    """On the parent and of the type that `list` names; before there was nothing. In the ledger it is made, of generation 1."""
    assert journey.before.hardware == {}
    parent = journey.row["vf"] or journey.row["gpu"]
    assert journey.attached.hardware == {journey.device: (parent, journey.row["type_id"])}
    shown = {gpu: types for gpu, types in journey.attached.smi.items() if types}
    assert shown == {journey.row["gpu"]: [journey.row["type_name"]]}
    (entry,) = journey.attached.ledger
    assert (entry["vm_name"], entry["slot"], entry["generation"], entry["state"]) == ("vnc01", "vgpu0", 1, "made")
    assert (entry["uuid"] or entry["parent"]) == journey.device


def test_the_same_attach_again_changes_nothing(journey: Journey) -> None:
    """Exit 0, changed false, no step; /sys was not written to, the ledger and the domain are as they were."""
    document = journey.again.document
    assert (document["changed"], document["outcomes"], document["plan"]) == (False, ["unchanged"], [])
    assert journey.after_again == journey.attached


def test_a_vm_that_libvirt_will_not_start_is_told_so_each_time(journey: Journey) -> None:
    """libvirt 9.0 starts no VM with a VF of vendor-vfio: a warning and exit 0, and `show` keeps saying it."""
    said = [item["text"] for item in journey.again.document["findings"]]
    assert journey.attach.warnings == journey.show.warnings == said
    if journey.framework == "vendor-vfio":
        (text,) = said
        assert text.startswith("vnc01 will not start on libvirt 9.0.0, needs 9.7 or newer")
    else:
        assert said == []


def test_detach_leaves_host_and_list_as_before(journey: Journey) -> None:
    """/sys, nvidia-smi, the ledger and `list` are what they were before attach."""
    assert journey.detached.hardware == journey.before.hardware
    assert journey.detached.smi == journey.before.smi
    assert journey.detached.rows == journey.before.rows == []
    assert journey.detached.ledger == []


def test_detach_leaves_the_domain_equivalent(journey: Journey) -> None:
    """The definition is what it was, with the password that libvirt only tells who asks for it; no guest address changed."""
    domains.assert_equivalent(journey.before.xml, journey.detached.xml)
    for seen in (journey.attached, journey.detached):
        graphics = ET.fromstring(seen.xml).find("devices/graphics")
        assert graphics is not None
        assert graphics.get("passwd") == domains.VNC_PASSWORD


@pytest.mark.parametrize("site", ["vendor-vfio"], indirect=True)  # detach removes a PCI device here, and an mdev below
def test_what_another_client_edits_in_between_survives(site: Site) -> None:
    """Description, foreign metadata and a device that came after our attach are untouched by our detach."""
    lab, host = site.lab, site.host
    vm = f"{LETTERS[site.framework]}2"
    domains.settle(lab, host, vm)
    vgpumgr(lab, "attach", vm, "--profile", "4Q", "--on", host)
    lab.must(host, "virsh", "desc", vm, "--config", "--new-desc", "'kept by another tool'")
    lab.must(host, f"virsh metadata {vm} --config --uri urn:other:1 --key other --set '<backup day=\"mon\"/>'")
    rng = "<rng model='virtio'><backend model='random'>/dev/urandom</backend></rng>"
    lab.must(host, f"cat > /root/rng.xml && virsh attach-device {vm} /root/rng.xml --config", text=rng)
    edited = domains.dump(lab, host, vm)

    vgpumgr(lab, "detach", vm, "--on", host, "--yes")

    after = domains.dump(lab, host, vm)
    domains.assert_equivalent(domains.without_ours(edited), after)
    root = ET.fromstring(after)
    assert root.findtext("description") == "kept by another tool"
    assert root.find("metadata/{urn:other:1}backup") is not None
    assert root.find("devices/rng/address") is not None
    assert domains.hostdevs(after) == {}


@pytest.mark.parametrize("site", ["mdev-vf"], indirect=True)
def test_on_i440fx_the_domain_is_byte_identical(site: Site) -> None:
    """On machine `pc` libvirt leaves nothing behind but an empty <metadata/>."""
    lab, host, vm = site.lab, site.host, "pc01"
    domains.define(lab, host, domains.new_vm(vm, machine="pc"))
    before = domains.settle(lab, host, vm)
    vgpumgr(lab, "attach", vm, "--profile", "4Q", "--on", host)
    assert domains.dump(lab, host, vm) != before

    vgpumgr(lab, "detach", vm, "--on", host, "--yes")

    assert domains.dump(lab, host, vm).replace("  <metadata/>\n", "") == before
