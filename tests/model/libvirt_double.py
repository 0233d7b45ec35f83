"""libvirt of one host in this process: domains as XML text, changed as libvirt 9.0 changes them (tried on the real one).

What a person does with virsh is here as methods too: start, stop, managed save, snapshot, revert, clone, redefine.
VMs have some PCI Express root ports; while a VM runs, a device goes into a free one, and out as its guest likes.
"""

from __future__ import annotations

import xml.etree.ElementTree as ET
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Protocol, cast

import libvirt

from vgpumgr.core.model import claims
from vgpumgr.core.model.domain_dumps import DomainDump
from vgpumgr.core.model.domain_xml import read_hostdev, read_hostdevs
from vgpumgr.core.model.guest_ports import free_ports, port_of
from vgpumgr.host.libvirt.binding import LibvirtError
from vgpumgr.host.libvirt.domains import failed
from vgpumgr.host.libvirt.service import Libvirt as Service
from vgpumgr.host.protocol.session import LIBVIRT_REFUSED
from vgpumgr.host.protocol.steps import (
    ATTACH_DEVICE,
    DETACH_DEVICE,
    PLUG_DEVICE,
    SET_METADATA,
    START_DOMAIN,
    UNPLUG_DEVICE,
)
from vgpumgr.host.refusal import Refusal
from vgpumgr.names import HostName, VmName, VmUuid

if TYPE_CHECKING:
    from collections.abc import Callable

    from vgpumgr.core.model.domain_xml import Hostdev
    from vgpumgr.host.protocol.libvirt import DomainFact, LibvirtFact, LibvirtQuery, LibvirtRefusal, SavedFact
    from vgpumgr.host.protocol.steps import DefinitionStep

ET.register_namespace(claims.KEY, claims.NAMESPACE)


@dataclass(slots=True)
class Vm:
    """One domain. `live` and `image` are documents of their own while it runs or lies in a managed-save image."""

    name: VmName
    uuid: VmUuid
    inactive: str
    live: str | None = None
    image: str | None = None
    snapshots: list[tuple[str, str]] = field(default_factory=list)
    past: list[str] = field(default_factory=list)  # earlier definitions, as a backup has them; newest last
    start_failed: bool = False  # it is to start with the host, and its last start failed
    lets_go: bool = True  # whether its guest gives back a device that it is asked for

    @property
    def active(self) -> bool:
        return self.live is not None

    def hostdevs(self, document: str | None = None) -> tuple[Hostdev, ...]:
        """The host devices of its definition, or of another document of its."""
        return read_hostdevs(ET.fromstring(document or self.inactive))

    def documents(self) -> DomainDump:
        return DomainDump(
            name=self.name,
            uuid=self.uuid,
            active=self.active,
            persistent=True,
            managed_save=self.image is not None,
            inactive_xml=self.inactive,
            live_xml=self.live,
            start_failed=self.start_failed,
        )

    def saved(self) -> SavedFact:
        return {
            "uuid": self.uuid,
            "image_xml": self.image,
            "snapshots": [
                {"name": name, "xml": f"<domainsnapshot><name>{name}</name>{xml}</domainsnapshot>"}
                for name, xml in self.snapshots
            ],
            "image_unreadable": None,
            "snapshots_unreadable": None,
        }


_PORT = "<controller type='pci' index='{}' model='pcie-root-port'/>"
_PORTS = "".join(_PORT.format(index) for index in (1, 2))


def _put_at_a_port(tree: ET.Element, devices: ET.Element, element: ET.Element) -> None:
    """At the address that it asks for, at a free port, or at a new one. Raises LibvirtError if another device is there."""
    free = free_ports(tree)
    asked = port_of(element)
    if asked is not None:
        if asked not in free:
            raise LibvirtError(libvirt.VIR_ERR_XML_ERROR, "Attempted double use of PCI Address")
    else:
        ports = {int(each.get("index", "0")) for each in devices.findall("controller")}
        bus = min(free, default=max(ports, default=0) + 1)
        if bus not in ports:
            devices.append(ET.fromstring(_PORT.format(bus)))
        ET.SubElement(element, "address", type="pci", domain="0x0000", bus=f"0x{bus:02x}", slot="0x00", function="0x0")
    devices.append(element)


def _fact(dump: DomainDump) -> DomainFact:
    return cast("DomainFact", asdict(dump))


class Qemu(Protocol):
    """What opens and closes the devices of the VMs that run."""

    def take(self, vm: Vm, key: str) -> bool:
        """The running VM gets the vGPU of that mdev UUID or VF address; False where it is not to be had."""

    def give_back(self, vm: Vm, key: str) -> None: ...


class _NoQemu:
    def take(self, vm: Vm, key: str) -> bool:
        del vm, key
        return False

    def give_back(self, vm: Vm, key: str) -> None:
        del vm, key


class Libvirt:
    """The daemon: what all connections to one host share."""

    def __init__(self, host: str, *, version: int) -> None:
        self.host = HostName(host)
        self.version = version
        self.down = False  # libvirtd was killed, and has not come back
        self.qemu: Qemu = _NoQemu()
        self.vms: dict[VmUuid, Vm] = {}

    # what the host program asks

    def serve(self, at: Callable[[str], None]) -> Service:
        """A connection of one host program; `at` is told where the daemon has made a change and not yet said so."""
        return _Connection(self, at)

    def read(self, query: LibvirtQuery) -> LibvirtFact:
        """The answer to a query."""
        if self.down:
            return failed("closed", "Failed to connect socket to '/run/libvirt/libvirt-sock'", 38)
        vms = sorted(self.vms.values(), key=lambda vm: (vm.name, vm.uuid))
        chosen = [vm for vm in vms if query["only"] is None or vm.uuid in query["only"]]
        return {
            "version": self.version,
            "names": [{"name": vm.name, "uuid": vm.uuid} for vm in vms] if query["names"] else None,
            "domains": [_fact(vm.documents()) for vm in chosen] if query["domains"] else None,
            "saved": [vm.saved() for vm in vms if vm.image is not None or vm.snapshots] if query["saved"] else None,
            "failure": None,
        }

    def find(self, uuid: VmUuid) -> Vm:
        vm = self.vms.get(uuid)
        if vm is None:
            raise LibvirtError(libvirt.VIR_ERR_NO_DOMAIN, "Domain not found")
        return vm

    def set_metadata(self, uuid: VmUuid, xml: str | None, *, key: str, uri: str) -> None:
        """VIR_DOMAIN_METADATA_ELEMENT on the persistent definition: the element of that namespace is put, or goes."""
        vm = self.find(uuid)
        tree = ET.fromstring(vm.inactive)
        metadata = tree.find("metadata")
        if metadata is None:
            metadata = ET.SubElement(tree, "metadata")
        for element in [each for each in metadata if each.tag.startswith(f"{{{uri}}}")]:
            metadata.remove(element)
        if xml is not None:
            element = ET.fromstring(xml)
            if "xmlns" in xml:
                raise LibvirtError(libvirt.VIR_ERR_XML_ERROR, "failed to create a new XML namespace")
            for each in element.iter():
                each.tag = f"{{{uri}}}{each.tag}"
            metadata.append(element)
        assert key == claims.KEY  # the prefix that ET has been told
        vm.inactive = ET.tostring(tree, encoding="unicode")

    def attach_device(self, uuid: VmUuid, xml: str) -> None:
        """Into the persistent definition. Nothing is checked but the alias: equal `ua-` ones are refused, others dropped."""
        vm = self.find(uuid)
        tree = ET.fromstring(vm.inactive)
        devices = tree.find("devices")
        assert devices is not None
        element = ET.fromstring(xml)
        alias = element.find("alias")
        if alias is not None and not alias.get("name", "").startswith("ua-"):
            element.remove(alias)
            alias = None
        if alias is not None:
            taken = {each.get("name") for each in devices.iter("alias")}
            if alias.get("name") in taken:
                raise LibvirtError(libvirt.VIR_ERR_XML_ERROR, "non unique alias detected: " + alias.get("name", ""))
        if element.get("type") == "mdev":
            element.set("managed", "no")
            element.set("display", "off")
        _put_at_a_port(tree, devices, element)
        vm.inactive = ET.tostring(tree, encoding="unicode")

    def plug_device(self, uuid: VmUuid, xml: str) -> None:
        """Into the running VM: opened first, and then in its live document."""
        vm = self.find(uuid)
        if vm.live is None:
            raise LibvirtError(libvirt.VIR_ERR_OPERATION_INVALID, "domain is not running")
        tree = ET.fromstring(vm.live)
        devices = tree.find("devices")
        assert devices is not None
        element = ET.fromstring(xml)
        device = read_hostdev(element)
        assert device is not None
        assert device.port is not None, "vgpumgr always says where it is to be"
        _put_at_a_port(tree, devices, element)
        if not self.qemu.take(vm, str(device.source)):
            raise LibvirtError(libvirt.VIR_ERR_INTERNAL_ERROR, "unable to execute QEMU command 'device_add'")
        vm.live = ET.tostring(tree, encoding="unicode")

    def unplug_device(self, uuid: VmUuid, xml: str) -> None:
        """Out of the running VM, if its guest lets go of it; nobody says so where it does not."""
        vm = self.find(uuid)
        wanted = read_hostdev(ET.fromstring(xml))
        assert wanted is not None
        if vm.live is None:
            raise LibvirtError(libvirt.VIR_ERR_OPERATION_INVALID, "domain is not running")
        tree = ET.fromstring(vm.live)
        devices = tree.find("devices")
        assert devices is not None
        for element in devices.findall("hostdev"):
            device = read_hostdev(element)
            if device is not None and device.source == wanted.source:
                if vm.lets_go:
                    devices.remove(element)
                    self.qemu.give_back(vm, str(device.source))
                    vm.live = ET.tostring(tree, encoding="unicode")
                return
        raise LibvirtError(libvirt.VIR_ERR_DEVICE_MISSING, "device not found in the running domain")

    def start_domain(self, uuid: VmUuid) -> None:
        """The VM runs with all that its definition names, or not at all."""
        vm = self.find(uuid)
        vm.live = vm.inactive
        vm.start_failed = not all(self.qemu.take(vm, str(device.source)) for device in vm.hostdevs())
        if vm.start_failed:
            vm.live = None
            raise LibvirtError(libvirt.VIR_ERR_INTERNAL_ERROR, "qemu unexpectedly closed the monitor")

    def detach_device(self, uuid: VmUuid, xml: str) -> None:
        """Out of the persistent definition: the first one that names the same device, whatever its alias."""
        vm = self.find(uuid)
        wanted = read_hostdev(ET.fromstring(xml))
        assert wanted is not None
        tree = ET.fromstring(vm.inactive)
        devices = tree.find("devices")
        assert devices is not None
        for element in devices.findall("hostdev"):
            device = read_hostdev(element)
            if device is not None and device.source == wanted.source:
                devices.remove(element)
                vm.inactive = ET.tostring(tree, encoding="unicode")
                return
        raise LibvirtError(libvirt.VIR_ERR_DEVICE_MISSING, "device not present in domain configuration")

    # what people do

    def define(self, name: str, uuid: str, *, like: Vm | None = None) -> Vm:
        """A new VM: empty, or as virt-clone makes it, with everything of another one's definition but name and UUID."""
        tree = ET.fromstring(
            like.inactive
            if like
            else f"<domain type='kvm'><name/><uuid/><devices><disk type='file'/>{_PORTS}</devices></domain>"
        )
        for tag, text in (("name", name), ("uuid", uuid)):
            element = tree.find(tag)
            assert element is not None
            element.text = text
        vm = Vm(VmName(name), VmUuid(uuid), ET.tostring(tree, encoding="unicode"))
        self.vms[vm.uuid] = vm
        return vm

    def redefine(self, vm: Vm, *, metadata: bool, hostdevs: bool) -> None:
        """virsh edit or define from an old file: our element, the host devices, or both are not in it any more."""
        tree = ET.fromstring(vm.inactive)
        found, devices = tree.find("metadata"), tree.find("devices")
        assert devices is not None
        if metadata and found is not None:
            tree.remove(found)
        if hostdevs:
            for element in devices.findall("hostdev"):
                devices.remove(element)
        vm.inactive = ET.tostring(tree, encoding="unicode")

    def remember(self) -> None:
        """A backup of every definition that differs from the last one."""
        for vm in self.vms.values():
            if vm.past[-1:] != [vm.inactive]:
                vm.past.append(vm.inactive)

    def lose_running(self) -> None:
        for vm in self.vms.values():
            vm.live = None


class _Connection(Service):
    """What the host program holds in place of its own, which would load the library."""

    def __init__(self, daemon: Libvirt, at: Callable[[str], None]) -> None:
        self._daemon = daemon
        self._at = at

    def begin_reading(self, query: LibvirtQuery) -> Callable[[], LibvirtFact]:
        return lambda: self._daemon.read(query)

    def change(self, step: DefinitionStep, wait_s: float) -> None:
        del wait_s
        self._guard_up(step, begun=False)
        try:
            self._change(step)
        except LibvirtError as error:
            raise _refusal(step, "refused", error, begun=True) from error
        self._at("libvirt: changed")
        self._guard_up(step, begun=True)

    def _change(self, step: DefinitionStep) -> None:
        vm = VmUuid(step["vm_uuid"])
        if step["verb"] == SET_METADATA:
            self._daemon.set_metadata(vm, step["xml"], key=step["key"], uri=step["uri"])
        elif step["verb"] == START_DOMAIN:
            self._daemon.start_domain(vm)
        else:
            changes = {
                ATTACH_DEVICE: self._daemon.attach_device,
                DETACH_DEVICE: self._daemon.detach_device,
                PLUG_DEVICE: self._daemon.plug_device,
                UNPLUG_DEVICE: self._daemon.unplug_device,
            }
            changes[step["verb"]](vm, step["xml"])

    def _guard_up(self, step: DefinitionStep, *, begun: bool) -> None:
        if self._daemon.down:
            raise _refusal(step, "closed", LibvirtError(38, "the connection was lost"), begun=begun)


def _refusal(step: DefinitionStep, why: LibvirtRefusal, error: LibvirtError, *, begun: bool) -> Refusal:
    return Refusal(LIBVIRT_REFUSED, error.message, why=why, code=error.code, verb=step["verb"], begun=begun)
