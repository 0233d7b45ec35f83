"""Plans a change of a GPU's mode, to any mode: for `mode set`, and for a declared mode."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vgpumgr.core.driver import modes
from vgpumgr.core.driver.modes import EQUAL_SIZE, MIG, MIXED_SIZE
from vgpumgr.core.gpu import evacuate, mig_mode, mode_plan, size_mode
from vgpumgr.wording import Command

if TYPE_CHECKING:
    from vgpumgr.core.driver.modes import Mode
    from vgpumgr.core.gpu.mode_plan import ModePlan, ModeRequest
    from vgpumgr.core.model.snapshot import Gpu
    from vgpumgr.core.model.view import HostView


def ended(view: HostView, gpu: Gpu) -> Mode | None:
    """The mode that a GPU lost at a reboot, if missing vGPUs of ours or reserved places are of that mode; else None."""
    if gpu.mode is None or not gpu.rules.is_default:
        return None
    others: tuple[Mode, ...] = (MIXED_SIZE, MIG) if gpu.mig else (MIXED_SIZE,)
    volatile_modes = [mode for mode in others if modes.of(mode).ends_with_boot(gpu.board_names)]
    missing_modes = {one.vgpu.made_in for one in view.snapshot.reservations if one.vgpu.gpu_uuid == gpu.uuid}
    if any(entry.vgpu.made_in in volatile_modes for entry in view.snapshot.ledger or ()):  # only few hosts need it
        missing_modes |= _missing(view, gpu)
    return next((mode for mode in volatile_modes if mode in missing_modes), None)


def _missing(view: HostView, gpu: Gpu) -> set[Mode]:
    return {one.entry.vgpu.made_in for one in evacuate.entries(view, gpu) if one.vgpu is None and one.whole}


def leaving(gpu: Gpu, host: str, pci: str) -> Command:
    """The command that gives a GPU the default mode again. `pci`: its address, or a placeholder for several."""
    reset = () if gpu.rules.ends_with_boot(gpu.board_names) else ("--allow-reset",)
    return Command("vgpumgr", "mode", "set", EQUAL_SIZE, "--on", host, "--gpu-id", pci, *reset)


def plan_mode(view: HostView, request: ModeRequest) -> ModePlan:
    """Plan the steps that set the mode. Raises RefusedPlan, InUse, Unsure or LedgerBroken; changes nothing."""
    gpu = mode_plan.find_gpu(view, request)
    return (
        mig_mode.plan_mig(view, request)
        if mig_mode.is_about(view, gpu, request)
        else size_mode.plan_mode(view, request)
    )
