"""One open host, as the controller sees it, in values of core. Only link knows what goes over the wire.

observe   the host's facts                        lock      the same, under the host's lock, which is kept
execute   one step of a plan                      unlock    some GPUs' facts; then the lock is released
domains   libvirt's domains; names: only names    sample    GPU usage by vGPU
symptoms  what only doctor asks                   capture   what only certify asks
try_vf    what the driver should refuse

set_metadata, attach_device, detach_device          change a VM's definition, under the lock
plug_device, unplug_device, start_vm                change what a VM runs with, under the lock
installed, install, uninstall                       what `host install` leaves there (docs/logins.md)
files, purge                                        every file of ours there (docs/leaving.md)

Given a query, observe, lock and unlock read libvirt's domains at the same time. The code that turns answers into core's
values is imported only with the first answer, because importing it takes as long as a login.
"""

from __future__ import annotations

import abc
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

from vgpumgr.host.protocol import session, snapshot
from vgpumgr.host.protocol.steps import (
    ATTACH_DEVICE,
    DETACH_DEVICE,
    PLUG_DEVICE,
    RESET_GPU,
    SET_METADATA,
    SET_VFS,
    START_DOMAIN,
    TRY_VF,
    UNPLUG_DEVICE,
    DefinitionStep,
    TryStep,
)
from vgpumgr.link.host_text import clean
from vgpumgr.link.values import libvirt_facts

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from types import TracebackType

    from vgpumgr.core.certify.capture import Capture
    from vgpumgr.core.driver.catalogue import Catalogue
    from vgpumgr.core.driver.scheduler import SchedulerState
    from vgpumgr.core.model.domain_dumps import LibvirtDump
    from vgpumgr.core.model.installation import Installation
    from vgpumgr.core.model.snapshot import HostSnapshot
    from vgpumgr.core.model.symptoms import Symptoms
    from vgpumgr.core.model.vgpu import VgpuSpec
    from vgpumgr.core.step import HostStep
    from vgpumgr.core.usage.readings import HostReading
    from vgpumgr.errors import HostError, LedgerUnwritable
    from vgpumgr.host.protocol.installed import InstallationFact
    from vgpumgr.host.protocol.ledger import UnwritableFact
    from vgpumgr.host.protocol.libvirt import LibvirtQuery
    from vgpumgr.host.protocol.snapshot import Snapshot
    from vgpumgr.link.domain_query import DomainQuery
    from vgpumgr.link.program.session import Program
    from vgpumgr.names import PciAddress, VmName, VmUuid

PROTOCOL = session.PROTOCOL  # the version that this controller speaks
STEP_DEADLINE_S = 20.0
TOOL_DEADLINE_S = 120.0  # sriov-manage and a reset rebind the GPU to its driver, and make up to 48 functions
LOCKING_S = 120.0  # with a virtual function, VFIO first locks all of the guest's memory: seconds for each 100 GiB


@dataclass(frozen=True, slots=True, kw_only=True)
class Observed:
    """A host's facts. `read`: its domains, or why they could not be read; None if they were not requested."""

    snapshot: HostSnapshot
    read: LibvirtDump | HostError | None

    @property
    def libvirt(self) -> LibvirtDump:
        """The answer of libvirt. Raises the reason if it could not be read."""
        return _or_raise(self.read)


@dataclass(frozen=True, slots=True, kw_only=True)
class Locked(Observed):
    """The host under its lock. `unwritable`: why no step can write the ledger; None if it can be written."""

    unwritable: LedgerUnwritable | None


@dataclass(frozen=True, slots=True, kw_only=True)
class StepResult:
    """The result of a step: a remark for the user, and the value read back if it set a scheduler."""

    note: str | None
    scheduler: SchedulerState | None


class Host(abc.ABC):
    """An open host; a context manager, which releases everything: the lock, and the connection.

    `catalogue`: the source of type maxima that the host does not report. Every method raises HostError.
    """

    def __init__(self, program: Program, catalogue: Catalogue | None, *, libvirt_s: float) -> None:
        self.host = program.host
        self.program = program
        self._catalogue = catalogue
        self._libvirt_s = libvirt_s

    def observe(self, query: DomainQuery | None = None, *, wait_s: float) -> Observed:
        """The host's facts, read under the shared lock, or under our exclusive lock if we hold it."""
        facts = self.program.observe(wait_s=wait_s, libvirt=self._query(query))
        return Observed(snapshot=self._snapshot(facts), read=self._read(facts))

    def lock(self, query: DomainQuery | None = None, *, by: str, wait_s: float) -> Locked:
        """Take the host's exclusive lock, until `unlock` or `close`, and read the facts. Busy names its holder."""
        facts = self.program.lock(by=by, wait_s=wait_s, libvirt=self._query(query))
        return Locked(
            snapshot=self._snapshot(facts), read=self._read(facts), unwritable=self._unwritable(facts["unwritable"])
        )

    def execute(self, step: HostStep) -> StepResult:
        """Carry out one step under the lock. Raises HostDeadline if the step may still happen."""
        from vgpumgr.link.values import by_name, snapshot_facts, steps

        wire = steps.wire_step(step)
        deadline_s = TOOL_DEADLINE_S if wire["verb"] in (SET_VFS, RESET_GPU) else STEP_DEADLINE_S
        answer = self.program.execute(wire, deadline_s=deadline_s)
        return StepResult(
            note=by_name.maybe(answer["note"], clean),
            scheduler=by_name.maybe(answer["scheduler"], snapshot_facts.parse_scheduler),
        )

    def set_metadata(self, vm: VmUuid, xml: str | None, *, key: str, uri: str) -> None:
        """Write that element (without prefix and xmlns) into the VM's persistent definition; None removes it.

        This and the next five methods raise HypervisorError, or Unreachable(stage=libvirt), whose `may_happen` says
        whether the change may have been made, or may still be made.
        """
        self._define({"verb": SET_METADATA, "vm_uuid": vm, "xml": xml, "key": key, "uri": uri})

    def attach_device(self, vm: VmUuid, xml: str) -> None:
        """Add a device to the VM's persistent definition."""
        self._define({"verb": ATTACH_DEVICE, "vm_uuid": vm, "xml": xml})

    def detach_device(self, vm: VmUuid, xml: str) -> None:
        """Remove a device from the VM's persistent definition."""
        self._define({"verb": DETACH_DEVICE, "vm_uuid": vm, "xml": xml})

    def plug_device(self, vm: VmUuid, xml: str) -> None:
        """Give a device to the VM while it runs. The next start is not affected."""
        self._define({"verb": PLUG_DEVICE, "vm_uuid": vm, "xml": xml}, at_least_s=LOCKING_S)

    def unplug_device(self, vm: VmUuid, xml: str) -> None:
        """Ask the running VM's guest to release a device. It may do so later, or never."""
        self._define({"verb": UNPLUG_DEVICE, "vm_uuid": vm, "xml": xml})

    def start_vm(self, vm: VmUuid) -> None:
        """Start a VM whose last start failed."""
        self._define({"verb": START_DOMAIN, "vm_uuid": vm}, at_least_s=LOCKING_S)

    def unlock(self, gpus: Sequence[str], query: DomainQuery | None = None) -> Observed:
        """Read these GPUs (UUIDs) and the facts that belong to no GPU under the lock, then release it."""
        facts = self.program.unlock(gpus, self._query(query))
        return Observed(snapshot=self._snapshot(facts), read=self._read(facts))

    def domains(self, query: DomainQuery) -> LibvirtDump:
        """The answer of libvirt to the query, without the host's facts."""
        return _or_raise(
            libvirt_facts.parse(
                self.host, self.program.libvirt(libvirt_facts.render_query(query, wait_s=self._libvirt_s))
            )
        )

    def names(self) -> tuple[tuple[VmName, VmUuid], ...]:
        """The names and UUIDs of all domains."""
        query = libvirt_facts.render_names_query(wait_s=self._libvirt_s)
        return _or_raise(libvirt_facts.parse(self.host, self.program.libvirt(query))).names

    def sample(self, *, since: Mapping[str, int], wait_s: float) -> HostReading:
        """Which vGPUs run and what they used since those times (us, by GPU), read under the shared lock."""
        from vgpumgr.link.values import sampling_facts

        return sampling_facts.parse(self.host, self.program.sample(since=since, wait_s=wait_s))

    def symptoms(self) -> Symptoms:
        """What only doctor asks about drivers, services and libvirt."""
        from vgpumgr.link.values import symptom_facts

        return symptom_facts.parse(self.program.symptoms())

    def capture(self, *, wait_s: float) -> Capture:
        """The facts, with the driver's files and NVML's answers from which they come. The lock is as in `observe`."""
        from vgpumgr.link.values import capture_facts

        return capture_facts.parse(self.host, self.program.capture(wait_s=wait_s), self._catalogue)

    def try_vf(self, vgpu: VgpuSpec, parent: PciAddress, type_id: int) -> None:
        """Write the type that a VF has (0: none) to it, under the lock. SysfsRefused is the driver's answer."""
        step: TryStep = {
            "verb": TRY_VF,
            "gpu_uuid": vgpu.gpu_uuid,
            "gpu": vgpu.gpu,
            "parent": parent,
            "type_id": type_id,
        }
        self.program.execute(step, deadline_s=STEP_DEADLINE_S)

    def installed(self) -> Installation:
        """What `host install` left there."""
        return self._installation(self.program.installed())

    def install(self, *, pinned: bool, restore: bool) -> Installation:
        """Install the dispatcher and our host program, with a unit that restores vGPUs if `restore`.

        Raises NotAllowed where versions are pinned.
        """
        from vgpumgr.link.program import bootstrap

        ours = bootstrap.installable()
        return self._installation(self.program.install(ours.dispatcher, ours.programs, pinned=pinned, restore=restore))

    def uninstall(self) -> Installation:
        """Remove all that `install` left. Returns what is there afterwards.

        Raises NotAllowed where versions are pinned, and RefusedPlan if the ledger has lazy vGPUs.
        """
        return self._installation(self.program.uninstall())

    def files(self) -> tuple[str, ...]:
        """The files and folders of ours that are there: the ledger, and what `install` left."""
        return tuple(self.program.purge(check=True)["files"])

    def purge(self) -> tuple[str, ...]:
        """Remove what `files` lists, under the lock, and return it. Raises StalePlan if the ledger is not empty."""
        return tuple(self.program.purge(check=False)["files"])

    def ping(self, timeout_s: float | None = None) -> None:
        """Check that the host answers. Raises LeaseLost if its lock was ours and no longer is."""
        self.program.ping(timeout_s)

    @abc.abstractmethod
    def close(self) -> None:
        """Release everything. Takes a few seconds at most."""

    @abc.abstractmethod
    def abort(self) -> None:
        """Cut the connection at once: every current call, in any thread, soon fails. Call `close` afterwards."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _define(self, step: DefinitionStep, *, at_least_s: float = 0) -> None:
        self.program.execute(step, deadline_s=max(at_least_s, self._libvirt_s))

    def _installation(self, fact: InstallationFact) -> Installation:
        from vgpumgr.link.program import bootstrap
        from vgpumgr.link.values import installation_facts

        return installation_facts.parse(self.host, fact, bootstrap.installable())

    def _query(self, query: DomainQuery | None) -> LibvirtQuery | None:
        return None if query is None else libvirt_facts.render_query(query, wait_s=self._libvirt_s)

    def _read(self, facts: snapshot.Observed) -> LibvirtDump | HostError | None:
        return None if facts["libvirt"] is None else libvirt_facts.parse(self.host, facts["libvirt"])

    def _snapshot(self, facts: Snapshot) -> HostSnapshot:
        from vgpumgr.link.values import snapshot_facts

        return snapshot_facts.parse(self.host, facts, self._catalogue)

    def _unwritable(self, fact: UnwritableFact | None) -> LedgerUnwritable | None:
        if fact is None:
            return None
        from vgpumgr.link.program import refusals

        return refusals.unwritable(self.host, fact["path"], fact["errno"])


def _or_raise(dump: LibvirtDump | HostError | None) -> LibvirtDump:
    if dump is None:
        raise ValueError("nothing was asked of libvirt")
    if isinstance(dump, BaseException):
        raise dump
    return dump
