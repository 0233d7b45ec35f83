"""Findings about VMs that are off but whose QEMU has not exited; host/steps/guard.py waits for its exit."""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING

from vgpumgr.core import step as plan_steps
from vgpumgr.core.model import view as views
from vgpumgr.core.model.view import Finding
from vgpumgr.wording import Own, joined, say

if TYPE_CHECKING:
    from collections.abc import Iterable

    from vgpumgr.core.model.vgpu import VgpuSpec
    from vgpumgr.core.model.view import HostView


def findings(view: HostView, steps: Iterable[plan_steps.Step]) -> tuple[Finding, ...]:
    """A finding for each vGPU that a step removes, if something that is about to end may still hold that vGPU."""
    findings: list[Finding] = []
    for step in chain.from_iterable(one.around if isinstance(one, plan_steps.GpuStep) else (one,) for one in steps):
        if not isinstance(step, plan_steps.DestroyVgpu | plan_steps.EvacuateVgpu):
            continue
        lines = _lines(view, step.vgpu)
        if lines:
            text = say(
                "{} slot {}: its vGPU will be removed once this has ended by itself: {}",
                step.vgpu.vm_name,
                step.vgpu.slot,
                joined("; ", lines),
            )
            findings.append(
                Finding(kind="ending", host=view.snapshot.host, vm=step.vgpu.vm_name, slot=step.vgpu.slot, text=text)
            )
    return tuple(findings)


def _lines(view: HostView, spec: VgpuSpec) -> list[str]:
    vgpu = view.snapshot.vgpu_of(spec)
    if vgpu is None:
        return []
    ending = [
        say("the QEMU of {} has not ended ({}, state {})", spec.vm_name, Own(f"pid {qemu.pid}"), qemu.state)
        if qemu.vm_uuid == spec.vm or qemu.vm_name == spec.vm_name
        else say("a QEMU that may have had it has not ended ({}, state {})", Own(f"pid {qemu.pid}"), qemu.state)
        for qemu in view.snapshot.qemus or ()
        if qemu.ending
    ]
    return [*views.users(view, spec.device, vgpu).passing, *ending]
