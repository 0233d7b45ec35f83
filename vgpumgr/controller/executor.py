"""One step carried out on one host: claim and hostdev through libvirt, all else through the host program."""

from __future__ import annotations

import logging
import threading
from typing import TYPE_CHECKING

from vgpumgr import templates
from vgpumgr.controller.waiting import wait_for_end
from vgpumgr.core.model import claims, domain_xml
from vgpumgr.core.plan import changes
from vgpumgr.link import moments

if TYPE_CHECKING:
    from collections.abc import Mapping

    from vgpumgr.controller.session import Session
    from vgpumgr.core.plan.plan import AnyPlan
    from vgpumgr.host.protocol import AnyStep, ModprobeStep, SchedulerStep
    from vgpumgr.host.protocol import Step as WireStep
    from vgpumgr.link.program import ExecuteResult
    from vgpumgr.names import GpuUuid, VmUuid

STEP_DEADLINE_S = 20.0
logger = logging.getLogger(__name__)


class Executor:
    """Does one step at a time, keeping each claim document as it was last written and schedulers as they were read back."""

    def __init__(self, session: Session, plan: AnyPlan) -> None:
        self.session = session
        self.plan = plan
        self.documents: dict[VmUuid, claims.ClaimDocument | None] = {}
        self.interrupted = threading.Event()  # a step that waits for a VM's end waits no longer
        self._policies: dict[GpuUuid, Mapping[str, str | None]] = {}

    def execute(self, step: changes.Step) -> None:
        host = self.session.declaration.name
        logger.info("%s: %s %s", host, step.verb, changes.record(step))
        moments.tell(host, "begin", step.verb)
        self._do(step)
        moments.tell(host, "end", step.verb)

    def _do(self, step: changes.Step) -> None:
        match step:
            case changes.PutClaim():
                self._write(step.vm, self._document(step.vm).put(step.claim))
            case changes.DropClaim():
                self._write(step.vm, self._document(step.vm).drop(step.before.slot))
            case changes.AttachHostdev():
                self.session.link.program.assert_fresh()
                self.session.link.hypervisor().attach_device(step.vm, templates.render_hostdev(step.device))
            case changes.DetachHostdev():
                self.session.link.program.assert_fresh()
                self.session.link.hypervisor().detach_device(step.vm, templates.render_hostdev(step.device))
            case changes.CreateVgpu() | changes.EnterVgpu():
                told = self.session.link.program.execute(wire_step(step), deadline_s=STEP_DEADLINE_S)
                if told["note"] is not None:
                    self.tell(told["note"])
            case changes.DestroyVgpu() | changes.ParkVgpu():
                self._patiently(wire_step(step))
            case changes.SetScheduler():
                self._set_scheduler(step)
            case changes.WriteModprobe():
                self.session.link.program.execute(_wire_modprobe(step), deadline_s=STEP_DEADLINE_S)

    def _patiently(self, step: AnyStep) -> ExecuteResult:
        """A step that waits for the end of a VM that is ending."""
        program = self.session.link.program
        return wait_for_end(
            lambda: program.execute(step, deadline_s=STEP_DEADLINE_S), tell=self.tell, stop=self.interrupted
        )

    def tell(self, line: str) -> None:
        """One line for a person, with the host's name before it where it has none."""
        host = self.session.declaration.name
        self.session.context.progress(line if line.startswith(f"{host}: ") else f"{host}: {line}")

    def write_claims_again(self, vm: VmUuid) -> None:
        """The claims as they were last written: after a write that failed libvirt may have others in its memory."""
        self._write(vm, self._document(vm))

    def take_back_hostdev(self, step: changes.AttachHostdev | changes.DetachHostdev) -> None:
        """Take a step back where the VM's definition shows that it was done, under the step's own alias."""
        documents = self.session.link.hypervisor().domain(step.vm)
        found = () if documents is None else domain_xml.read_domain(documents).inactive
        there = any(device.same_device(step.device) and device.alias == step.device.alias for device in found)
        if documents is not None and there == isinstance(step, changes.AttachHostdev):
            self.execute(changes.inverse(step))

    def _set_scheduler(self, step: changes.SetScheduler) -> None:
        """What an engine shows after a set is read back: only so can the set be taken back."""
        expect = self._policies.get(step.gpu_uuid, step.expect)
        told = self._patiently(_wire_scheduler(step, expect))
        found = told["scheduler"]
        if found is not None:
            self._policies[step.gpu_uuid] = {engine["engine"]: engine["policy"] for engine in found["engines"]}
        if told["note"] is not None:
            self.session.context.progress(f"{self.session.declaration.name}: {told['note']}")

    def _document(self, vm: VmUuid) -> claims.ClaimDocument:
        found = self.documents[vm] if vm in self.documents else self.plan.claims_of(vm)
        return found or claims.ClaimDocument(vm=vm)

    def _write(self, vm: VmUuid, document: claims.ClaimDocument) -> None:
        text = templates.render_claims(document, stored=False) if document.claims else None
        self.session.link.program.assert_fresh()
        self.session.link.hypervisor().set_metadata(vm, text, key=claims.KEY, uri=claims.NAMESPACE)
        self.documents[vm] = document


def wire_step(step: changes.CreateVgpu | changes.EnterVgpu | changes.DestroyVgpu | changes.ParkVgpu) -> WireStep:
    """The step as the host program is told it."""
    vgpu = step.vgpu
    return {
        "verb": changes.CreateVgpu.verb if isinstance(step, changes.EnterVgpu) else step.verb,
        "vm": vgpu.vm,
        "vm_name": vgpu.vm_name,
        "slot": vgpu.slot,
        "generation": vgpu.generation,
        "gpu": vgpu.gpu_uuid,
        "gpu_pci": vgpu.gpu,
        "vf": vgpu.vf_index,
        "parent": vgpu.parent,
        "uuid": vgpu.uuid,
        "type_id": vgpu.type_id,
        "type_name": vgpu.type_name,
        "placement_id": None,
        "mig": None,
        "expect": _expect(step),
        "runs": False if isinstance(step, changes.EnterVgpu) else step.runs,
        "listed": step.listed if isinstance(step, changes.DestroyVgpu | changes.ParkVgpu) else False,
    }


def _expect(step: changes.CreateVgpu | changes.EnterVgpu | changes.DestroyVgpu | changes.ParkVgpu) -> str:
    match step:
        case changes.EnterVgpu():
            return changes.SAME
        case changes.ParkVgpu():
            return changes.PRESENT
        case _:
            return step.expect


def _wire_scheduler(step: changes.SetScheduler, expect: Mapping[str, str | None]) -> SchedulerStep:
    setting = step.setting
    return {
        "verb": step.verb,
        "gpu": step.gpu_uuid,
        "gpu_pci": step.gpu,
        "api": step.api,
        "setting": {
            "policy": setting.policy,
            "arr": setting.arr,
            "averaging_factor": setting.averaging_factor,
            "frequency_hz": setting.frequency_hz,
            "time_slice_ns": setting.time_slice_ns,
        },
        "expect": dict(expect),
    }


def _wire_modprobe(step: changes.WriteModprobe) -> ModprobeStep:
    return {
        "verb": step.verb,
        "path": step.path,
        "text": templates.render_conf(step.text),
        "expect": templates.render_conf(step.before),
    }
