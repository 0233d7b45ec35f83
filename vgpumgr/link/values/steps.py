"""A plan's step → the step in the host program's protocol."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, cast

from vgpumgr.core import step as steps

if TYPE_CHECKING:
    from vgpumgr.core.model.mig import MigPlace
    from vgpumgr.core.model.snapshot import Cordon
    from vgpumgr.host import protocol


def wire_step(step: steps.HostStep) -> protocol.AnyStep:
    match step:
        case steps.SetScheduler():
            return _scheduler(step)
        case steps.SetMode():
            return {
                "verb": step.verb,
                "gpu_uuid": step.gpu_uuid,
                "gpu": step.gpu,
                "mode": step.mode,
                "expect": step.before,
            }
        case steps.CreateInstance() | steps.DestroyInstance():
            return _instance(step)
        case steps.SetVfs() | steps.SetMig() | steps.ResetGpu():
            return _mig(step)
        case steps.WriteModprobe():
            return _modprobe(step)
        case steps.SetCordon():
            return {
                "verb": step.verb,
                "gpu_uuid": step.gpu_uuid,
                "gpu": step.gpu,
                "cordon": _cordon(step.cordon),
                "expect": _cordon(step.before),
            }
        case _:
            return _vgpu(step)


def _cordon(cordon: Cordon | None) -> protocol.CordonText | None:
    return None if cordon is None else {"reason": cordon.reason, "by": cordon.by, "at": cordon.at}


def _vgpu(step: steps.VgpuStep) -> protocol.Step:
    vgpu = step.vgpu
    return {
        "verb": steps.CreateVgpu.verb if isinstance(step, steps.EnterVgpu) else step.verb,
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
        "placement_id": vgpu.placement_id,
        "mig": _mig_place(vgpu.mig),
        "expect": _expect(step),
        "param": step.param if isinstance(step, steps.CreateVgpu) else None,
        "replaces": step.replaces if isinstance(step, steps.CreateVgpu) else None,
        "runs": False if isinstance(step, steps.EnterVgpu) else step.runs,
        "listed": step.listed if isinstance(step, steps.DestroyVgpu | steps.EvacuateVgpu) else False,
    }


def _instance(step: steps.InstanceStep) -> protocol.InstanceStep:
    instance = step.instance
    return {
        "verb": step.verb,
        "gpu_uuid": instance.gpu_uuid,
        "gpu": instance.gpu,
        "profile": instance.profile,
        "profile_id": instance.profile_id,
        "start": instance.start,
        "size": instance.size,
        "expect": step.expect,
    }


def _mig(step: steps.MigStep) -> protocol.AnyStep:
    if isinstance(step, steps.ResetGpu):
        return {"verb": step.verb, "gpu_uuid": step.gpu_uuid, "gpu": step.gpu}
    expect = step.before if isinstance(step, steps.SetMig) else not step.on
    return {"verb": step.verb, "gpu_uuid": step.gpu_uuid, "gpu": step.gpu, "on": step.on, "expect": expect}


def _mig_place(place: MigPlace | None) -> protocol.MigPlace | None:
    if place is None:
        return None
    return {"profile": place.profile, "profile_id": place.profile_id, "start": place.start}


def _expect(step: steps.VgpuStep) -> protocol.Expect:
    match step:
        case steps.EnterVgpu():
            return steps.SAME
        case steps.EvacuateVgpu():
            return steps.PRESENT
        case _:
            return step.expect


def _scheduler(step: steps.SetScheduler) -> protocol.SchedulerStep:
    return {
        "verb": step.verb,
        "gpu_uuid": step.gpu_uuid,
        "gpu": step.gpu,
        "api": step.api,
        "setting": cast("protocol.SchedulerSetting", asdict(step.setting)),
        "expect": dict(step.expect),
    }


def _modprobe(step: steps.WriteModprobe) -> protocol.ModprobeStep:
    return {
        "verb": step.verb,
        "path": step.path,
        "text": step.text,
        "expect": step.before,
    }
