"""A plan that makes or removes the GPU instances of one GPU."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from vgpumgr.core import step as steps
from vgpumgr.core.slot import plan as plans

if TYPE_CHECKING:
    from vgpumgr import errors
    from vgpumgr.core.model.snapshot import Gpu
    from vgpumgr.core.model.view import HostView


@dataclass(frozen=True, slots=True, kw_only=True)
class InstancePlan(plans.AnyPlan):
    """`in_use`: how many of the GPU's instances stay because they are ours and hold a vGPU; 0 in a plan that only makes some.

    `unmet`: why not all that is declared is made.
    """

    gpu: Gpu
    in_use: int = 0
    unmet: errors.NoCapacity | None = None

    @property
    def about(self) -> str:
        return f"GPU instances of {self.gpu.pci}"

    @property
    def gpus(self) -> tuple[str, ...]:
        return tuple(sorted({step.instance.gpu_uuid for step in self.steps if isinstance(step, steps.InstanceStep)}))

    def rests_on(self, view: HostView) -> tuple[object, ...]:
        return plans.of_host(view)
