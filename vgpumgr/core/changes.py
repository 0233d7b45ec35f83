"""The steps a plan is made of: verb + noun, each a value that knows its inverse and how it is printed.

put_claim      write the wish and the binding, pending      ← drop_claim (or the claim that was there before)
create_vgpu    ledger planned, hardware, ledger made        ← destroy_vgpu
attach_hostdev into the inactive XML                        ← detach_hostdev
bind_claim     the claim is served                          ← put_claim
leave_claim    a detach has begun                           ← bind_claim
detach_hostdev out of the inactive XML                      ← attach_hostdev
destroy_vgpu   ledger leaving, hardware, entry gone         ← create_vgpu
drop_claim     the slot is free                             ← put_claim
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from vgpumgr.core.claims import Claim
    from vgpumgr.core.domain_xml import Hostdev
    from vgpumgr.core.names import GpuUuid, HostName, MdevUuid, PciAddress, Slot, VmName, VmUuid

EMPTY = "empty"
SAME = "same"
PRESENT = "present"
ABSENT = "absent"


@dataclass(frozen=True, slots=True, kw_only=True)
class VgpuSpec:
    """A vGPU as the ledger names it: whose it is, where it is, what it is."""

    vm: VmUuid
    vm_name: VmName
    slot: Slot
    generation: int
    gpu_uuid: GpuUuid
    gpu: PciAddress
    vf_index: int | None
    parent: PciAddress
    uuid: MdevUuid | None
    type_id: int
    type_name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PutClaim:
    """Write one claim; `before` is the one it replaces. The claim's own state makes the verb."""

    vm: VmUuid
    vm_name: VmName
    claim: Claim
    before: Claim | None

    @property
    def verb(self) -> str:
        return {"pending": "put_claim", "bound": "bind_claim", "leaving": "leave_claim"}[self.claim.state]


@dataclass(frozen=True, slots=True, kw_only=True)
class DropClaim:
    vm: VmUuid
    vm_name: VmName
    before: Claim

    verb = "drop_claim"


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateVgpu:
    """`expect` is empty, or same where the hardware is there and only the ledger has to say made."""

    host: HostName
    vgpu: VgpuSpec
    expect: str

    verb = "create_vgpu"


@dataclass(frozen=True, slots=True, kw_only=True)
class DestroyVgpu:
    """`expect` is present, or absent where only the ledger's entry is left."""

    host: HostName
    vgpu: VgpuSpec
    expect: str

    verb = "destroy_vgpu"


@dataclass(frozen=True, slots=True, kw_only=True)
class AttachHostdev:
    vm: VmUuid
    vm_name: VmName
    slot: Slot
    device: Hostdev

    verb = "attach_hostdev"


@dataclass(frozen=True, slots=True, kw_only=True)
class DetachHostdev:
    vm: VmUuid
    vm_name: VmName
    slot: Slot
    device: Hostdev

    verb = "detach_hostdev"


Step = PutClaim | DropClaim | CreateVgpu | DestroyVgpu | AttachHostdev | DetachHostdev


def inverse(step: Step) -> Step:
    """The step that takes this one back."""
    match step:
        case PutClaim(before=None):
            return DropClaim(vm=step.vm, vm_name=step.vm_name, before=step.claim)
        case PutClaim(before=before):
            assert before is not None
            return replace(step, claim=before, before=step.claim)
        case DropClaim():
            return PutClaim(vm=step.vm, vm_name=step.vm_name, claim=step.before, before=None)
        case CreateVgpu():
            return DestroyVgpu(host=step.host, vgpu=step.vgpu, expect=PRESENT)
        case DestroyVgpu():
            return CreateVgpu(host=step.host, vgpu=step.vgpu, expect=EMPTY)
        case AttachHostdev():
            return DetachHostdev(vm=step.vm, vm_name=step.vm_name, slot=step.slot, device=step.device)
        case DetachHostdev():
            return AttachHostdev(vm=step.vm, vm_name=step.vm_name, slot=step.slot, device=step.device)


def destroys(step: Step) -> bool:
    """Whether the step takes away hardware that is there: what guards and questions count."""
    return isinstance(step, DestroyVgpu) and step.expect == PRESENT


def takes_away(step: Step) -> bool:
    """Whether the step removes something that a person may miss: a vGPU, a device of a definition, a claim."""
    return isinstance(step, DestroyVgpu | DetachHostdev | DropClaim)


def as_json(step: Step) -> dict[str, object]:
    """The step as `-o json` prints it."""
    undo = inverse(step).verb
    match step:
        case PutClaim():
            return {"verb": step.verb, "vm": step.vm_name, "slot": step.claim.slot, "inverse": undo}
        case DropClaim():
            return {"verb": step.verb, "vm": step.vm_name, "slot": step.before.slot, "inverse": undo}
        case CreateVgpu() | DestroyVgpu():
            vgpu = step.vgpu
            return {
                "verb": step.verb,
                "host": step.host,
                "vm": vgpu.vm_name,
                "slot": vgpu.slot,
                "gpu": vgpu.gpu,
                "parent": vgpu.parent,
                "type_id": vgpu.type_id,
                "type_name": vgpu.type_name,
                "uuid": vgpu.uuid,
                "inverse": undo,
            }
        case AttachHostdev() | DetachHostdev():
            return {
                "verb": step.verb,
                "vm": step.vm_name,
                "slot": step.slot,
                "alias": step.device.alias,
                "where": ["inactive"],
                "inverse": undo,
            }
