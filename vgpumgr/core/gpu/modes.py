"""A GPU's mode, whichever: the plan of `mode set`, and of a declared mode."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vgpumgr.core.driver import mig
from vgpumgr.core.gpu import mig_mode, mode_plan, size_mode
from vgpumgr.core.model.snapshot import EQUAL_SIZE, MIG, MIXED_SIZE

if TYPE_CHECKING:
    from vgpumgr.core.gpu.mode_plan import ModePlan, ModeRequest
    from vgpumgr.core.model.snapshot import Gpu, Mode
    from vgpumgr.core.model.view import HostView


def ended(view: HostView, gpu: Gpu) -> Mode | None:
    """The mode that a GPU lost with a reboot, and that vGPUs of ours were made in that are missing now; None if there is none."""
    if size_mode.has_ended(view, gpu):
        return MIXED_SIZE
    return MIG if mig_mode.has_ended(view, gpu) else None


def leaving(gpu: Gpu, on: str) -> str:
    """The command that gives a GPU equal-size mode again. `on`: the options that name the GPU."""
    reset = " --allow-reset" if outlasts_boot(gpu) else ""
    return f"vgpumgr mode set {EQUAL_SIZE} {on}{reset}"


def outlasts_boot(gpu: Gpu) -> bool:
    """Whether a GPU will be in its mode after the next boot: MIG mode on a board that changes it with a reset alone."""
    return gpu.mode == MIG and mig.needs_reset(gpu.board_names)


def plan_mode(view: HostView, request: ModeRequest) -> ModePlan:
    """Plan the steps that set the mode. Raises RefusedPlan, InUse, Unsure or LedgerBroken; changes nothing."""
    gpu = mode_plan.find_gpu(view, request)
    return (
        mig_mode.plan_mig(view, request)
        if mig_mode.is_about(view, gpu, request)
        else size_mode.plan_mode(view, request)
    )
