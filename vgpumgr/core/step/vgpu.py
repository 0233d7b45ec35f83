"""Steps that make, enter, destroy or briefly evacuate a vGPU, or make or destroy its GPU instance.

create_vgpu       ledger planned, hardware, ledger made           ← destroy_vgpu
enter_vgpu        the ledger names what is there already          (stays: it only says what is true)
destroy_vgpu      ledger leaving, hardware, entry gone            ← create_vgpu
evacuate_vgpu     hardware gone, the ledger's entry stays made    ← create_vgpu (again)
defer_vgpu        the ledger's entry alone: a lazy vGPU           ← destroy_vgpu
create_instance   a GPU instance: ledger planned, made            ← destroy_instance
destroy_instance  an idle GPU instance of ours, and its entry     ← create_instance
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from vgpumgr.core.step.base import ABSENT, EMPTY, PRESENT, SAME, AnyStep

if TYPE_CHECKING:
    from vgpumgr.core.model.mig import OurInstance
    from vgpumgr.core.model.vgpu import VgpuSpec
    from vgpumgr.names import GpuUuid, HostName

__all__ = [
    "CreateInstance", "CreateVgpu", "DeferVgpu", "DestroyInstance", "DestroyVgpu", "EnterVgpu", "EvacuateVgpu", "InstanceStep", "VgpuStep",
]  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class _OfVgpu(AnyStep):
    host: HostName
    vgpu: VgpuSpec

    writes_ledger = True

    @property
    def written_gpu(self) -> GpuUuid:
        return self.vgpu.gpu_uuid

    def facts(self) -> dict[str, object]:
        vgpu = self.vgpu
        return {
            "host": self.host,
            "vm": vgpu.vm_name,
            "slot": vgpu.slot,
            "gpu": vgpu.gpu,
            "parent": vgpu.parent,
            "type_id": vgpu.type_id,
            "type_name": vgpu.type_name,
            "uuid": vgpu.uuid,
            "placement_id": vgpu.placement_id,
            "mig": {"profile": vgpu.mig.profile, "start": vgpu.mig.start} if vgpu.mig else None,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateVgpu(_OfVgpu):
    """Create a vGPU. `expect` is `empty`; or `same` if the hardware exists, and only its ledger entry is set to made.

    `again`: an evacuated vGPU comes back; an undo of this step keeps its ledger entry. `runs`: the VM runs without this
    vGPU. `param`: the requested plugin parameters. `replaces`: the generation of the slot's vGPU whose other parameters
    are kept; its own if it is re-created.
    """

    expect: Literal["empty", "same"]
    again: bool = False
    param: str | None = None
    replaces: int | None = None
    runs: bool = field(default=False, compare=False)

    verb = "create_vgpu"

    @property
    def is_apart(self) -> bool:
        return self.again

    def inverse(self) -> DestroyVgpu | EvacuateVgpu:
        if self.again:
            return EvacuateVgpu(host=self.host, vgpu=self.vgpu, runs=self.runs)
        return DestroyVgpu(host=self.host, vgpu=self.vgpu, expect=PRESENT, runs=self.runs)


@dataclass(frozen=True, slots=True, kw_only=True)
class EnterVgpu(_OfVgpu):
    """Enter an existing vGPU into the ledger as ours. Nothing is created, and an undo keeps the entry."""

    verb = "enter_vgpu"
    expect = SAME

    def inverse(self) -> EnterVgpu:
        return self


@dataclass(frozen=True, slots=True, kw_only=True)
class DestroyVgpu(_OfVgpu):
    """Destroy a vGPU and its ledger entry. `expect` is `present`, or `absent` if only the entry is left.

    `runs`: the VM runs without this vGPU; `listed`: NVML lists it although its VM is off. Both are for the host
    program's checks; the user's confirmation does not cover them.
    """

    expect: Literal["present", "absent"]
    runs: bool = field(default=False, compare=False)
    listed: bool = field(default=False, compare=False)

    verb = "destroy_vgpu"
    is_final = True
    is_grave = True

    @property
    def destroys(self) -> bool:
        return self.expect == PRESENT

    def inverse(self) -> CreateVgpu:
        own = self.vgpu.generation
        return CreateVgpu(host=self.host, vgpu=self.vgpu, expect=EMPTY, replaces=own, runs=self.runs)


@dataclass(frozen=True, slots=True, kw_only=True)
class EvacuateVgpu(_OfVgpu):
    """Remove idle hardware briefly for an operation that needs an empty GPU. Its place stays reserved.

    `runs`: the VM runs without this vGPU; `listed`: NVML lists it although its VM is off.
    """

    runs: bool = field(default=False, compare=False)
    listed: bool = field(default=False, compare=False)

    verb = "evacuate_vgpu"
    is_apart = True
    expect = PRESENT

    def inverse(self) -> CreateVgpu:
        return CreateVgpu(host=self.host, vgpu=self.vgpu, expect=EMPTY, again=True, runs=self.runs)


@dataclass(frozen=True, slots=True, kw_only=True)
class DeferVgpu(_OfVgpu):
    """Enter a lazy vGPU into the ledger: libvirt's hook makes it whenever its VM starts.

    `param`: the requested plugin parameters. `replaces`: the generation of the slot's vGPU whose others are kept.
    """

    param: str | None = None
    replaces: int | None = None

    verb = "defer_vgpu"
    expect = ABSENT

    def inverse(self) -> DestroyVgpu:
        return DestroyVgpu(host=self.host, vgpu=self.vgpu, expect=ABSENT)


@dataclass(frozen=True, slots=True, kw_only=True)
class _OfInstance(AnyStep):
    host: HostName
    instance: OurInstance

    writes_ledger = True

    @property
    def written_gpu(self) -> GpuUuid:
        return self.instance.gpu_uuid

    def facts(self) -> dict[str, object]:
        instance = self.instance
        return {
            "host": self.host,
            "gpu": instance.gpu,
            "mig_profile": instance.profile,
            "start": instance.start,
            "size": instance.size,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateInstance(_OfInstance):
    """A GPU instance, with one compute instance of its whole size.

    `expect` is `empty`; or `same` if it exists, and only its ledger entry is set to made.
    """

    expect: Literal["empty", "same"]

    verb = "create_instance"

    def inverse(self) -> DestroyInstance:
        return DestroyInstance(host=self.host, instance=self.instance, expect=PRESENT)


@dataclass(frozen=True, slots=True, kw_only=True)
class DestroyInstance(_OfInstance):
    """An instance of ours without vGPUs. `expect` is `present`, or `absent` if only the ledger's entry is left."""

    expect: Literal["present", "absent"]

    verb = "destroy_instance"

    def inverse(self) -> CreateInstance:
        return CreateInstance(host=self.host, instance=self.instance, expect=EMPTY)


VgpuStep = CreateVgpu | EnterVgpu | DestroyVgpu | EvacuateVgpu | DeferVgpu
InstanceStep = CreateInstance | DestroyInstance
