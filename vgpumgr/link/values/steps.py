"""A plan's step → the step in the host program's protocol."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vgpumgr.core import step as steps
from vgpumgr.host.protocol.ledger import CordonText, ReservationTerms
from vgpumgr.host.protocol.steps import (
    AnyStep,
    CordonStep,
    InstanceStep,
    MigModeStep,
    ModeStep,
    ModprobeStep,
    ReservationStep,
    ResetStep,
    SchedulerStep,
    Step,
    VfsStep,
)
from vgpumgr.link.values.by_name import render

if TYPE_CHECKING:
    from vgpumgr.core.model.snapshot import Cordon

# The keys that only some steps of a vGPU have, with their values for the other steps.
_UNSAID = {"param": None, "replaces": None, "runs": False, "listed": False}


def wire_step(step: steps.HostStep) -> AnyStep:
    match step:
        case steps.SetScheduler():
            return render(SchedulerStep, step)
        case steps.SetMode():
            return render(ModeStep, step, expect=step.before)
        case steps.CreateInstance() | steps.DestroyInstance():
            return render(InstanceStep, step.instance, verb=step.verb, expect=step.expect)
        case steps.SetVfs():
            return render(VfsStep, step, expect=not step.on)
        case steps.SetMig():
            return render(MigModeStep, step, expect=step.before)
        case steps.ResetGpu():
            return render(ResetStep, step)
        case steps.WriteModprobe():
            return render(ModprobeStep, step, expect=step.before)
        case steps.SetCordon():
            return render(CordonStep, step, expect=_cordon(step.before))
        case steps.SetReservation():
            terms = step.terms and render(ReservationTerms, step.terms)
            return render(ReservationStep, step.vgpu, verb=step.verb, vm_uuid=step.vgpu.vm, terms=terms)
        case _:
            return _vgpu(step)


def _cordon(cordon: Cordon | None) -> CordonText | None:
    return None if cordon is None else render(CordonText, cordon)


def _vgpu(step: steps.VgpuStep) -> Step:
    verb = steps.CreateVgpu.verb if isinstance(step, steps.EnterVgpu) else step.verb
    fields = {key: getattr(step, key, unsaid) for key, unsaid in _UNSAID.items()}
    return render(Step, step.vgpu, verb=verb, vm_uuid=step.vgpu.vm, expect=step.expect, **fields)
