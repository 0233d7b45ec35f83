"""A plan's step → the step in the host program's protocol."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vgpumgr.core.plan import changes

if TYPE_CHECKING:
    from vgpumgr.host import protocol


def wire_step(step: changes.HostStep) -> protocol.AnyStep:
    match step:
        case changes.SetScheduler():
            return _scheduler(step)
        case changes.WriteModprobe():
            return _modprobe(step)
        case _:
            return _vgpu(step)


def _vgpu(step: changes.VgpuStep) -> protocol.Step:
    vgpu = step.vgpu
    return {
        "verb": changes.CreateVgpu.verb if isinstance(step, changes.EnterVgpu) else step.verb,
        "vm_uuid": vgpu.vm,
        "vm_name": vgpu.vm_name,
        "slot": vgpu.slot,
        "generation": vgpu.generation,
        "gpu_uuid": vgpu.gpu_uuid,
        "gpu": vgpu.gpu,
        "vf_index": vgpu.vf_index,
        "parent": vgpu.parent,
        "uuid": vgpu.uuid,
        "type_id": vgpu.type_id,
        "type_name": vgpu.type_name,
        "expect": _expect(step),
        "runs": False if isinstance(step, changes.EnterVgpu) else step.runs,
        "listed": step.listed if isinstance(step, changes.DestroyVgpu | changes.ParkVgpu) else False,
    }


def _expect(step: changes.VgpuStep) -> protocol.Expect:
    match step:
        case changes.EnterVgpu():
            return changes.SAME
        case changes.ParkVgpu():
            return changes.PRESENT
        case _:
            return step.expect


def _scheduler(step: changes.SetScheduler) -> protocol.SchedulerStep:
    setting = step.setting
    return {
        "verb": step.verb,
        "gpu_uuid": step.gpu_uuid,
        "gpu": step.gpu,
        "api": step.api,
        "setting": {
            "policy": setting.policy,
            "arr": setting.arr,
            "averaging_factor": setting.averaging_factor,
            "frequency_hz": setting.frequency_hz,
            "time_slice_ns": setting.time_slice_ns,
        },
        "expect": dict(step.expect),
    }


def _modprobe(step: changes.WriteModprobe) -> protocol.ModprobeStep:
    from vgpumgr import templates

    return {
        "verb": step.verb,
        "path": step.path,
        "text": templates.render_conf(step.text),
        "expect": templates.render_conf(step.before),
    }
