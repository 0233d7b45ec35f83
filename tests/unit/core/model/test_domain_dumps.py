"""What stands in a domain's XML: rendered by templates, read by core, and the two are inverse to each other."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from dataclasses import replace
from typing import TYPE_CHECKING, TypedDict, Unpack

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.core import builders
from tests.unit.core.law import LAW
from tests.unit.stored_claims import stored_claims
from vgpumgr import templates
from vgpumgr.core.driver import asking, profiles, scheduler
from vgpumgr.core.model import claims, domain_xml, owners
from vgpumgr.core.model.claims import Claim, ClaimDocument
from vgpumgr.core.model.domain_dumps import DomainDump, SavedDump
from vgpumgr.core.model.domain_xml import Hostdev
from vgpumgr.core.model.vgpu import Mdev, Vf
from vgpumgr.core.slot import detach
from vgpumgr.errors import TemplateError
from vgpumgr.names import MdevUuid, OwnerName, PciAddress, Slot, VmName

if TYPE_CHECKING:
    from vgpumgr.core.model.owners import OwnerPath

# What XML 1.0 can carry; attribute values lose nothing but line ends and tabs, which names of people do not hold.
TEXT = st.text(st.characters(exclude_categories=("Cc", "Cs"), exclude_characters="\ufffe\uffff"), max_size=20)
HOSTILE = st.one_of(
    TEXT, st.sampled_from(['"/><evil x="', "a'b", "<&>", "]]>", "{{ 7 }}", "&amp;", "größe@ctl", "\u2028"])
)
SERIES = st.none() | st.sampled_from(profiles.SERIES)
ASKED = st.one_of(
    st.sampled_from(["4Q", "A40-4Q", "NVIDIA A40-4Q", "1-5CME"]).map(builders.wish),
    st.builds(profiles.ByMigProfile, mig_profile=HOSTILE),
    st.builds(profiles.ByMemory, mib=st.integers(1, 10**6), series=SERIES, usable=st.booleans()),
    st.builds(profiles.ByShare, gpu=st.sampled_from(["0.25", "1", "0.000001"]), series=SERIES, usable=st.booleans()),
    st.builds(profiles.ByFgpu, fgpu=st.sampled_from(["0.5", "12", "1000000"]), series=SERIES, usable=st.booleans()),
    st.builds(
        lambda text: profiles.ByOther(asked=(("gpu", "0.25"), ("series", text))),
        HOSTILE.filter(lambda text: text not in profiles.SERIES),
    ),
    st.builds(lambda text: profiles.ByOther(asked=(("hours", text),)), HOSTILE),
)
MDEV = st.uuids().map(lambda value: MdevUuid(str(value)))
PCI = st.builds(
    lambda domain, bus, device, function: PciAddress(f"{domain:04x}:{bus:02x}:{device:02x}.{function}"),
    st.one_of(st.just(0), st.integers(0, 0xFFFF), st.integers(0, 0xFFFFFFFF)),
    st.integers(0, 255),
    st.integers(0, 31),
    st.integers(0, 7),
)
SLOT = st.from_regex(r"[A-Za-z0-9_-]{1,16}", fullmatch=True).map(Slot)
BINDING = st.builds(
    claims.Binding,
    host=HOSTILE,
    gpu_uuid=st.just(builders.gpu_uuid("0000:41:00.0")),
    parent=PCI,
    vf_index=st.none() | st.integers(0, 63),
    type_name=HOSTILE,
    type_id=st.integers(0, 70000),
    uuid=st.none() | MDEV,
)
BINDING = BINDING | st.builds(
    lambda binding, profile, start: replace(binding, mig_profile=profile, mig_start=start),
    BINDING,
    st.sampled_from(["2g.10gb", "1g.24gb+gfx"]),
    st.integers(0, 11),
)
CLAIM = st.builds(
    Claim,
    slot=SLOT,
    generation=st.integers(0, 10**9),
    origin=st.sampled_from(["attach", "inventory"]),
    state=st.sampled_from([claims.PENDING, claims.BOUND, claims.LEAVING]),
    by=HOSTILE,
    at=HOSTILE,
    wish=ASKED,
    binding=BINDING,
    site=st.none() | HOSTILE,
    declared=st.none() | HOSTILE,
    conditions=st.builds(
        asking.Conditions,
        max_waste_pct=st.none() | st.integers(0, 100),
        param=st.none() | st.sampled_from(["enable_uvm=1", "disable_vnc=1,frame_rate_limiter=0"]),
        compute=st.none() | st.sampled_from(scheduler.POLICIES),
        only=st.none() | st.sampled_from(asking.WAYS),
        prefer=st.none() | st.sampled_from(asking.WAYS),
    ),
    grant=st.none()
    | st.builds(
        asking.Grant,
        asked_mib=st.integers(0, 10**6),
        framebuffer_mib=st.integers(0, 10**6),
        guest_mib=st.integers(0, 10**6),
        waste_pct=st.integers(0, 10000).map(lambda hundredths: hundredths / 100),
    ),
)


@st.composite
def documents(draw: st.DrawFn) -> ClaimDocument:
    document = ClaimDocument(vm=builders.vm_uuid("vm01"))
    for claim in draw(st.lists(CLAIM, max_size=4)):
        document = document.put(claim)
    return document


def wrapped(inner: str, *, devices: str = "") -> ET.Element:
    return ET.fromstring(
        f"<domain><name>vm01</name><metadata><x:y xmlns:x='urn:x'/>{inner}</metadata><devices>{devices}</devices></domain>"
    )


@LAW
@given(documents())
def test_claims_read_back_from_the_stored_and_the_passed_form(document: ClaimDocument) -> None:
    assert claims.read(wrapped(stored_claims(document))) == document
    assert claims.read_element(ET.fromstring(templates.render_claims(document))) == document


@LAW
@given(st.uuids(), PCI, SLOT, st.booleans())
def test_hostdevs_of_both_kinds_read_back(uuid: object, pci: PciAddress, slot: Slot, mdev: bool) -> None:
    source = Mdev(MdevUuid(str(uuid))) if mdev else Vf(pci)
    device = Hostdev(source=source, alias=f"ua-{slot}", managed=False)
    element = ET.fromstring(templates.render_hostdev(device))
    assert domain_xml.read_hostdev(element) == device
    assert device.slot == slot


def claim() -> Claim:
    return Claim(
        slot=Slot("vgpu0"),
        generation=1,
        origin="attach",
        state=claims.BOUND,
        by=builders.BY,
        at=builders.AT,
        wish=builders.wish("4Q"),
        binding=builders.binding(),
    )


def document() -> ClaimDocument:
    return ClaimDocument(vm=builders.vm_uuid("vm01"), claims=(claim(),))


STORED = """\
<v:vgpumgr xmlns:v="urn:vgpumgr:domain:2" vm="6d2efb62-0f4b-59b9-a715-dc5271894c83">
  <v:claim slot="vgpu0" generation="1" from="attach" state="bound" by="anna@ctl1" at="2026-11-21T12:00:00Z">
    <v:ask profile="4Q"/>
    <v:binding host="4c4c4544003957108052b4c04f384833" gpu_uuid="GPU-78c17fdf-6a75-55bd-a369-c84051914a51" parent="0000:41:00.4" vf_index="0" type="A40-4Q" type_id="560" uuid="1ddfb5ce-0a64-5612-978e-e86b28662399"/>
  </v:claim>
</v:vgpumgr>"""


def test_the_stored_claim_is_the_designs() -> None:
    assert stored_claims(document()) == STORED


@pytest.mark.parametrize(
    ("found", "what_to_do"),
    [("1", "detach the VM with the vgpumgr that wrote it"), ("3", "use the vgpumgr that wrote it, or a newer one")],
)
def test_another_versions_claim_is_refused_by_name_with_what_to_do(found: str, what_to_do: str) -> None:
    other = STORED.replace("urn:vgpumgr:domain:2", f"urn:vgpumgr:domain:{found}")
    for stored in (other, STORED + other):
        domain = domain_xml.read_domain(documents_of(ET.tostring(wrapped(stored), encoding="unicode")))
        assert domain.claims is None
        assert domain.claim_problem == f"its version is {found}, but this vgpumgr knows 2: {what_to_do}"
        assert f"`virsh metadata vm01 urn:vgpumgr:domain:{found} --config`" in detach.claim_way_out(domain)


MDEV_HOSTDEV = """\
<hostdev mode='subsystem' type='mdev' model='vfio-pci'>
  <source>
    <address uuid='1ddfb5ce-0a64-5612-978e-e86b28662399'/>
  </source>
  <alias name='ua-vgpu0'/>
</hostdev>"""
# Unmanaged, so that it stays bound to nvidia.
VF_HOSTDEV = """\
<hostdev mode='subsystem' type='pci' managed='no'>
  <source>
    <address domain='0x0000' bus='0x41' slot='0x00' function='0x4'/>
  </source>
  <alias name='ua-vgpu0'/>
</hostdev>"""


def test_a_hostdev_is_what_libvirt_wants() -> None:
    binding = builders.binding()
    of_vf = domain_xml.expected_hostdev(Slot("vgpu0"), replace(binding, uuid=None))
    assert templates.render_hostdev(domain_xml.expected_hostdev(Slot("vgpu0"), binding)) == MDEV_HOSTDEV
    assert templates.render_hostdev(of_vf) == VF_HOSTDEV


def test_more_claims_than_libvirt_carries_are_refused() -> None:
    full = ClaimDocument(vm=builders.vm_uuid("vm01"))
    for number in range(60):
        full = full.put(replace(claim(), slot=Slot(f"vgpu{number}")))
    with pytest.raises(TemplateError, match="more than 16384 bytes"):
        templates.render_claims(full)


def test_a_template_that_wants_a_value_it_is_not_given_is_our_error() -> None:
    with pytest.raises(TemplateError, match=r"template hostdev-mdev\.xml\.j2: 'uuid' is undefined"):
        templates._render("hostdev-mdev.xml.j2")


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('slot="vgpu0"', 'slot="vgpu 0"'),
        ('state="bound"', 'state="later"'),
        ('generation="1"', 'generation="one"'),
        (' by="anna@ctl1"', ""),
        ('vm="6d2efb62-0f4b-59b9-a715-dc5271894c83"', 'vm="vm01"'),
        ('profile="4Q"', 'profile=""'),
        ('parent="0000:41:00.4"', 'parent="here"'),
        ('gpu_uuid="GPU-78c17fdf-6a75-55bd-a369-c84051914a51"', 'gpu_uuid="GPU-1"'),
        ("<v:ask", "<v:asked"),
        ('type_id="560"', 'type_id=""'),
        ('from="attach"', 'from="web"'),
        ('type_id="560"', 'type_id="560" mig_profile="2g.10gb"'),
        ('type_id="560"', 'type_id="560" mig_start="2"'),
        ('type_id="560"', 'type_id="560" mig_profile="../x" mig_start="2"'),
        ('type_id="560"', 'type_id="560" mig_profile="2g.10gb" mig_start="x"'),
    ],
)
def test_a_claim_that_is_not_understood_is_said_to_be_so_and_hides_no_device(old: str, new: str) -> None:
    assert old in STORED
    xml = ET.tostring(wrapped(STORED.replace(old, new), devices=MDEV_HOSTDEV), encoding="unicode")
    found = domain_xml.read_domain(documents_of(xml))
    assert found.claims is None
    assert found.claim_problem
    assert found.problem is None
    assert len(found.inactive) == 1


def documents_of(inactive: str | None, live: str | None = None, unreadable: str | None = None) -> DomainDump:
    return DomainDump(
        name=VmName("vm01"),
        uuid=builders.vm_uuid("vm01"),
        active=live is not None,
        persistent=True,
        managed_save=False,
        inactive_xml=inactive,
        live_xml=live,
        unreadable=unreadable,
    )


NOVA = owners.parse_path(owners.EXAMPLE)
IN_NOVA = '<n:instance xmlns:n="http://openstack.org/xmlns/libvirt/nova/1.1"><n:owner>{}</n:owner></n:instance>'


@pytest.mark.parametrize(
    ("path", "metadata", "owner"),
    [
        (NOVA, IN_NOVA.format('<n:project uuid="7">Team A </n:project>'), "Team A"),
        (NOVA, IN_NOVA.format("<project>plain</project>"), "plain"),
        (owners.parse_path(f"{owners.EXAMPLE}/@uuid"), IN_NOVA.format('<n:project uuid="7">Team A</n:project>'), "7"),
        (None, IN_NOVA.format("<n:project>a</n:project>"), None),
        (NOVA, IN_NOVA.format("<n:project>a</n:project><n:project>b</n:project>"), None),
        (NOVA, IN_NOVA.format("<n:project/>"), None),
        (NOVA, IN_NOVA.format("<!-- none -->"), None),
        (NOVA, IN_NOVA.format(f"<n:project>{'x' * 65}</n:project>"), None),
        (NOVA, IN_NOVA.format("<n:project>a\nb</n:project>"), None),
        (NOVA, IN_NOVA.format('<o:project xmlns:o="urn:other">a</o:project>'), None),
        (NOVA, "<instance><owner><project>a</project></owner></instance>", None),
    ],
)
def test_a_vms_owner_is_read_where_the_inventory_says_and_only_if_it_is_one_valid_name(
    path: OwnerPath | None, metadata: str, owner: str | None
) -> None:
    xml = f"<domain><metadata>{metadata}</metadata><devices/></domain>"
    assert domain_xml.read_domain(documents_of(xml), path).owner == owner
    assert domain_xml.read_domain(documents_of(None, xml), path).owner == owner


def test_the_owner_in_the_inventory_wins_over_the_definition_and_that_over_the_host() -> None:
    found = owners.Owners(of_vms={VmName("vm01"): OwnerName("own")}, default=OwnerName("host"))
    said = OwnerName("said")
    assert [found.of(VmName(vm), said) for vm in ("vm01", "vm02")] == ["own", "said"]
    assert [found.of(VmName(vm)) for vm in ("vm01", "vm02")] == ["own", "host"]


def test_unknown_elements_and_attributes_of_a_later_version_are_read_past() -> None:
    later = STORED.replace("<v:ask", '<v:note text="new"/><v:ask').replace('slot="vgpu0"', 'slot="vgpu0" colour="red"')
    later = later.replace("</v:vgpumgr>", "<v:other/></v:vgpumgr>")
    assert claims.read(wrapped(later)) == document()


@pytest.mark.parametrize(
    "xml", ["<domain/>", "<domain><metadata/></domain>", "<domain><metadata><a/></metadata></domain>"]
)
def test_a_domain_without_our_element_has_no_claims(xml: str) -> None:
    assert claims.read(ET.fromstring(xml)) is None


def test_claims_are_one_per_slot_in_the_slots_order() -> None:
    one, other = replace(claim(), slot=Slot("vgpu10")), replace(claim(), slot=Slot("vgpu9"))
    both = ClaimDocument(vm=builders.vm_uuid("vm01")).put(one).put(other)
    assert [item.slot for item in both.claims] == ["vgpu9", "vgpu10"]
    assert both.put(replace(one, generation=2)).claims == (other, replace(one, generation=2))
    assert both.drop(Slot("vgpu9")).claims == (one,)
    assert both.claim(Slot("vgpu1")) is None


def test_every_vgpu_device_of_a_definition_is_found_and_no_other_kind() -> None:
    devices = """
      <hostdev mode='subsystem' type='mdev'><source><address uuid='13EDAC24-1c93-5a0f-93dc-c5a4c1d53ab1'/></source><alias name='ua-vgpu0'/></hostdev>
      <hostdev mode='subsystem' type='pci' managed='yes'><source><address domain='0x10' bus='0x41' slot='0' function='4'/></source><alias name='hostdev0'/></hostdev>
      <hostdev mode='subsystem' type='pci'><source><address domain='0x10000' bus='0xe1' slot='0x00' function='0x4'/></source></hostdev>
      <hostdev mode='subsystem' type='usb'><source><address bus='1' device='2'/></source></hostdev>
      <hostdev mode='capabilities' type='pci'><source><address bus='0x41'/></source></hostdev>
      <hostdev mode='subsystem' type='mdev'><source/></hostdev>
      <hostdev mode='subsystem' type='mdev'><source><address uuid='?'/></source></hostdev>
      <hostdev mode='subsystem' type='pci'><source><address bus='zz'/></source></hostdev>
      <hostdev mode='subsystem' type='mdev'><source><address uuid='13edac24-1c93-5a0f-93dc-c5a4c1d53ab1'/></source><alias name='ua-vgpu0'/></hostdev>
    """
    found = domain_xml.read_hostdevs(wrapped("", devices=devices))
    assert [(device.source, device.managed, device.slot) for device in found] == [
        (Mdev(MdevUuid("13edac24-1c93-5a0f-93dc-c5a4c1d53ab1")), False, "vgpu0"),
        (Vf(PciAddress("0010:41:00.4")), True, None),
        (Vf(PciAddress("10000:e1:00.4")), False, None),
    ]


def test_a_domains_documents_are_read_apart_and_joined() -> None:
    other = templates.render_hostdev(domain_xml.expected_hostdev(Slot("vgpu1"), replace(builders.binding(), uuid=None)))
    inactive = ET.tostring(wrapped(STORED, devices=MDEV_HOSTDEV), encoding="unicode")
    live = ET.tostring(wrapped("", devices=MDEV_HOSTDEV + other), encoding="unicode")
    found = domain_xml.read_domain(documents_of(inactive, live))
    assert found.claims == document()
    assert found.claim(Slot("vgpu0")) == claim()
    assert len(found.inactive) == 1
    assert found.live is not None
    assert len(found.live) == 2
    assert len(found.mentioned) == 2
    assert not found.copied
    transient = domain_xml.read_domain(documents_of(None, live))
    assert (transient.claims, transient.inactive, transient.claim(Slot("vgpu0"))) == (None, (), None)


def test_a_claim_written_for_another_vm_is_a_copy_and_an_empty_document_is_none() -> None:
    theirs = replace(document(), vm=builders.vm_uuid("vm02"))
    assert replace(builders.domain("vm01"), claims=theirs).copied
    assert not replace(builders.domain("vm01"), claims=replace(theirs, claims=())).copied


@pytest.mark.parametrize(
    ("inactive", "live"),
    [
        ("<domain", None),
        ("<domain/>", "<domain"),
        ("<domain>&b;</domain>", None),
        ("<domain><metadata></domain>", None),
    ],
)
def test_xml_that_cannot_be_parsed_is_a_problem_and_no_exception(inactive: str, live: str | None) -> None:
    found = domain_xml.read_domain(documents_of(inactive, live))
    assert found.problem is not None
    assert found.problem.startswith("its XML cannot be parsed")


def saved_documents(**parts: Unpack[SavedParts]) -> SavedDump:
    return SavedDump(uuid=builders.vm_uuid("vm01"), **parts)


class SavedParts(TypedDict, total=False):
    image_xml: str | None
    snapshots: tuple[tuple[str, str], ...]
    image_unreadable: str | None
    snapshots_unreadable: str | None


def test_what_could_not_be_read_stays_a_problem() -> None:
    assert domain_xml.read_domain(documents_of("<domain/>", unreadable="timed out")).problem == "timed out"
    saved = domain_xml.read_saved_states(saved_documents(image_unreadable="timed out", snapshots_unreadable="denied"))
    assert (saved.image_problem, saved.snapshots_problem) == ("timed out", "denied")


def test_a_snapshot_names_the_devices_of_both_domains_in_it() -> None:
    xml = f"<domainsnapshot><domain><devices/></domain><inactiveDomain><devices>{MDEV_HOSTDEV}</devices></inactiveDomain></domainsnapshot>"
    found = domain_xml.read_saved_states(
        saved_documents(image_xml="<domain/>", snapshots=(("s1", xml), ("s2", "<domainsnapshot/>")))
    )
    assert found.image == ()
    assert [(name, [device.slot for device in devices]) for name, devices in found.snapshots] == [
        ("s1", ["vgpu0"]),
        ("s2", []),
    ]


def test_a_snapshot_that_cannot_be_parsed_hides_neither_the_others_nor_the_image() -> None:
    xml = f"<domainsnapshot><domain><devices>{MDEV_HOSTDEV}</devices></domain></domainsnapshot>"
    found = domain_xml.read_saved_states(
        saved_documents(image_xml="<domain", snapshots=(("s1", "<domainsnapshot"), ("s2", xml)))
    )
    assert (found.image, found.image_problem is None) == (None, False)
    assert [(name, len(devices)) for name, devices in found.snapshots] == [("s2", 1)]
    assert found.snapshots_problem is not None
    assert found.snapshots_problem.startswith("the XML of s1 cannot be parsed")
