"""A GPU's mode, whichever: the plan of `mode set`, and of a declared mode."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vgpumgr.core.plan import mig_mode, mode

if TYPE_CHECKING:
    from vgpumgr.core.model.view import HostView
    from vgpumgr.core.plan.mode import ModePlan, ModeRequest


def plan_mode(view: HostView, request: ModeRequest) -> ModePlan:
    """Plan the steps that set the mode. Raises RefusedPlan, InUse, Unsure or LedgerBroken; changes nothing."""
    gpu = mode.find_gpu(view, request)
    return mig_mode.plan_mig(view, request) if mig_mode.is_about(view, gpu, request) else mode.plan_mode(view, request)
