"""Exchanging a slot's vGPU at its own place: the old one is removed first, because the new one fits only there.

If a GPU in equal-size mode holds nothing else, another size fits only once the old vGPU is gone. If a run ends in
between, the VM's claim still asks for the old vGPU: the same command continues, while reconcile would re-create the old
vGPU. If the new one cannot be created, undoing the steps re-creates the old one at its place.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from vgpumgr.core import step as plan_steps
from vgpumgr.core.commands import command
from vgpumgr.core.evidence import saved_states
from vgpumgr.core.slot import detach
from vgpumgr.wording import say

if TYPE_CHECKING:
    from vgpumgr.core.model.domain_xml import Domain
    from vgpumgr.core.model.view import HostView
    from vgpumgr.names import Slot


def leaving_steps(view: HostView, domain: Domain, slot: Slot) -> tuple[plan_steps.Step, ...]:
    """The steps that free the slot's vGPU but keep its claim; none without a vGPU. Raises if anything holds it."""
    old = view.entries(domain.uuid, slot)  # even if the vGPU is gone: an entry keeps its place until it is freed
    if not old:
        return ()
    free = command("detach", domain.name, slot=slot, options=["--keep-snapshots"])
    saved_states.guard_entries(view, domain, slot, old, keep=False, way_on=say("first `{}`", free))
    devices = {entry.vgpu.device for entry in old}
    detach_steps = tuple(
        plan_steps.DetachHostdev(vm=domain.uuid, vm_name=domain.name, slot=slot, device=device)
        for device in domain.inactive
        if device.source in devices
    )
    return (*detach_steps, *detach.destroy_steps(view, domain, old))
