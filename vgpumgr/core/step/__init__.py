"""The steps of a plan: verb + noun, each a value that knows its inverse and its record. Each file has one family."""

from vgpumgr.core.step.base import ABSENT, EMPTY, ENTER, PRESENT, SAME, AnyStep, Missing
from vgpumgr.core.step.definition import (
    AttachHostdev,
    DetachHostdev,
    DropClaim,
    PlugHostdev,
    PutClaim,
    SetWait,
    StartVm,
    UnplugHostdev,
)
from vgpumgr.core.step.gpu import (
    ResetGpu,
    SetCordon,
    SetMig,
    SetMode,
    SetReservation,
    SetScheduler,
    SetVfs,
    WriteModprobe,
)
from vgpumgr.core.step.vgpu import (
    CreateInstance,
    CreateVgpu,
    DestroyInstance,
    DestroyVgpu,
    EnterVgpu,
    EvacuateVgpu,
)

__all__ = [
    "ABSENT", "EMPTY", "ENTER", "PRESENT", "SAME", "AnyStep", "AttachHostdev", "CreateInstance", "CreateVgpu", "DefinitionStep",
    "DestroyInstance", "DestroyVgpu", "DetachHostdev", "DropClaim", "EnterVgpu", "EvacuateVgpu", "GpuStep", "HostStep",
    "InstanceStep", "LiveStep", "MigStep", "Missing", "PlugHostdev", "PutClaim", "ResetGpu", "SetCordon", "SetMig", "SetMode",
    "SetReservation", "SetScheduler", "SetVfs", "SetWait", "StartVm", "Step", "UnplugHostdev", "VgpuStep",
    "WriteModprobe",
]  # fmt: skip

VgpuStep = CreateVgpu | EnterVgpu | DestroyVgpu | EvacuateVgpu
GpuStep = SetScheduler | SetMode
InstanceStep = CreateInstance | DestroyInstance
MigStep = SetVfs | SetMig | ResetGpu
HostStep = (
    VgpuStep | InstanceStep | GpuStep | MigStep | WriteModprobe | SetCordon | SetReservation
)  # the others are libvirt's
LiveStep = PlugHostdev | UnplugHostdev
DefinitionStep = PutClaim | DropClaim | SetWait | AttachHostdev | DetachHostdev
Step = HostStep | DefinitionStep | LiveStep | StartVm
