"""The plan: a value that can be printed, compared and carried out step by step.

Plan is about one VM, gpu_plan.GpuPlan about one GPU, adopt.AdoptPlan about one host. The code that carries them out
knows only AnyPlan.
"""

from __future__ import annotations

import abc
import hashlib
import json
from dataclasses import dataclass, fields, replace
from functools import cache
from itertools import chain, groupby
from operator import attrgetter
from typing import TYPE_CHECKING

from vgpumgr import errors, names
from vgpumgr.core import step as plan_steps
from vgpumgr.core.model.snapshot import Gpu
from vgpumgr.core.model.view import GoneVm
from vgpumgr.wording import say

if TYPE_CHECKING:
    from vgpumgr.core.model.claims import ClaimDocument
    from vgpumgr.core.model.domain_xml import Domain
    from vgpumgr.core.model.vgpu import LedgerEntry, VgpuSpec
    from vgpumgr.core.model.view import Finding, HostView
    from vgpumgr.core.placing import placement
    from vgpumgr.names import Slot, VmUuid


@dataclass(frozen=True, slots=True, kw_only=True)
class AnyPlan(abc.ABC):
    """What every plan has: steps in order of execution, and their subject in words.

    `goes_on`: there is more to do, which can be planned only after these steps.
    """

    steps: tuple[plan_steps.Step, ...]
    findings: tuple[Finding, ...]
    goes_on: bool = False

    @property
    @abc.abstractmethod
    def about(self) -> str: ...

    @property
    def changed(self) -> bool:
        return bool(self.steps)

    @property
    def takes_away(self) -> tuple[plan_steps.Step, ...]:
        """The steps that need confirmation."""
        return ()

    @property
    @abc.abstractmethod
    def gpus(self) -> tuple[str, ...]:
        """The UUIDs of the GPUs that steps write to."""

    @abc.abstractmethod
    def rests_on(self, view: HostView) -> tuple[object, ...]:
        """What the plan read of the host's state."""

    @property
    def vms(self) -> tuple[VmUuid, ...]:
        """The VMs whose definitions steps write to."""
        return tuple(sorted({vm for step in self.steps if (vm := step.changed_vm) is not None}))

    def claims_of(self, vm: VmUuid) -> ClaimDocument | None:  # noqa: ARG002 -- a plan about a GPU touches no claim
        """The claims of a VM before any step. None if the plan is not about the VM, or if the VM has no claims."""
        return None


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan(AnyPlan):
    """A plan about one VM. `placed`: where a new vGPU goes and why; None if there is no new one.

    `parts`: the plans of several slots, carried out all or none; then these have their own `slot`, `placed`, `target`.
    """

    vm: Domain | GoneVm
    slot: Slot | None
    placed: placement.Placed | None = None
    target: VgpuSpec | None = None
    parts: tuple[Plan, ...] = ()

    @property
    def about(self) -> str:
        return self.vm.name

    def claims_of(self, vm: VmUuid) -> ClaimDocument | None:
        return self.vm.claims if self.vm.uuid == vm else None

    @property
    def takes_away(self) -> tuple[plan_steps.Step, ...]:
        """The steps that need confirmation. A device that only changes its alias does not count."""
        devices = [step.device.source for step in self.steps if isinstance(step, plan_steps.AttachHostdev)]
        return tuple(
            step
            for step in self.steps
            if step.is_grave and not (isinstance(step, plan_steps.DetachHostdev) and step.device.source in devices)
        )

    @property
    def gpus(self) -> tuple[str, ...]:
        return tuple(sorted({step.vgpu.gpu_uuid for step in self.steps if hasattr(step, "vgpu")}))

    def rests_on(self, view: HostView) -> tuple[object, ...]:
        return *of_host(view), self.vm


def gone_vms(view: HostView) -> tuple[GoneVm, ...]:
    """The VMs that only the ledger still names."""
    uuids = {domain.uuid for domain in view.domains}
    vms = {entry.vgpu.vm: entry.vgpu.vm_name for entry in view.snapshot.ledger or () if entry.vgpu.vm not in uuids}
    return tuple(GoneVm(name=name, uuid=uuid) for uuid, name in vms.items())


def slots_of(view: HostView, vm: Domain | GoneVm) -> tuple[Slot, ...]:
    """Every slot of a VM that has a claim or a ledger entry, or that waits for room."""
    slots = {claim.slot for claim in vm.claims.claims} if vm.claims else set()
    slots |= {wait.slot for wait in vm.claims.waits} if vm.claims else set()
    slots |= {entry.vgpu.slot for entry in view.entries(vm.uuid)}
    return tuple(sorted(slots, key=names.slot_order))


def of_host(view: HostView) -> tuple[object, ...]:
    """What every plan about VMs reads of its host: GPUs, ledger, blocked writes, cordons, instances, reservations."""
    facts = view.snapshot
    return (
        facts.gpus,
        facts.ledger,
        facts.blocked_writes,
        *facts.cordons,
        *facts.instances,
        *(one.identity for one in facts.reservations),
    )


def fingerprint(view: HostView, plan: AnyPlan) -> str:
    """A hash of what the plan read. If two are equal, nothing changed in between."""
    return digest(*plan.rests_on(view))


def digest(*seen: object) -> str:
    """A hash of values, for a plan's fingerprint."""
    return "sha256:" + hashlib.sha256(_TEXT.encode(seen).encode()).hexdigest()


_OF_GPU = attrgetter(*(one.name for one in fields(Gpu) if one.name not in {"types", "parents"}))
_OF_TYPE = attrgetter("id", "name", "framebuffer_mib", "max")  # the rest follows from a type's name
_ALIKE = attrgetter("creatable", "vfio_dev", "iommu_group")
_PCI, _INDEX = attrgetter("pci"), attrgetter("vf_index")


def _of_gpu(gpu: Gpu) -> object:
    """A GPU in full. What neighbouring VFs share is written once; flat lists are faster to encode than rows."""
    types = None if gpu.types is None else [*chain.from_iterable(map(_OF_TYPE, gpu.types.values()))]
    rows = [(alike, [*rows]) for alike, rows in groupby(gpu.parents, _ALIKE)]
    parents = [(*alike, [*map(_PCI, rows)], [*map(_INDEX, rows)]) for alike, rows in rows]
    return _OF_GPU(gpu), types, parents, gpu.vgpus


@cache
def _all_of(kind: type) -> attrgetter[object]:
    """Reads every field of a dataclass."""
    return attrgetter(*(one.name for one in fields(kind)))


def _parts(value: object) -> object:
    if isinstance(value, Gpu):
        return _of_gpu(value)
    if isinstance(value, frozenset):
        return sorted(value)
    kind: type = type(value)
    return kind.__name__, _all_of(kind)(value)


_TEXT = json.JSONEncoder(default=_parts, check_circular=False)


def find_domain(view: HostView, vm: VmUuid) -> Domain:
    """The domain that a plan is about. Raises UnknownVm if it disappeared since it was found."""
    domain = view.domain(vm)
    if domain is None:
        raise errors.UnknownVm(say("VM {} is no longer on {}", vm, view.snapshot.host))
    return domain


def spec_of_entry(view: HostView, entry: LedgerEntry) -> VgpuSpec:
    """An entry's vGPU with the VM's current name, for a step: by that name the host program finds QEMU and its log.

    The VM may have been renamed since the entry was written. If it is no longer defined, the entry's name stays.
    """
    domain = view.domain(entry.vgpu.vm)
    if domain is None or domain.name == entry.vgpu.vm_name:
        return entry.vgpu
    return replace(entry.vgpu, vm_name=domain.name)
