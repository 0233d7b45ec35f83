"""Hosts in this process's memory, to measure what many of them cost the controller: no SSH, no lab, no files.

Below link/host.py everything is a stand-in: a step changes the host's facts as core.simulate predicts, and libvirt is
the model's, whose documents are XML text. The controller's own work is real: reading documents, planning, threads, the
journal. The stand-ins' own time is counted beside it.
"""

from __future__ import annotations

import threading
import time
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from tests.model.libvirt_double import Libvirt
from tests.unit.core import builders
from vgpumgr.core import simulate
from vgpumgr.core.inventory import HostDeclaration, Inventory, Location, SlotDeclaration, VmDeclaration
from vgpumgr.core.model.domain_dumps import LibvirtDump
from vgpumgr.core.model.endpoint import Endpoint
from vgpumgr.core.model.view import HostView
from vgpumgr.link.host import Host, Locked, Observed, StepResult
from vgpumgr.names import DEFAULT_SLOT, HostName, VmName

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from vgpumgr.core.model.snapshot import Gpu
    from vgpumgr.core.step import HostStep
    from vgpumgr.link.domain_query import DomainQuery
    from vgpumgr.names import VmUuid

GPUS = ("0000:41:00.0", "0000:81:00.0")
PROFILE = "2Q"
WHERE = Location(file="hosts.yml", line=1)


@dataclass(slots=True)
class Spent:
    """What the stand-ins took, in all threads: seconds of CPU, and calls."""

    seconds: float = 0.0
    calls: dict[str, int] = field(default_factory=dict)
    _turn: threading.Lock = field(default_factory=threading.Lock)

    @contextmanager
    def on(self, what: str) -> Iterator[None]:
        began = time.thread_time()
        try:
            yield
        finally:
            with self._turn:
                self.seconds += time.thread_time() - began
                self.calls[what] = self.calls.get(what, 0) + 1


class MemoryHost:
    """One host: its facts and its libvirt, which stay from one connection to the next."""

    def __init__(self, name: str, vms: int, spent: Spent) -> None:
        self.name = HostName(name)
        self.spent = spent
        self.snapshot = replace(builders.host(*map(_gpu, GPUS), vms=0).snapshot, host=self.name)
        self.libvirt = Libvirt(name, version=10_000_000)
        for number in range(1, vms + 1):
            vm = f"{name}-vm{number:03}"
            self.libvirt.define(vm, builders.vm_uuid(vm))

    @property
    def declaration(self) -> HostDeclaration:
        """The host's declaration: a vGPU for each of its VMs."""
        wish = builders.wish(PROFILE)
        slots = {DEFAULT_SLOT: SlotDeclaration(slot=DEFAULT_SLOT, wish=wish, where=WHERE)}
        names = sorted(vm.name for vm in self.libvirt.vms.values())
        return HostDeclaration(
            name=self.name,
            endpoint=Endpoint(
                host=self.name, address=self.name, port=22, user="root", key_file=None, known_hosts="known_hosts"
            ),
            fgpu_per_gpu={},
            gpus=(),
            vms={VmName(vm): VmDeclaration(name=VmName(vm), slots=slots, where=WHERE) for vm in names},
            where=WHERE,
        )


def _gpu(pci: str) -> Gpu:
    return builders.gpu(pci=pci)


def inventory(hosts: Sequence[MemoryHost]) -> Inventory:
    """The inventory that declares these hosts."""
    return Inventory(root="inventory", hosts={host.name: host.declaration for host in hosts}, findings=())


class MemoryLink(Host):
    """A connection to one host in memory."""

    def __init__(self, at: MemoryHost) -> None:
        self.host = at.name
        self._at = at

    def observe(self, query: DomainQuery | None = None, *, wait_s: float) -> Observed:
        del wait_s
        with self._at.spent.on("observe"):
            return Observed(snapshot=self._at.snapshot, read=self._dump(query))

    def lock(self, query: DomainQuery | None = None, *, by: str, wait_s: float) -> Locked:
        del by, wait_s
        with self._at.spent.on("lock"):
            return Locked(snapshot=self._at.snapshot, read=self._dump(query), unwritable=None)

    def _dump(self, query: DomainQuery | None) -> LibvirtDump | None:
        if query is None:
            return None
        vms = sorted(self._at.libvirt.vms.values(), key=lambda vm: vm.name)
        return LibvirtDump(
            version=self._at.libvirt.version,
            domains=tuple(vm.documents() for vm in vms if query.only is None or vm.uuid in query.only),
            saved=() if query.saved else None,
        )

    def execute(self, step: HostStep) -> StepResult:
        with self._at.spent.on("execute"):
            view = HostView(snapshot=self._at.snapshot, domains=(), libvirt_version=10_000_000)
            self._at.snapshot = simulate.apply_one(view, step).snapshot
        return StepResult(note=None, scheduler=None)

    def unlock(self, gpus: Sequence[str], query: DomainQuery | None = None) -> Observed:
        with self._at.spent.on("unlock"):
            snapshot = self._at.snapshot
            part = replace(snapshot, gpus=tuple(gpu for gpu in snapshot.gpus if gpu.uuid in gpus))
            return Observed(snapshot=part, read=self._dump(query))

    def domains(self, query: DomainQuery) -> LibvirtDump:
        with self._at.spent.on("domains"):
            dump = self._dump(query)
            assert dump is not None
            return dump

    def ping(self, timeout_s: float | None = None) -> None:
        del timeout_s

    def set_metadata(self, vm: VmUuid, xml: str | None, *, key: str, uri: str) -> None:
        with self._at.spent.on("set_metadata"):
            self._at.libvirt.set_metadata(vm, xml, key=key, uri=uri)

    def attach_device(self, vm: VmUuid, xml: str) -> None:
        with self._at.spent.on("attach_device"):
            self._at.libvirt.attach_device(vm, xml)

    def detach_device(self, vm: VmUuid, xml: str) -> None:
        with self._at.spent.on("detach_device"):
            self._at.libvirt.detach_device(vm, xml)

    def close(self) -> None: ...

    def abort(self) -> None: ...
