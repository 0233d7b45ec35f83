"""Carries out one step on one host."""

from __future__ import annotations

import logging
import threading
from dataclasses import replace
from typing import TYPE_CHECKING

from vgpumgr import templates
from vgpumgr.controller.engine.unplugging import wait_until_gone
from vgpumgr.controller.engine.waiting import wait_for_end
from vgpumgr.core import step as steps
from vgpumgr.core.model import claims, domain_xml
from vgpumgr.link import moments
from vgpumgr.link.domain_query import DomainQuery

if TYPE_CHECKING:
    from collections.abc import Mapping

    from vgpumgr.controller.hosts.session import Session
    from vgpumgr.core.driver.scheduler import Policy
    from vgpumgr.core.slot.plan import AnyPlan
    from vgpumgr.link.host import StepResult
    from vgpumgr.names import GpuUuid, VmUuid

logger = logging.getLogger(__name__)


def _in_words(step: steps.Step) -> str:
    """A step for the log: its verb and its fields, `create_vgpu vm=vm01 slot=vgpu0 …`."""
    told = {key: value for key, value in step.record().items() if isinstance(value, str | int)}
    return " ".join(
        [step.verb, *(f"{key}={value}" for key, value in told.items() if key not in ("verb", "inverse", "host"))]
    )


class Executor:
    """Does one step at a time. Remembers the last written claims of each VM, and each scheduler as last read back."""

    def __init__(self, session: Session, plan: AnyPlan) -> None:
        self.session = session
        self.plan = plan
        self.documents: dict[VmUuid, claims.ClaimDocument | None] = {}
        self.interrupted = threading.Event()  # once it is set, a step that waits for a VM to stop gives up
        self._policies: dict[GpuUuid, Mapping[str, Policy | None]] = {}

    def execute(self, step: steps.Step) -> None:
        host = self.session.declaration.name
        logger.info("step %s", _in_words(step), extra={"host": host})
        moments.tell(host, "begin", step.verb)
        self._do(step)
        moments.tell(host, "end", step.verb)

    def _do(self, step: steps.Step) -> None:
        match step:
            case steps.ClaimStep():
                self._write(step.vm, step.edit(self._document(step.vm)))
            case steps.AttachHostdev():
                self.session.link.attach_device(step.vm, templates.render_hostdev(step.device, port=step.port))
            case steps.DetachHostdev():
                self.session.link.detach_device(step.vm, templates.render_hostdev(step.device))
            case steps.PlugHostdev():
                self.session.link.plug_device(step.vm, templates.render_hostdev(step.device, port=step.port))
            case steps.UnplugHostdev():
                self.session.link.unplug_device(step.vm, templates.render_hostdev(step.device))
                wait_until_gone(
                    lambda: self._read(step.vm),
                    step,
                    timing=self.session.context.timing,
                    tell=self.tell,
                    stop=self.interrupted,
                )
            case steps.StartVm():
                self.session.link.start_vm(step.vm)
            case steps.SetVfs() | steps.SetMig() | steps.ResetGpu():
                result = self.session.link.execute(step)
                # The note says that a reset is needed, which the user knows if the plan has one.
                if not any(isinstance(one, steps.ResetGpu) for one in self.plan.steps):
                    self._tell_note(result)
            case steps.DestroyVgpu() | steps.EvacuateVgpu() | steps.SetMode():
                self._patiently(step)
            case steps.SetScheduler():
                self._set_scheduler(step)
            case _:
                self._tell_note(self.session.link.execute(step))

    def _patiently(self, step: steps.HostStep) -> StepResult:
        """Run a step that waits for a VM to finish stopping."""
        return wait_for_end(
            lambda: self.session.link.execute(step),
            timing=self.session.context.timing,
            tell=self.tell,
            stop=self.interrupted,
        )

    def tell(self, line: str) -> None:
        """One line for the user, after the host's name."""
        self.session.context.progress(f"{self.session.declaration.name}: {line}")

    def write_claims_again(self, vm: VmUuid) -> None:
        """Write the last written claims again: after a failed write, libvirt can have other ones in memory."""
        self._write(vm, self._document(vm))

    def take_back_hostdev(self, step: steps.AttachHostdev | steps.DetachHostdev) -> None:
        """Undo a step if it was done: the VM's definition shows whether the device, by its alias, is there."""
        domain = self._read(step.vm)
        if domain is not None:
            there = any(one.source == step.device.source and one.alias == step.device.alias for one in domain.inactive)
            if there == isinstance(step, steps.AttachHostdev):
                self.execute(step.inverse())

    def _read(self, vm: VmUuid) -> domain_xml.Domain | None:
        """The VM now; None if the host no longer has it."""
        found = self.session.link.domains(DomainQuery(only=(vm,))).domains
        return domain_xml.read_domain(found[0]) if found else None

    def _set_scheduler(self, step: steps.SetScheduler) -> None:
        """Set the scheduler, and remember what was read back: the step's undo needs it."""
        expect = self._policies.get(step.gpu_uuid, step.expect)
        result = self._patiently(replace(step, expect=expect))
        if result.scheduler is not None:
            self._policies[step.gpu_uuid] = result.scheduler.policies
        self._tell_note(result)

    def _tell_note(self, result: StepResult) -> None:
        if result.note is not None:
            self.tell(result.note)

    def _document(self, vm: VmUuid) -> claims.ClaimDocument:
        found = self.documents[vm] if vm in self.documents else self.plan.claims_of(vm)
        return found or claims.ClaimDocument(vm=vm)

    def _write(self, vm: VmUuid, document: claims.ClaimDocument) -> None:
        text = templates.render_claims(document) if document else None
        self.session.link.set_metadata(vm, text, key=claims.KEY, uri=claims.NAMESPACE)
        self.documents[vm] = document
