"""The plan: a value that can be printed, compared and carried out step by step.

Plan is about one VM, scheduler.GpuPlan about one GPU, adopt.AdoptPlan about one host; the code that carries a plan out knows
only AnyPlan.
"""

from __future__ import annotations

import abc
import hashlib
import json
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING

from vgpumgr import errors, names
from vgpumgr.core.model.snapshot import Gpu
from vgpumgr.core.plan import step as plan_steps

if TYPE_CHECKING:
    from collections.abc import Mapping

    from vgpumgr.core.model.claims import ClaimDocument
    from vgpumgr.core.model.domain_xml import Domain
    from vgpumgr.core.model.vgpu import LedgerEntry, VgpuSpec
    from vgpumgr.core.model.view import Finding, HostView
    from vgpumgr.core.plan import placement
    from vgpumgr.names import Slot, VmName, VmUuid


@dataclass(frozen=True, slots=True, kw_only=True)
class AnyPlan(abc.ABC):
    """What every plan has: steps in order of execution, and their subject in words."""

    steps: tuple[plan_steps.Step, ...]
    findings: tuple[Finding, ...]

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
        return tuple(sorted({vm for step in self.steps if (vm := plan_steps.vm_of(step)) is not None}))

    def claims_of(self, vm: VmUuid) -> ClaimDocument | None:  # noqa: ARG002 -- a plan about a GPU touches no claim
        """The claims of a VM that the plan is about, before any step; None without that VM, or without claims."""
        return None


@dataclass(frozen=True, slots=True, kw_only=True)
class GoneVm:
    """A VM that the host no longer has but its ledger still names: it has no definition, so no claim, and does not run."""

    name: VmName
    uuid: VmUuid

    active = False
    claims = None
    condition = "no longer defined"


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan(AnyPlan):
    """`placed` says where a new vGPU goes and why; None if there is no new one."""

    vm: Domain | GoneVm
    slot: Slot | None
    placed: placement.Placed | None = None
    target: VgpuSpec | None = None

    @property
    def about(self) -> str:
        return self.vm.name

    def claims_of(self, vm: VmUuid) -> ClaimDocument | None:
        return self.vm.claims if self.vm.uuid == vm else None

    @property
    def takes_away(self) -> tuple[plan_steps.Step, ...]:
        """The steps that remove something, which need confirmation. A device that only changes its alias does not count."""
        back = [step.device.source for step in self.steps if isinstance(step, plan_steps.AttachHostdev)]
        return tuple(
            step
            for step in self.steps
            if plan_steps.takes_away(step)
            and not (isinstance(step, plan_steps.DetachHostdev) and step.device.source in back)
        )

    @property
    def gpus(self) -> tuple[str, ...]:
        return tuple(sorted({step.vgpu.gpu_uuid for step in self.steps if hasattr(step, "vgpu")}))

    def rests_on(self, view: HostView) -> tuple[object, ...]:
        return *of_host(view), self.vm


def gone_vms(view: HostView) -> tuple[GoneVm, ...]:
    """The VMs that only the ledger still names."""
    known = {domain.uuid for domain in view.domains}
    found = {entry.vgpu.vm: entry.vgpu.vm_name for entry in view.snapshot.ledger or () if entry.vgpu.vm not in known}
    return tuple(GoneVm(name=name, uuid=uuid) for uuid, name in found.items())


def slots_of(view: HostView, vm: Domain | GoneVm) -> tuple[Slot, ...]:
    """Every slot of a VM that has a claim or a ledger entry."""
    found = {claim.slot for claim in vm.claims.claims} if vm.claims else set()
    found |= {entry.vgpu.slot for entry in view.entries(vm.uuid)}
    return tuple(sorted(found, key=names.slot_order))


def of_host(view: HostView) -> tuple[object, ...]:
    """What every plan about VMs reads of its host: GPUs, ledger, stuck writes."""
    return view.snapshot.gpus, view.snapshot.ledger, view.snapshot.blocked_writes


def fingerprint(view: HostView, plan: AnyPlan) -> str:
    """A hash of what the plan read. If two are equal, nothing changed in between."""
    return digest(*plan.rests_on(view))


def digest(*seen: object) -> str:
    """A hash of values, for a plan's fingerprint."""
    return "sha256:" + hashlib.sha256(json.dumps([_text(value) for value in seen]).encode()).hexdigest()


_OF_GPU = tuple(one.name for one in fields(Gpu) if one.name not in {"types", "parents"})


def _text(value: object) -> str:
    """A value in full. A GPU's VFs mostly offer the same types: what is offered is written once, and named by its place.

    What a type is called says all the rest of it.
    """
    if isinstance(value, tuple):
        return f"({', '.join(map(_text, value))})"
    if not isinstance(value, Gpu):
        return repr(value)
    offers: list[Mapping[int, int] | None] = []
    parents = []
    for parent in value.parents:
        try:
            at = offers.index(parent.creatable)
        except ValueError:
            at = len(offers)
            offers.append(parent.creatable)
        parents.append((parent.pci, parent.vf_index, at, parent.vgpus, parent.vfio_dev))
    types = [(one.id, one.name, one.framebuffer_mib, one.max) for one in (value.types or {}).values()]
    rest = [getattr(value, name) for name in _OF_GPU]
    return f"{rest} {value.types is None} {types} {offers} {parents}"


def find_domain(view: HostView, vm: VmUuid) -> Domain:
    """The domain that a plan is about. Raises UnknownVm if it disappeared since it was found."""
    domain = view.domain(vm)
    if domain is None:
        raise errors.UnknownVm(f"VM {vm} is no longer on {view.snapshot.host}")
    return domain


def spec_of_entry(view: HostView, entry: LedgerEntry) -> VgpuSpec:
    """A ledger entry as steps name it: with its VM's current name, by which the host program finds its QEMU and its log.

    The VM may have been renamed since the entry was written; one that is no longer defined keeps the entry's name.
    """
    domain = view.domain(entry.vgpu.vm)
    return entry.vgpu if domain is None else replace(entry.vgpu, vm_name=domain.name)
