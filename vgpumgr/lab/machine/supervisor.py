"""One host's supervisor: it builds the host, boots it, and carries out the `lab` commands.

The main thread does all of that, one operation after the other. Other threads are the FUSE thread, which serves /sys,
one that keeps the vGPUs' nodes in /dev in step with the driver, and one per VM with lingering processes (lingering.py).
"""

from __future__ import annotations

import contextlib
import logging
import re
import uuid
from typing import IO, TYPE_CHECKING, Any

from vgpumgr.core.model.snapshot import VENDOR_VFIO
from vgpumgr.errors import LabError, UnknownVm, UsageError
from vgpumgr.lab.driver import answers, ill_host, modprobe
from vgpumgr.lab.driver.addresses import key_of
from vgpumgr.lab.driver.driver import (
    CARD_EXCHANGED,
    CREATE_EIO,
    LATE_VFS,
    NO_VFS,
    OWN_PLACES,
    PLUGIN_WAIT_S,
    UNBIND_LOCK,
    Driver,
)
from vgpumgr.lab.driver.upgrade import read_upgrade
from vgpumgr.lab.machine import (
    capabilities,
    fabric_manager,
    guests,
    holder,
    libvirtd,
    lingering,
    loads,
    logins,
    namespace,
    nvidia,
    plugin,
    sshd,
)
from vgpumgr.lab.machine.machine import Machine
from vgpumgr.lab.machine.root import HostRoot
from vgpumgr.lab.machine.threads import start_thread
from vgpumgr.lab.nvml.state import parse_fault
from vgpumgr.lab.spec import host_state
from vgpumgr.names import nearest

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from vgpumgr.lab.authorities import Authorities
    from vgpumgr.lab.driver.model import Gpu, Vgpu
    from vgpumgr.lab.spec import HostSpec

log = logging.getLogger(__name__)

LIBVIRTD_DOWN = "libvirtd-down"
SSH_REFUSED = "ssh-refused"
SSH_HANG = "ssh-hang"
GARBAGE = "garbage"
# Faults of the host's services; the driver has its own.
SERVICE_FAULTS = (LIBVIRTD_DOWN, SSH_REFUSED, SSH_HANG, GARBAGE)
_FIRMWARE = (ill_host.IOMMU_OFF, ill_host.SRIOV_OFF, ill_host.NO_VGPU_MODULE)
FAULTS = (CREATE_EIO, OWN_PLACES, LATE_VFS, UNBIND_LOCK, NO_VFS, *_FIRMWARE, *SERVICE_FAULTS)
_WITH_ARGUMENTS = (
    "card-exchanged:PCI",
    "unbind-lock:TIMES",
    "bound:FUNCTION:DRIVER",
    "slow-plugin:SECONDS",
    "slow-exit:SECONDS",
    "nvml-down",
    "gpu-lost:PCI",
    "nvml:FUNCTION:CODE[:PCI]",
    "answers:BELIEF:VALUE",
)
_TIMES = re.compile(rf"{UNBIND_LOCK}:[1-9][0-9]?")
_NODES_POLL_S = 5.0


class Supervisor:
    """One host, in `folder` (the lab's hosts/NAME). `pace`: the factor by which its driver's waits are multiplied."""

    def __init__(self, spec: HostSpec, folder: Path, log_file: IO[bytes], *, pace: float = 1.0) -> None:
        self._spec = spec
        self._pace = pace
        self._folder = folder
        self._root = HostRoot(folder=folder)
        self._driver = Driver(
            host_state(spec, boot_id=str(uuid.uuid4())), plugin_wait_s=pace * PLUGIN_WAIT_S, log=self._root.log
        )
        self._machine = Machine(self._root.path, log_file)
        self._lingering = lingering.Lingering(machine=self._machine, driver=self._driver)
        self._reserved = sshd.reserve_port()
        self._authorized_key = ""
        self._service_faults: set[str] = set()
        self.ended = False

    @property
    def port(self) -> int:
        port: int = self._reserved.getsockname()[1]
        return port

    # the host's life

    def build(self, *, library: Path, answers: Path, authorized_key: str, authorities: Authorities) -> str:
        """Install the host on its fresh disk and create its first vGPUs; return the public host key.

        `answers`: the folder in which earlier hosts left QEMU's capabilities (capabilities.py).
        """
        namespace.set_host_name(self._spec.name)
        self._root.build(name=self._spec.name, machine_id=self._spec.machine_id)
        nvidia.serve(self._driver, self._root.path / "sys", self._folder / "writes.jsonl")
        self._root.bind_real_sys()
        if not self._spec.is_jump:
            nvidia.install(self._root, library)
            fabric_manager.install(self._root, self._spec.fabric)
            libvirtd.install(self._root)
            capabilities.give(self._root, answers)
        self._authorized_key = authorized_key
        logins.install(self._root, authorized_key)
        public = sshd.install(self._root, port=self.port, name=self._spec.name, authorities=authorities)
        self._driver.make_foreign()
        start_thread("nodes", self._follow_driver)
        return public

    def boot(self) -> None:
        """Boot the host; returns when it answers over ssh and libvirt."""
        self._driver.load_module(modprobe.read(self._root.path / "etc/modprobe.d"))
        self._root.mount_for_boot()
        if self._pace != 1:
            self._root.write(*_say_pace(self._pace))
        with self._driver.reading() as state:
            boot_id = state.boot_id
        self._machine.power_on(boot_id)
        self._sync_nodes()
        self._start_services()
        fabric_manager.start(self._machine, self._spec.fabric)
        log.info("%s is up, boot %s, port %d", self._spec.name, boot_id, self.port)

    def define_vms(self, *, answers: Path) -> None:
        """Define the VMs once, after the first boot; from then on the definitions are on the host's disk.

        By then libvirtd has learned QEMU's capabilities; they are kept in the folder `answers` for later hosts.
        """
        foreign = {item.vm: item for item in self._spec.foreign if item.vm is not None}
        documents = [libvirtd.domain_xml(vm, foreign=foreign.get(vm.name)) for vm in self._spec.vms]
        if documents:  # a jump host has neither VMs nor libvirt
            libvirtd.define(self._machine, documents)
        capabilities.keep(self._root, answers)

    def power_off(self) -> None:
        self._machine.kill()
        self._driver.close()
        self._machine.wait_off()

    # what the commands ask for

    def handle(self, request: dict[str, Any]) -> dict[str, Any]:
        match request.get("do"):
            case "status":
                return self._status()
            case "reboot":
                return self._reboot(request)
            case "vms":
                return {"vms": [] if self._spec.is_jump else libvirtd.vm_names(self._machine)}
            case "start":
                return self._start(str(request["vm"]))
            case "hold":
                return self._hold(str(request["vm"]), unseen=bool(request.get("unseen")))
            case "load":
                guest = self._guest(str(request["vm"]))
                return {"loads": loads.put(self._driver, guest, request)}
            case "guest":
                guest = self._guest(str(request["vm"]))
                return {"devices": guests.put(self._driver, guest, request)}
            case "release":
                return self._release(str(request["vm"]))
            case "fault":
                return self._fault(str(request["name"]))
            case "clear":
                return self._clear()
            case "reload":
                return self._reload()
            case "writes":
                writes = nvidia.read_writes(self._folder / "writes.jsonl")
                return {"writes": writes[int(request.get("since", 0)) :], "revision": len(writes)}
            case "shutdown":
                self.power_off()
                self.ended = True
                return {}
            case other:
                raise UsageError(f"no such operation: {other!r}")

    def _status(self) -> dict[str, Any]:
        with self._driver.reading() as state:
            vgpus = [vgpu for gpu in state.gpus for vgpu in gpu.vgpus]
            return {
                "name": state.name,
                "port": self.port,
                "machine_id": state.machine_id,
                "boot_id": state.boot_id,
                "driver_version": state.driver_version,
                "gpus": [f"{gpu.board.code} {gpu.pci}" for gpu in state.gpus],
                "vgpus": len(vgpus),
                "held": sorted({vgpu.holder_name for vgpu in vgpus if vgpu.holder_name}),
                "lost": [
                    f"{vgpu.type.name.split()[-1]} {key_of(gpu, vgpu)}" for gpu in state.gpus for vgpu in gpu.lost
                ],
                "loads": loads.of_host(state),
                "faults": sorted(state.faults | self._service_faults),
                "first_process": self._machine.first_process,
            }

    def _reboot(self, request: dict[str, Any]) -> dict[str, Any]:
        with self._driver.reading() as state:
            upgrade = read_upgrade(request, state)
        self._lingering.end_all()
        self._machine.kill()
        self._driver.reboot(str(uuid.uuid4()), upgrade)  # also ends the waits of writes to /sys
        self._machine.wait_off()
        self._service_faults &= {GARBAGE}  # that one is on the disk
        self.boot()
        return {}

    def _reload(self) -> dict[str, Any]:
        try:
            self._driver.reload()
        except OSError as error:
            raise LabError(f"the driver cannot be reloaded: {error.strerror}") from error
        return {}

    def _hold(self, name: str, *, unseen: bool) -> dict[str, Any]:
        guest = self._guest(name)
        vgpus = self._vgpus(guest)
        if not vgpus:
            raise UsageError(f"{name} has no vGPU that it could hold", hint=f"vgpumgr attach {name} --profile …")
        nodes = [node for gpu, vgpu in vgpus.values() for node in vfio_nodes(gpu, vgpu)]
        with self._taking(guest, vgpus, "hold its vGPU"):
            pid = None if unseen else holder.start(self._machine, guest, nodes)
            if not unseen:
                plugin.start(self._machine, [vgpu.number for _, vgpu in vgpus.values()])
        return {"pid": pid, "devices": list(vgpus), "nodes": [f"/dev/vfio/{node}" for node in nodes]}

    def _start(self, name: str) -> dict[str, Any]:
        guest = self._guest(name)
        if libvirtd.runs(self._machine, name) or holder.is_running(self._machine, guest.uuid):
            raise LabError(f"{name} already runs", hint=f"vgpumgr lab stop {name}")
        vgpus = self._vgpus(guest)
        document = libvirtd.inactive_xml(self._machine, name)
        with self._taking(guest, vgpus, "start"):
            libvirtd.start_guest(self._machine, document)
            plugin.start(self._machine, [vgpu.number for _, vgpu in vgpus.values()])
        return {"devices": list(vgpus)}

    def _vgpus(self, guest: holder.Guest) -> dict[str, tuple[Gpu, Vgpu]]:
        """The vGPUs that the guest's definition names, by device. Raises LabError if one does not exist."""
        vgpus = {device: vgpu for device in guest.devices if (vgpu := self._driver.find(device)) is not None}
        lost = [device for device in guest.devices if device not in vgpus]
        if lost:
            raise LabError(f"{guest.name} cannot start: its definition names {', '.join(lost)}, which does not exist")
        return vgpus

    @contextlib.contextmanager
    def _taking(self, guest: holder.Guest, devices: Iterable[str], what: str) -> Iterator[None]:
        """The driver gives the guest these vGPUs, and takes them back if what follows fails."""
        try:
            for device in devices:
                self._driver.hold(device, guest.uuid, guest.name)
            self._sync_nodes()
            yield
        except (OSError, LabError) as error:
            if not holder.is_running(self._machine, guest.uuid) and not libvirtd.runs(self._machine, guest.name):
                self._driver.release(guest.uuid)
            if isinstance(error, LabError):
                raise
            raise LabError(f"{guest.name} cannot {what}: {error.strerror}") from error

    def _release(self, name: str) -> dict[str, Any]:
        guest = self._guest(name)
        with self._driver.reading() as state:
            faults = frozenset(state.faults)
            vgpus = [vgpu for gpu in state.gpus for vgpu in gpu.vgpus if vgpu.holder_uuid == guest.uuid]
        has_holder = holder.is_running(self._machine, guest.uuid)
        destroyed = libvirtd.destroy(self._machine, name)
        ended = (has_holder or (destroyed and bool(vgpus))) and not any(vgpu.exiting for vgpu in vgpus)
        if ended:
            self._lingering.stop(
                guest.uuid,
                vgpus,
                exit_s=lingering.seconds(faults, lingering.SLOW_EXIT),
                plugin_s=lingering.seconds(faults, lingering.SLOW_PLUGIN),
            )
        elif not any(vgpu.exiting for vgpu in vgpus):  # a guest that ended without `lab stop`, perhaps
            plugin.stop(self._machine, [vgpu.number for vgpu in vgpus])
            self._driver.release(guest.uuid)
        return {"ended": ended or destroyed}

    def _guest(self, name: str) -> holder.Guest:
        names = libvirtd.vm_names(self._machine)
        if name not in names:
            near = nearest(name, names)
            raise UnknownVm(f"no VM {name!r}", hint=f"did you mean {near}?" if near else None, details=names)
        return holder.read_guest(libvirtd.inactive_xml(self._machine, name))

    def _fault(self, name: str) -> dict[str, Any]:
        match name:
            case "libvirtd-down":
                libvirtd.stop(self._machine)
            case "ssh-refused":
                sshd.stop(self._machine)
            case "ssh-hang":
                sshd.freeze(self._machine)
            case "garbage":
                logins.authorize(self._root, self._authorized_key, command=sshd.NOISE)
            case _ if slow := lingering.parse_fault(name):
                self._driver.set_fault(name, instead_of=f"{slow[0]}:")
            case _ if _TIMES.fullmatch(name):
                self._driver.set_fault(name, instead_of=UNBIND_LOCK)
            case _ if (
                name in FAULTS
                or parse_fault(name) is not None
                or answers.is_answer(name)
                or self._is_exchange(name)
                or ill_host.is_bound(name)
            ):
                self._driver.set_fault(name)
            case _:
                near = nearest(name, FAULTS)
                raise UsageError(
                    f"no such fault: {name!r}; there are {', '.join((*FAULTS, *_WITH_ARGUMENTS))}",
                    hint=f"did you mean {near}?" if near else None,
                )
        if name in SERVICE_FAULTS:
            self._service_faults.add(name)
        return {}

    def _is_exchange(self, name: str) -> bool:
        kind, _, pci = name.partition(":")
        return kind == CARD_EXCHANGED and self._driver.has_slot(pci)

    def _clear(self) -> dict[str, Any]:
        self._driver.clear_faults()
        self._lingering.end_all()
        self._service_faults.clear()
        logins.authorize(self._root, self._authorized_key)
        sshd.thaw(self._machine)
        self._start_services()
        return {}

    def _start_services(self) -> None:
        if self._spec.is_jump:
            sshd.start(self._machine, log=sshd.LOG)
        else:
            sshd.start(self._machine)
            libvirtd.start(self._machine)
        sshd.wait_banner(self.port)

    # /dev

    def _follow_driver(self) -> None:
        """Do udev's work: device nodes come and go with the devices. Ends with the process."""
        revision = -1
        while True:
            revision = self._driver.wait_change(revision, _NODES_POLL_S)
            with contextlib.suppress(OSError):  # the host is off right now; boot() does it again
                self._sync_nodes()

    def _sync_nodes(self) -> None:
        with self._driver.reading() as state:
            vgpus = [(gpu, vgpu) for gpu in state.gpus for vgpu in gpu.vgpus]
            nodes = {f"vfio/{node}" for gpu, vgpu in vgpus for node in vfio_nodes(gpu, vgpu)}
            nodes |= {plugin.node(vgpu.number) for _, vgpu in vgpus if vgpu.plugin}
            present = self._root.device_nodes()
            for node in nodes - present:
                self._root.make_node(node)
            for node in present - nodes:
                self._root.remove_node(node)


def vfio_nodes(gpu: Gpu, vgpu: Vgpu) -> list[str]:
    """The names below /dev/vfio that a holder of this vGPU has open: its IOMMU group, and a VF's own device as well."""
    nodes = [str(vgpu.group)]
    if gpu.framework == VENDOR_VFIO and vgpu.vf is not None:
        nodes.append(f"devices/vfio{gpu.first_vfio + vgpu.vf}")
    return nodes


def _say_pace(pace: float) -> tuple[str, str]:
    """The path and text of the file from which the host program has its driver's pace (vgpumgr/host/timing.py)."""
    return "run/vgpumgr-rehearsal/pace", f"this host's GPU driver is imitated, at the pace {pace:g}\n"
