"""Steps that set a GPU's scheduler, mode or functions, reset it, or write an option file, a cordon, a reservation.

set_scheduler   every engine of a GPU, at run time            ← set_scheduler
set_mode        mixed-size mode of a GPU on or off            ← set_mode
set_vfs         a GPU's virtual functions, by sriov-manage    ← set_vfs
set_mig         MIG mode of a GPU without them                ← set_mig
reset_gpu       a reset of one GPU                            (stays: nothing undoes it)
write_modprobe  one file of /etc/modprobe.d                   ← write_modprobe
set_cordon      a cordon of a GPU or the host, in the ledger  ← set_cordon
set_reservation the reservation of one place, in the ledger   ← set_reservation
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from vgpumgr.core.driver import scheduler
from vgpumgr.core.driver.mig_order import Move
from vgpumgr.core.step.base import AnyStep, OfGpu

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from vgpumgr.core.driver.mig import InstanceProfile
    from vgpumgr.core.driver.modes import Mode
    from vgpumgr.core.driver.scheduler import Policy, Setting
    from vgpumgr.core.model.reservation import Terms
    from vgpumgr.core.model.snapshot import Cordon, FrameworkName
    from vgpumgr.core.model.vgpu import VgpuSpec
    from vgpumgr.core.step.vgpu import CreateVgpu, EvacuateVgpu
    from vgpumgr.names import GpuUuid, HostName, PciAddress

_NOT_SUPPORTED = 3  # NVML_ERROR_NOT_SUPPORTED
_IN_USE = 19  # NVML_ERROR_IN_USE


def _names(around: Iterable[EvacuateVgpu]) -> list[str]:
    return [f"{step.vgpu.vm_name} {step.vgpu.slot}" for step in around]


@dataclass(frozen=True, slots=True, kw_only=True)
class SetScheduler(OfGpu):
    """`expect`: the policy of each engine, as read. `before`: what an undo restores, as far as it is known.

    `around`: the idle vGPUs that are removed and re-created if, and only if, the driver refuses because of them.
    """

    api: int
    setting: Setting
    before: Setting
    expect: Mapping[str, Policy | None]
    around: tuple[EvacuateVgpu, ...] = ()

    verb = "set_scheduler"

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
class SetMode(OfGpu):
    """Set the mode of a GPU. `before`: the mode as read; an undo restores it.

    `around`: the idle vGPUs, as in SetScheduler. `back`: the steps that re-create them in `mode`.
    """

    mode: Mode
    before: Mode
    around: tuple[EvacuateVgpu, ...] = ()
    back: tuple[CreateVgpu, ...] = ()

    verb = "set_mode"

    def inverse(self) -> SetMode:
        return replace(self, mode=self.before, before=self.mode, around=(), back=())

    def instead(self, nvml_code: int) -> tuple[SetMode | CreateVgpu | EvacuateVgpu, ...]:
        """As for SetScheduler.

        nvml.h on Set…HeterogeneousMode: IN_USE if the GPU has vGPUs, NOT_SUPPORTED if it has no such mode.
        """
        if not self.around or nvml_code != _IN_USE:
            return ()
        return (*self.around, replace(self, around=(), back=()), *self.back)

    def facts(self) -> dict[str, object]:
        return {"host": self.host, "gpu": self.gpu, "mode": self.mode, "around": _names(self.around)}


@dataclass(frozen=True, slots=True, kw_only=True)
class SetVfs(OfGpu):
    """Make or remove the GPU's virtual functions. The GPU has no vGPUs then, and loses its GPU instances.

    `framework`: the vGPU framework that it offers with virtual functions; None if unknown, because it has none now.
    """

    on: bool
    framework: FrameworkName | None = field(compare=False)

    verb = "set_vfs"

    @property
    def move(self) -> Move:
        return Move.MAKE_FUNCTIONS if self.on else Move.TAKE_FUNCTIONS

    def inverse(self) -> SetVfs:
        return replace(self, on=not self.on)

    def facts(self) -> dict[str, object]:
        return {"host": self.host, "gpu": self.gpu, "on": self.on}


@dataclass(frozen=True, slots=True, kw_only=True)
class SetMig(OfGpu):
    """MIG mode of a GPU without virtual functions. `before`: its current mode.

    `profiles`: the GPU instance profiles that it will have, as far as they are known beforehand.
    """

    on: bool
    before: bool
    profiles: tuple[InstanceProfile, ...] = field(compare=False)

    verb = "set_mig"
    move = Move.SET

    def inverse(self) -> SetMig:
        return replace(self, on=self.before, before=self.on)

    def facts(self) -> dict[str, object]:
        return {"host": self.host, "gpu": self.gpu, "on": self.on}


@dataclass(frozen=True, slots=True, kw_only=True)
class ResetGpu(OfGpu):
    """A reset of this GPU alone. It has neither virtual functions nor vGPUs."""

    profiles: tuple[InstanceProfile, ...] = field(compare=False)

    verb = "reset_gpu"
    move = Move.RESET
    is_final = True

    def inverse(self) -> ResetGpu:
        return self

    def facts(self) -> dict[str, object]:
        return {"host": self.host, "gpu": self.gpu}


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteModprobe(AnyStep):
    """One file's text, before and after. None: no such file."""

    host: HostName
    path: str
    text: str | None
    before: str | None

    verb = "write_modprobe"

    def inverse(self) -> WriteModprobe:
        return replace(self, text=self.before, before=self.text)

    def facts(self) -> dict[str, object]:
        return {"host": self.host, "path": self.path}


@dataclass(frozen=True, slots=True, kw_only=True)
class SetCordon(AnyStep):
    """Cordon a GPU or (both None) the host. `cordon` None ends the existing one; an undo restores `before`."""

    host: HostName
    gpu_uuid: GpuUuid | None
    gpu: PciAddress | None
    cordon: Cordon | None
    before: Cordon | None

    verb = "set_cordon"

    def inverse(self) -> SetCordon:
        return replace(self, cordon=self.before, before=self.cordon)

    def facts(self) -> dict[str, object]:
        return {"host": self.host, "gpu": self.gpu, "reason": None if self.cordon is None else self.cordon.reason}


@dataclass(frozen=True, slots=True, kw_only=True)
class SetReservation(AnyStep):
    """Reserve the place of a vGPU on these terms. `terms` None ends its reservation; an undo restores `before`."""

    host: HostName
    vgpu: VgpuSpec
    terms: Terms | None
    before: Terms | None

    verb = "set_reservation"

    def inverse(self) -> SetReservation:
        return replace(self, terms=self.before, before=self.terms)

    def facts(self) -> dict[str, object]:
        vgpu = self.vgpu
        return {
            "host": self.host,
            "reservation": vgpu.vm_name,
            "slot": vgpu.slot,
            "gpu": vgpu.gpu,
            "type_name": vgpu.type_name,
            "for": None if self.terms is None else self.terms.owner,
        }
