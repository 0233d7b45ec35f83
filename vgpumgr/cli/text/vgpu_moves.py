"""The lines of vGPUs that are moved out and back while a setting of their GPU changes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vgpumgr.core import step as steps

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from vgpumgr.controller.results import Planned
    from vgpumgr.core.gpu.mode_plan import ModePlan
    from vgpumgr.core.gpu.scheduler import SchedulerPlan
    from vgpumgr.core.model.vgpu import VgpuSpec


def gpu_lines(planned: Planned[SchedulerPlan] | Planned[ModePlan], steps: Iterable[str]) -> Iterator[str]:
    """The head of a plan about a GPU, and the lines of its steps."""
    gpu = planned.plan.gpu
    yield f"GPU {gpu.pci} on {planned.host} ({gpu.board or gpu.name or '?'}), requested {planned.requested}"
    yield from (f"  {text}" for text in steps)


def move_line(step: steps.Step, plan: Sequence[steps.Step], *, maybe: bool = False) -> str:
    """The line of one step. `maybe`: it is taken only if the driver refuses the change because of this vGPU."""
    match step:
        case steps.EvacuateVgpu() if maybe:
            return f"? vGPU    {vgpu_text(step.vgpu)}      removed for a moment and re-created, only if the driver requires it"
        case steps.EvacuateVgpu():
            return f"< vGPU    {vgpu_text(step.vgpu)}      removed for a moment"
        case steps.CreateVgpu(expect=steps.SAME):
            return f"= vGPU    {vgpu_text(step.vgpu)}      created by a run that did not finish"
        case steps.CreateVgpu():
            has_evacuation = any(
                isinstance(other, steps.EvacuateVgpu) and other.vgpu.key == step.vgpu.key for other in plan
            )
            return f"> vGPU    {vgpu_text(step.vgpu)}{place_of(step.vgpu)}      re-created{'' if has_evacuation else ', it was gone'}"
        case _:
            return step.verb


def place_of(vgpu: VgpuSpec) -> str:
    """Where the vGPU lies in its GPU, in mixed-size mode. The text continues a line about the vGPU."""
    return "" if vgpu.placement_id is None else f", {place_text(vgpu.placement_id)}"


def place_text(place: int | None) -> str:
    return "no placement id" if place is None else f"placement id {place}"


def vgpu_text(vgpu: VgpuSpec) -> str:
    """The vGPU in words: `vm01 vgpu0: A40-4Q on 0000:41:00.4`."""
    return f"{vgpu.vm_name} {vgpu.slot}: {vgpu.type_name} on {vgpu.parent}"
