"""One step carried out on one host: claim and hostdev through libvirt, vGPU and ledger through the host program."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from vgpumgr import templates
from vgpumgr.core import changes, claims

if TYPE_CHECKING:
    from vgpumgr.controller.session import Session
    from vgpumgr.core.plan import Plan
    from vgpumgr.host.protocol import Step as WireStep

STEP_DEADLINE_S = 20.0
logger = logging.getLogger(__name__)


class Executor:
    """Does one step at a time, keeping the claim document as it was last written."""

    def __init__(self, session: Session, plan: Plan) -> None:
        self.session = session
        self.plan = plan
        self.document = plan.vm.claims or claims.ClaimDocument(vm=plan.vm.uuid)

    def execute(self, step: changes.Step) -> None:
        logger.info("%s: %s %s", self.session.declaration.name, step.verb, changes.as_json(step))
        match step:
            case changes.PutClaim():
                self._write(self.document.put(step.claim))
            case changes.DropClaim():
                self._write(self.document.drop(step.before.slot))
            case changes.AttachHostdev():
                self.session.link.program.assert_fresh()
                self.session.link.hypervisor().attach_device(step.vm, templates.render_hostdev(step.device))
            case changes.DetachHostdev():
                self.session.link.program.assert_fresh()
                self.session.link.hypervisor().detach_device(step.vm, templates.render_hostdev(step.device))
            case changes.CreateVgpu() | changes.DestroyVgpu():
                self.session.link.program.execute(wire_step(step), deadline_s=STEP_DEADLINE_S)

    def _write(self, document: claims.ClaimDocument) -> None:
        text = templates.render_claims(document, stored=False) if document.claims else None
        self.session.link.program.assert_fresh()
        self.session.link.hypervisor().set_metadata(self.plan.vm.uuid, text, key=claims.KEY, uri=claims.NAMESPACE)
        self.document = document


def wire_step(step: changes.CreateVgpu | changes.DestroyVgpu) -> WireStep:
    """The step as the host program is told it."""
    vgpu = step.vgpu
    return {
        "verb": step.verb,
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
        "expect": step.expect,
    }
