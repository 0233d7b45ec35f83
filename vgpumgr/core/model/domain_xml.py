"""A domain's XML, read as a tree: its claims and its host devices. It is never rewritten.

A hostdev is ours if its alias is `ua-SLOT`; every other one belongs to someone else.
"""

from __future__ import annotations

import contextlib
import re
import xml.etree.ElementTree as ET
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from vgpumgr import names
from vgpumgr.core.model import claims as claim_values
from vgpumgr.core.model.guest import Guest, read_guest
from vgpumgr.core.model.guest_ports import FreePorts, free_ports, port_of
from vgpumgr.core.model.vgpu import Mdev, Vf
from vgpumgr.errors import BadName
from vgpumgr.names import MdevUuid, PciAddress, Slot

if TYPE_CHECKING:
    from vgpumgr.core.model.domain_dumps import DomainDump, SavedDump
    from vgpumgr.core.model.owners import OwnerPath
    from vgpumgr.core.model.vgpu import Device
    from vgpumgr.names import OwnerName, VmName, VmUuid

_ALIAS = "ua-"
_ARGUMENT = "{http://libvirt.org/schemas/domain/qemu/1.0}arg"
_PASSED = re.compile(r"""\b(?:host|sysfsdev)["']?\s*[=:]\s*["']?([^"',\s}]+)""")
# Each match ends at the first end tag, so that no device is ever taken for part of it: a snapshot holds two domains.
_METADATA = re.compile(r"<metadata>.*?</metadata>", re.DOTALL)


@dataclass(frozen=True, slots=True, kw_only=True)
class Hostdev:
    """A host device that can be a vGPU: `source` is what its <source> names, an mdev or a PCI function.

    `port` is the device's PCI bus in the guest, if the device is on a root port.
    """

    source: Device
    alias: str | None
    managed: bool
    port: int | None = field(default=None, compare=False)

    @property
    def slot(self) -> Slot | None:
        """The slot that the device's alias names, or None if the device is not ours."""
        return Slot(self.alias[len(_ALIAS) :]) if self.alias and self.alias.startswith(_ALIAS) else None


def expected_hostdev(slot: Slot, binding: claim_values.Binding) -> Hostdev:
    """The hostdev for a binding: the mdev by its UUID, or the VF, which stays bound to nvidia, by its address."""
    return Hostdev(source=binding.device, alias=_ALIAS + slot, managed=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Domain:
    """One domain as read. `problem` and `claim_problem` say why a document, or the claim, is unreadable.

    `inactive` is empty for a transient domain; `live` is None for one that is shut off. `arguments`: the devices that
    QEMU arguments name in either document (<qemu:commandline>), which libvirt does not know as devices.
    `other_aliases`: the user-defined aliases of other devices than hostdevs. `guest` is None without an inactive
    definition, `live_guest` for a domain that is shut off, `ports` in both cases. `owner`: as its <metadata> says, if
    that was asked. `start_failed`: it is to start with the host, but its last start failed.
    """

    name: VmName
    uuid: VmUuid
    active: bool
    persistent: bool
    managed_save: bool
    claims: claim_values.ClaimDocument | None
    inactive: tuple[Hostdev, ...]
    live: tuple[Hostdev, ...] | None
    arguments: tuple[Hostdev, ...] = ()
    problem: str | None = None
    claim_problem: str | None = None
    claim_namespace: str = claim_values.NAMESPACE
    other_aliases: frozenset[str] = frozenset()
    guest: Guest | None = None
    live_guest: Guest | None = None
    ports: FreePorts | None = None
    owner: OwnerName | None = field(default=None, compare=False)
    start_failed: bool = False

    def claim(self, slot: Slot) -> claim_values.Claim | None:
        return self.claims.claim(slot) if self.claims else None

    @property
    def waits(self) -> tuple[claim_values.Wait, ...]:
        """The wishes that wait for room. A copy of another VM has none: those that it carries are the other VM's."""
        return () if self.claims is None or self.copied else self.claims.waits

    def wait(self, slot: Slot) -> claim_values.Wait | None:
        return next((wait for wait in self.waits if wait.slot == slot), None)

    @property
    def condition(self) -> str:
        """The domain's state as messages name it."""
        return "running" if self.active else "shut off"

    @property
    def copied(self) -> bool:
        """Whether its claims were written for another domain: it is then a clone, a template's child or a restore."""
        return bool(self.claims) and self.claims is not None and self.claims.vm != self.uuid

    @property
    def mentioned(self) -> tuple[Hostdev, ...]:
        """Every hostdev of either document, and every device that the domain's QEMU arguments name."""
        live = tuple(device for device in self.live or () if device not in self.inactive)
        return self.inactive + live + self.arguments


@dataclass(frozen=True, slots=True, kw_only=True)
class SavedStates:
    """Host devices that could come back: in the managed-save image, and per snapshot (name, devices).

    `image` is None if there is none. A problem says why the image, or some snapshot, could not be read.
    """

    image: tuple[Hostdev, ...] | None = None
    snapshots: tuple[tuple[str, tuple[Hostdev, ...]], ...] = ()
    image_problem: str | None = None
    snapshots_problem: str | None = None


def read_domain(documents: DomainDump, owner_path: OwnerPath | None = None) -> Domain:
    """Interpret a domain's documents. Never raises: `problem` or `claim_problem` names what cannot be read.

    `owner_path`: where the documents name the domain's owner; None: the owner is not read.
    """
    problem = documents.unreadable
    claim_document, claim_problem, claim_namespace = None, None, claim_values.NAMESPACE
    inactive: tuple[Hostdev, ...] = ()
    live: tuple[Hostdev, ...] | None = None
    arguments: tuple[Hostdev, ...] = ()
    other_aliases: frozenset[str] = frozenset()
    guest: Guest | None = None
    live_guest: Guest | None = None
    ports: FreePorts | None = None
    owner: OwnerName | None = None
    try:
        live_tree = _parse(documents.live_xml)[0] if documents.live_xml is not None else None
        if live_tree is not None:
            live = read_hostdevs(live_tree)
            arguments = read_arguments(live_tree)
            live_guest = read_guest(live_tree)
            owner = owner_path.read(live_tree) if owner_path else None
        if documents.inactive_xml is not None:
            tree, claim_problem = _parse(documents.inactive_xml)
            inactive = read_hostdevs(tree)
            arguments = tuple(dict.fromkeys((*read_arguments(tree), *arguments)))
            other_aliases = _other_aliases(tree)
            guest = read_guest(tree)
            owner = owner_path.read(tree) if owner_path else None
            if live_tree is not None:
                ports = FreePorts(live=free_ports(live_tree), inactive=free_ports(tree))
            try:
                claim_document = claim_values.read(tree)
            except claim_values.UnreadableClaim as error:
                claim_problem, claim_namespace = str(error), error.namespace
    except ET.ParseError as error:
        problem = f"its XML cannot be parsed: {error}"
    return Domain(
        name=documents.name,
        uuid=documents.uuid,
        active=documents.active,
        persistent=documents.persistent,
        managed_save=documents.managed_save,
        claims=claim_document,
        inactive=inactive,
        live=live,
        arguments=arguments,
        problem=problem,
        claim_problem=claim_problem,
        claim_namespace=claim_namespace,
        other_aliases=other_aliases,
        guest=guest,
        live_guest=live_guest,
        ports=ports,
        owner=owner,
        start_failed=documents.start_failed,
    )


def _other_aliases(tree: ET.Element) -> frozenset[str]:
    aliases = (device.find("alias") for device in tree.findall("devices/*") if device.tag != "hostdev")
    names_given = (alias.get("name", "") for alias in aliases if alias is not None)
    return frozenset(name for name in names_given if name.startswith(_ALIAS))


def read_saved_states(documents: SavedDump) -> SavedStates:
    """Interpret the managed-save image and the snapshots. Never raises."""
    image: tuple[Hostdev, ...] | None = None
    snapshots: list[tuple[str, tuple[Hostdev, ...]]] = []
    image_problem, snapshots_problem = documents.image_unreadable, documents.snapshots_unreadable
    if documents.image_xml is not None:
        try:
            image = _read_all(_parse(documents.image_xml)[0])
        except ET.ParseError as error:
            image_problem = f"its XML cannot be parsed: {error}"
    for name, xml in documents.snapshots:
        try:
            snapshots.append((name, _read_all(_parse(xml)[0])))
        except ET.ParseError as error:
            snapshots_problem = f"the XML of {name} cannot be parsed: {error}"
    return SavedStates(
        image=image,
        snapshots=tuple(snapshots),
        image_problem=image_problem,
        snapshots_problem=snapshots_problem,
    )


def _parse(xml: str) -> tuple[ET.Element, str | None]:
    """A libvirt document; if its <metadata> makes it unparsable, the rest, and the reason. Raises ParseError.

    libvirt keeps foreign <metadata> verbatim, but not the declarations that it may need: an entity from a DTD stays
    undeclared (seen on 9.0). No device is in <metadata>.
    """
    try:
        return ET.fromstring(xml), None  # noqa: S314 -- libvirtd's own output
    except ET.ParseError as error:
        rest = _METADATA.sub("", xml)
        if rest == xml:
            raise
        return ET.fromstring(rest), f"the VM's <metadata> is not valid XML ({error})"  # noqa: S314 -- as above


def read_hostdevs(tree: ET.Element) -> tuple[Hostdev, ...]:
    """Every mdev and PCI hostdev of a domain, wherever its <devices> is (a snapshot wraps two domains)."""
    hostdevs: list[Hostdev] = []
    for element in tree.iter("hostdev"):
        device = read_hostdev(element)
        if device is not None and device not in hostdevs:
            hostdevs.append(device)
    return tuple(hostdevs)


def read_arguments(tree: ET.Element) -> tuple[Hostdev, ...]:
    """The devices in QEMU arguments: `vfio-pci,host=41:00.0`, `vfio-pci,sysfsdev=/sys/…/UUID`, or the same as JSON."""
    hostdevs: list[Hostdev] = []
    for element in tree.iter(_ARGUMENT):
        text = element.get("value", "")
        if "vfio-pci" not in text:
            continue
        for path in _PASSED.findall(text):
            name = path.rstrip("/").rpartition("/")[2]
            with contextlib.suppress(BadName):
                hostdevs.append(Hostdev(source=Vf(names.parse_pci_address(name)), alias=None, managed=False))
            with contextlib.suppress(BadName):
                source = Mdev(MdevUuid(names.parse_uuid(name)))
                hostdevs.append(Hostdev(source=source, alias=None, managed=False))
    return tuple(dict.fromkeys(hostdevs))


def _read_all(tree: ET.Element) -> tuple[Hostdev, ...]:
    return tuple(dict.fromkeys((*read_hostdevs(tree), *read_arguments(tree))))


def read_hostdev(element: ET.Element) -> Hostdev | None:
    """One <hostdev>; None if it is of another kind (USB, SCSI) or its address cannot be read."""
    address = element.find("source/address")
    alias = element.find("alias")
    if element.get("mode") != "subsystem" or address is None:
        return None
    name = alias.get("name") if alias is not None else None
    managed = element.get("managed") == "yes"
    try:
        match element.get("type"):
            case "mdev":
                uuid = MdevUuid(names.parse_uuid(address.get("uuid", "")))
                return Hostdev(source=Mdev(uuid), alias=name, managed=managed, port=port_of(element))
            case "pci":
                return Hostdev(source=Vf(_pci(address)), alias=name, managed=managed, port=port_of(element))
            case _:
                return None
    except (BadName, ValueError):
        return None


def _pci(address: ET.Element) -> PciAddress:
    parts = [int(address.get(key, "0"), 16) for key in ("domain", "bus", "slot", "function")]
    return names.parse_pci_address("{:04x}:{:02x}:{:02x}.{:x}".format(*parts))
