"""A plan's step → the step in the host program's protocol."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vgpumgr.core import step as steps
from vgpumgr.host.protocol.ledger import ReservationTerms
from vgpumgr.host.protocol.steps import SHAPES
from vgpumgr.link.values.by_name import render

if TYPE_CHECKING:
    from collections.abc import Callable

    from vgpumgr.host.protocol.steps import AnyStep

# The keys that only some steps of a vGPU have, with their values for the other steps.
_UNSAID = {"param": None, "replaces": None, "runs": False, "listed": False}


def wire_step(step: steps.HostStep) -> AnyStep:
    """The step in the shape of its verb. Each key has the step's field of its name, unless a case says otherwise."""
    if isinstance(step, steps.EnterVgpu):
        step = steps.CreateVgpu(host=step.host, vgpu=step.vgpu, expect=steps.SAME)
    shape: Callable[..., AnyStep] = SHAPES[step.verb]
    match step:
        case steps.CreateVgpu() | steps.DestroyVgpu() | steps.EvacuateVgpu() | steps.DeferVgpu():
            fields = {key: getattr(step, key, unsaid) for key, unsaid in _UNSAID.items()}
            return render(shape, step.vgpu, verb=step.verb, vm_uuid=step.vgpu.vm, expect=step.expect, **fields)
        case steps.CreateInstance() | steps.DestroyInstance():
            return render(shape, step.instance, verb=step.verb, expect=step.expect)
        case steps.SetReservation():
            terms = step.terms and render(ReservationTerms, step.terms)
            return render(shape, step.vgpu, verb=step.verb, vm_uuid=step.vgpu.vm, terms=terms)
        case steps.SetVfs():
            return render(shape, step, expect=not step.on)
        case _:
            return render(shape, step)
