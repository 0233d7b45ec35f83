"""A VM's claims and host devices, in its definition and while it runs.

put_claim       write the wish and the binding, pending   ← drop_claim (or the claim that was there before)
bind_claim      the claim is served                       ← put_claim
leave_claim     a detach has begun                        ← bind_claim
drop_claim      the slot is free                          ← put_claim
put_wait        the slot waits for room                   ← drop_wait (or the wait that was there before)
drop_wait       it no longer waits                        ← put_wait
attach_hostdev  into the inactive XML                     ← detach_hostdev
detach_hostdev  out of the inactive XML                   ← attach_hostdev
plug_hostdev    into the running VM                       ← unplug_hostdev
unplug_hostdev  out of the running VM                     ← plug_hostdev
start_vm        libvirt starts the VM                     (nothing undoes it)
"""

from __future__ import annotations

import abc
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

from vgpumgr.core.model.claims import ClaimDocument
from vgpumgr.core.step.base import ImpossibleStepError, OfVm

if TYPE_CHECKING:
    from vgpumgr.core.model.claims import Claim, Wait
    from vgpumgr.core.model.domain_xml import Domain, Hostdev
    from vgpumgr.names import Slot

__all__ = [
    "AttachHostdev", "ClaimStep", "DefinitionStep", "DetachHostdev", "DropClaim", "PlugHostdev", "PutClaim", "SetWait",
    "StartVm", "UnplugHostdev",
]  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimStep(OfVm):
    """A step that changes one slot in the VM's document of claims."""

    @abc.abstractmethod
    def inverse(self) -> ClaimStep: ...

    @abc.abstractmethod
    def edit(self, document: ClaimDocument) -> ClaimDocument:
        """The document after the step."""

    @abc.abstractmethod
    def obstacle(self, domain: Domain) -> str | None:
        """Why the VM's claims are not as the step expects; None if they are."""

    def after(self, domain: Domain) -> Domain:
        obstacle = self.obstacle(domain)
        if obstacle is not None:
            raise ImpossibleStepError(obstacle)
        document = self.edit(domain.claims or ClaimDocument(vm=domain.uuid))
        return replace(domain, claims=document or None)


@dataclass(frozen=True, slots=True, kw_only=True)
class PutClaim(ClaimStep):
    """Write one claim; `before`: the claim that it replaces, if any. The new claim's state determines the verb."""

    claim: Claim
    before: Claim | None

    @property
    def verb(self) -> Literal["put_claim", "bind_claim", "leave_claim"]:
        match self.claim.state:
            case "pending":
                return "put_claim"
            case "bound":
                return "bind_claim"
            case "leaving":
                return "leave_claim"

    def inverse(self) -> PutClaim | DropClaim:
        if self.before is None:
            return DropClaim(vm=self.vm, vm_name=self.vm_name, before=self.claim)
        return replace(self, claim=self.before, before=self.claim)

    def edit(self, document: ClaimDocument) -> ClaimDocument:
        return document.put(self.claim)

    def obstacle(self, domain: Domain) -> str | None:
        is_other = domain.claim(self.claim.slot) != self.before
        return f"the claim of {domain.name} is not what the step replaces" if is_other else None

    def facts(self) -> dict[str, object]:
        claim, grant = self.claim, self.claim.grant
        return {
            "vm": self.vm_name,
            "slot": claim.slot,
            "requested": claim.asked,
            "asked_mib": grant.asked_mib if grant else None,
            "framebuffer_mib": grant.framebuffer_mib if grant else None,
            "guest_mib": grant.guest_mib if grant else None,
            "waste_pct": grant.waste_pct if grant else None,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class DropClaim(ClaimStep):
    before: Claim

    verb = "drop_claim"
    is_grave = True

    def inverse(self) -> PutClaim:
        return PutClaim(vm=self.vm, vm_name=self.vm_name, claim=self.before, before=None)

    def edit(self, document: ClaimDocument) -> ClaimDocument:
        return document.drop(self.before.slot)

    def obstacle(self, domain: Domain) -> str | None:
        return f"{domain.name} has no such claim" if domain.claim(self.before.slot) is None else None

    def facts(self) -> dict[str, object]:
        return {"vm": self.vm_name, "slot": self.before.slot}


@dataclass(frozen=True, slots=True, kw_only=True)
class SetWait(ClaimStep):
    """Write the wish that waits for a slot. `wait` None: the slot no longer waits. `before`: the wish that waited."""

    slot: Slot
    wait: Wait | None
    before: Wait | None

    @property
    def verb(self) -> Literal["put_wait", "drop_wait"]:
        return "drop_wait" if self.wait is None else "put_wait"

    def inverse(self) -> SetWait:
        return replace(self, wait=self.before, before=self.wait)

    def edit(self, document: ClaimDocument) -> ClaimDocument:
        return document.with_wait(self.slot, self.wait)

    def obstacle(self, domain: Domain) -> str | None:
        is_other = domain.wait(self.slot) != self.before
        return f"what waits in {domain.name} is not what the step replaces" if is_other else None

    def facts(self) -> dict[str, object]:
        asked = {} if self.wait is None else {"requested": self.wait.asked}
        return {"vm": self.vm_name, "slot": self.slot, **asked}


@dataclass(frozen=True, slots=True, kw_only=True)
class _OfDevice(OfVm):
    slot: Slot
    device: Hostdev

    def facts(self) -> dict[str, object]:
        return {"vm": self.vm_name, "slot": self.slot, "alias": self.device.alias, "where": ["inactive"]}


@dataclass(frozen=True, slots=True, kw_only=True)
class AttachHostdev(_OfDevice):
    """Add a host device to a VM's definition.

    `port`: the guest's PCI bus, if the running VM gets the device, too; None: libvirt chooses an address.
    """

    port: int | None = None

    verb = "attach_hostdev"

    def inverse(self) -> DetachHostdev:
        return DetachHostdev(vm=self.vm, vm_name=self.vm_name, slot=self.slot, device=self.device)

    def after(self, domain: Domain) -> Domain:
        if any(one.source == self.device.source or one.alias == self.device.alias for one in domain.inactive):
            raise ImpossibleStepError(f"{domain.name} has that device or alias")
        return replace(
            domain,
            inactive=(*domain.inactive, replace(self.device, port=self.port)),
            ports=domain.ports and replace(domain.ports, inactive=domain.ports.inactive - {self.port}),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class DetachHostdev(_OfDevice):
    verb = "detach_hostdev"
    is_grave = True

    def inverse(self) -> AttachHostdev:
        return AttachHostdev(vm=self.vm, vm_name=self.vm_name, slot=self.slot, device=self.device)

    def after(self, domain: Domain) -> Domain:
        if self.device not in domain.inactive:
            raise ImpossibleStepError(f"{domain.name} has no such device")
        return replace(domain, inactive=tuple(device for device in domain.inactive if device != self.device))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Live(OfVm):
    """A step on a running VM. It is final: the guest may have reacted to the change before an undo.

    `port`: the guest's PCI bus of the device; None: not on a root port.
    """

    slot: Slot
    device: Hostdev
    port: int | None

    is_final = True
    is_grave = True

    def facts(self) -> dict[str, object]:
        where = {"alias": self.device.alias, "port": self.port, "where": ["live"]}
        return {"vm": self.vm_name, "slot": self.slot, **where}


@dataclass(frozen=True, slots=True, kw_only=True)
class PlugHostdev(_Live):
    verb = "plug_hostdev"

    def inverse(self) -> UnplugHostdev:
        return UnplugHostdev(vm=self.vm, vm_name=self.vm_name, slot=self.slot, device=self.device, port=self.port)

    def after(self, domain: Domain) -> Domain:
        if domain.live is None or domain.ports is None:
            raise ImpossibleStepError(f"{domain.name} does not run")
        if any(one.source == self.device.source for one in domain.live) or self.port not in domain.ports.live:
            raise ImpossibleStepError(f"{domain.name} runs with that device, or with another one at its place")
        ports = replace(domain.ports, live=domain.ports.live - {self.port})
        return replace(domain, live=(*domain.live, replace(self.device, port=self.port)), ports=ports)


@dataclass(frozen=True, slots=True, kw_only=True)
class UnplugHostdev(_Live):
    """Ask the guest to release a device. The guest may refuse."""

    verb = "unplug_hostdev"

    def inverse(self) -> PlugHostdev:
        return PlugHostdev(vm=self.vm, vm_name=self.vm_name, slot=self.slot, device=self.device, port=self.port)

    def after(self, domain: Domain) -> Domain:
        if domain.live is None or self.device not in domain.live:
            raise ImpossibleStepError(f"{domain.name} does not run with that device")
        return replace(domain, live=tuple(device for device in domain.live if device != self.device))


@dataclass(frozen=True, slots=True, kw_only=True)
class StartVm(OfVm):
    """Start a VM that is shut off. Nothing undoes the start: the guest may be at work by then."""

    verb = "start_vm"
    is_final = True

    def inverse(self) -> StartVm:
        return self

    def facts(self) -> dict[str, object]:
        return {"vm": self.vm_name}

    def after(self, domain: Domain) -> Domain:
        if domain.active:
            raise ImpossibleStepError(f"{domain.name} runs already")
        return replace(domain, active=True, start_failed=False, live=domain.inactive, live_guest=domain.guest)


DefinitionStep = ClaimStep | AttachHostdev | DetachHostdev | PlugHostdev | UnplugHostdev | StartVm
