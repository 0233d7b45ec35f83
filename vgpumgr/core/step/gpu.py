"""Steps that set a GPU's scheduler, mode or functions, or reset it.

set_scheduler   every engine of a GPU, at run time            ← set_scheduler
set_mode        mixed-size mode of a GPU on or off            ← set_mode
set_vfs         a GPU's virtual functions, by sriov-manage    ← set_vfs
set_mig         MIG mode of a GPU without virtual functions   ← set_mig
reset_gpu       a reset of one GPU                            (nothing undoes it)
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from vgpumgr.core.driver import scheduler
from vgpumgr.core.driver.mig_order import Move
from vgpumgr.core.step.base import OfGpu

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from vgpumgr.core.driver.mig import InstanceProfile
    from vgpumgr.core.driver.modes import Mode
    from vgpumgr.core.driver.scheduler import Policy, Setting
    from vgpumgr.core.model.snapshot import FrameworkName
    from vgpumgr.core.step.vgpu import CreateVgpu, EvacuateVgpu

__all__ = ["GpuStep", "MigStep", "ResetGpu", "SetMig", "SetMode", "SetScheduler", "SetVfs"]

_NOT_SUPPORTED = 3  # NVML_ERROR_NOT_SUPPORTED
_IN_USE = 19  # NVML_ERROR_IN_USE


def _names(around: Iterable[EvacuateVgpu]) -> list[str]:
    return [f"{step.vgpu.vm_name} {step.vgpu.slot}" for step in around]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Around(OfGpu):
    """`around`: the idle vGPUs that are removed and re-created if, and only if, the driver refuses because of them."""

    around: tuple[EvacuateVgpu, ...] = ()

    is_apart = True

    @property
    def writes_ledger(self) -> bool:
        return bool(self.around)


@dataclass(frozen=True, slots=True, kw_only=True)
class SetScheduler(_Around):
    """Set a GPU's scheduler. `expect`: each engine's policy as read. `before`: what an undo restores, if known."""

    api: int
    setting: Setting
    before: Setting
    expect: Mapping[str, Policy | None]

    verb = "set_scheduler"
    is_grave = True

    def inverse(self) -> SetScheduler:
        expect = {engine: None if policy is None else self.setting.policy for engine, policy in self.expect.items()}
        return replace(self, setting=self.before, before=self.setting, expect=expect, around=())

    def instead(self, nvml_code: int) -> tuple[SetScheduler | CreateVgpu | EvacuateVgpu, ...]:
        """The steps to take if the driver refused this one with this NVML return code because of its vGPUs; else none.

        nvml.h on nvmlDeviceSetVgpuSchedulerState: NOT_SUPPORTED and IN_USE if "any vGPU instance currently exists on
        the device". Drivers differ in whether an idle one counts, so the plain step is tried first.
        """
        if not self.around or nvml_code not in (_NOT_SUPPORTED, _IN_USE):
            return ()
        return (*self.around, replace(self, around=()), *(evacuation.inverse() for evacuation in self.around))

    def facts(self) -> dict[str, object]:
        return {
            "host": self.host,
            "gpu": self.gpu,
            "policy": self.setting.policy,
            "time_slice_ns": self.setting.time_slice_ns,
            "frequency_hz": self.setting.frequency_hz,
            "averaging_factor": self.setting.averaging_factor,
            "rm_pvmrl": scheduler.rm_pvmrl(self.setting),
            "around": _names(self.around),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class SetMode(_Around):
    """Set the mode of a GPU. `expect`: the mode as read; an undo restores it.

    `back`: the steps that re-create the idle vGPUs in `mode`.
    """

    mode: Mode
    expect: Mode
    back: tuple[CreateVgpu, ...] = ()

    verb = "set_mode"

    def inverse(self) -> SetMode:
        return replace(self, mode=self.expect, expect=self.mode, around=(), back=())

    def instead(self, nvml_code: int) -> tuple[SetMode | CreateVgpu | EvacuateVgpu, ...]:
        """The steps to take if the driver refused this one with this NVML return code because of its vGPUs; else none.

        nvml.h on Set…HeterogeneousMode: IN_USE if the GPU has vGPUs, NOT_SUPPORTED if it has no such mode.
        """
        if not self.around or nvml_code != _IN_USE:
            return ()
        return (*self.around, replace(self, around=(), back=()), *self.back)

    def facts(self) -> dict[str, object]:
        return {"host": self.host, "gpu": self.gpu, "mode": self.mode, "around": _names(self.around)}


@dataclass(frozen=True, slots=True, kw_only=True)
class SetVfs(OfGpu):
    """Make or remove the virtual functions of a GPU without vGPUs. The GPU loses its GPU instances.

    `framework`: the vGPU framework of the GPU with virtual functions; None if unknown, because they are off now.
    """

    on: bool
    framework: FrameworkName | None = field(compare=False)

    verb = "set_vfs"
    writes_ledger = True

    @property
    def move(self) -> Move:
        return Move.MAKE_FUNCTIONS if self.on else Move.TAKE_FUNCTIONS

    def inverse(self) -> SetVfs:
        return replace(self, on=not self.on)

    def facts(self) -> dict[str, object]:
        return {"host": self.host, "gpu": self.gpu, "on": self.on}


@dataclass(frozen=True, slots=True, kw_only=True)
class SetMig(OfGpu):
    """Turn MIG mode of a GPU without virtual functions on or off. `expect`: whether it is on now.

    `profiles`: the GPU instance profiles that the GPU will have, as far as they are known beforehand.
    """

    on: bool
    expect: bool
    profiles: tuple[InstanceProfile, ...] = field(compare=False)

    verb = "set_mig"
    move = Move.SET

    def inverse(self) -> SetMig:
        return replace(self, on=self.expect, expect=self.on)

    def facts(self) -> dict[str, object]:
        return {"host": self.host, "gpu": self.gpu, "on": self.on}


@dataclass(frozen=True, slots=True, kw_only=True)
class ResetGpu(OfGpu):
    """Reset this GPU, which has no virtual functions or vGPUs. `profiles`: its GPU instance profiles afterwards."""

    profiles: tuple[InstanceProfile, ...] = field(compare=False)

    verb = "reset_gpu"
    move = Move.RESET
    is_final = True

    def inverse(self) -> ResetGpu:
        return self

    def facts(self) -> dict[str, object]:
        return {"host": self.host, "gpu": self.gpu}


GpuStep = SetScheduler | SetMode
MigStep = SetVfs | SetMig | ResetGpu
