"""The steps that a plan consists of: verb + noun, each a value that knows its inverse and how it is printed.

put_claim      write the wish and the binding, pending      ← drop_claim (or the claim that was there before)
create_instance a GPU instance: ledger planned, made         ← destroy_instance
create_vgpu    ledger planned, hardware, ledger made        ← destroy_vgpu
enter_vgpu     the ledger names what is there already       (stays: it only says what is true)
attach_hostdev into the inactive XML                        ← detach_hostdev
plug_hostdev   into the running VM                          ← unplug_hostdev
bind_claim     the claim is served                          ← put_claim
leave_claim    a detach has begun                           ← bind_claim
unplug_hostdev out of the running VM                        ← plug_hostdev
detach_hostdev out of the inactive XML                      ← attach_hostdev
destroy_vgpu   ledger leaving, hardware, entry gone         ← create_vgpu
destroy_instance an idle GPU instance of ours, and its entry ← create_instance
drop_claim     the slot is free                             ← put_claim
evacuate_vgpu      hardware gone, the ledger's entry stays made ← create_vgpu (again)
set_scheduler  every engine of a GPU, at run time           ← set_scheduler
set_mode       mixed-size mode of a GPU on or off           ← set_mode
set_vfs        a GPU's virtual functions, by sriov-manage    ← set_vfs
set_mig        MIG mode of a GPU without them                ← set_mig
reset_gpu      a reset of one GPU                            (stays: nothing undoes it)
write_modprobe one file of /etc/modprobe.d                  ← write_modprobe
set_cordon     the ledger says: nothing new on a GPU or here ← set_cordon
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final, Literal

from vgpumgr.core.driver import scheduler

if TYPE_CHECKING:
    from collections.abc import Mapping

    from vgpumgr.core.driver.mig import InstanceProfile
    from vgpumgr.core.driver.scheduler import Policy, Setting
    from vgpumgr.core.model.claims import Claim
    from vgpumgr.core.model.domain_xml import Hostdev
    from vgpumgr.core.model.mig import OurInstance
    from vgpumgr.core.model.snapshot import Cordon, FrameworkName, SizeMode
    from vgpumgr.core.model.vgpu import VgpuSpec
    from vgpumgr.names import GpuUuid, HostName, PciAddress, Slot, VmName, VmUuid

_NOT_SUPPORTED = 3  # NVML_ERROR_NOT_SUPPORTED
_IN_USE = 19  # NVML_ERROR_IN_USE
EMPTY: Final = "empty"
SAME: Final = "same"
ENTER: Final = "enter"  # like SAME, but no entry names it yet: EnterVgpu
PRESENT: Final = "present"
ABSENT: Final = "absent"
Missing = Literal["empty", "same", "enter"]
"""What is at the place of a vGPU that is not whole."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PutClaim:
    """Write one claim; `before` is the one it replaces. The claim's state determines the verb."""

    vm: VmUuid
    vm_name: VmName
    claim: Claim
    before: Claim | None

    @property
    def verb(self) -> Literal["put_claim", "bind_claim", "leave_claim"]:
        match self.claim.state:
            case "pending":
                return "put_claim"
            case "bound":
                return "bind_claim"
            case "leaving":
                return "leave_claim"


@dataclass(frozen=True, slots=True, kw_only=True)
class DropClaim:
    vm: VmUuid
    vm_name: VmName
    before: Claim

    verb = "drop_claim"


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateVgpu:
    """`expect` is `empty`, or `same` if the hardware exists and only the ledger must be set to made.

    `again`: the ledger has its entry from an earlier run, and an undo of this step keeps it. `runs`: see DestroyVgpu.
    `param`: the plugin parameters that were asked for. `replaces`: the generation of the slot's vGPU whose other parameters it keeps; its
    own, where it is made once more.
    """

    host: HostName
    vgpu: VgpuSpec
    expect: Literal["empty", "same"]
    again: bool = False
    param: str | None = None
    replaces: int | None = None
    runs: bool = field(default=False, compare=False)

    verb = "create_vgpu"


@dataclass(frozen=True, slots=True, kw_only=True)
class EnterVgpu:
    """Enter an existing vGPU into the ledger as ours. Nothing is created, and an undo keeps the entry."""

    host: HostName
    vgpu: VgpuSpec

    verb = "enter_vgpu"


@dataclass(frozen=True, slots=True, kw_only=True)
class DestroyVgpu:
    """`expect` is `present`, or `absent` if only the ledger's entry is left.

    `runs`: the VM runs without this vGPU; `listed`: NVML lists it although its VM is off. Both are for the host program's
    checks, and not part of what the user agrees to.
    """

    host: HostName
    vgpu: VgpuSpec
    expect: Literal["present", "absent"]
    runs: bool = field(default=False, compare=False)
    listed: bool = field(default=False, compare=False)

    verb = "destroy_vgpu"


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateInstance:
    """A GPU instance, with one compute instance of its whole size. `expect` is `empty`, or `same` if it exists and only the ledger
    must be set to made.
    """

    host: HostName
    instance: OurInstance
    expect: Literal["empty", "same"]

    verb = "create_instance"


@dataclass(frozen=True, slots=True, kw_only=True)
class DestroyInstance:
    """An instance of ours that holds no vGPU. `expect` is `present`, or `absent` if only the ledger's entry is left."""

    host: HostName
    instance: OurInstance
    expect: Literal["present", "absent"]

    verb = "destroy_instance"


@dataclass(frozen=True, slots=True, kw_only=True)
class AttachHostdev:
    """`port`: the guest's PCI bus, where the running VM is to have it, too; None: libvirt chooses an address."""

    vm: VmUuid
    vm_name: VmName
    slot: Slot
    device: Hostdev
    port: int | None = None

    verb = "attach_hostdev"


@dataclass(frozen=True, slots=True, kw_only=True)
class DetachHostdev:
    vm: VmUuid
    vm_name: VmName
    slot: Slot
    device: Hostdev

    verb = "detach_hostdev"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Live:
    """Of a VM while it runs. `port`: the guest's PCI bus where it is to be, or was; None: not on a root port."""

    vm: VmUuid
    vm_name: VmName
    slot: Slot
    device: Hostdev
    port: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class PlugHostdev(_Live):
    verb = "plug_hostdev"


@dataclass(frozen=True, slots=True, kw_only=True)
class UnplugHostdev(_Live):
    """The guest has to release it, and may not."""

    verb = "unplug_hostdev"


@dataclass(frozen=True, slots=True, kw_only=True)
class EvacuateVgpu:
    """Remove idle hardware briefly, for operations that the driver allows only on an empty GPU. Its place stays reserved.

    `runs` and `listed`: see DestroyVgpu.
    """

    host: HostName
    vgpu: VgpuSpec
    runs: bool = field(default=False, compare=False)
    listed: bool = field(default=False, compare=False)

    verb = "evacuate_vgpu"


@dataclass(frozen=True, slots=True, kw_only=True)
class _OfGpu:
    """Of a whole GPU; `gpu` is its address."""

    host: HostName
    gpu_uuid: GpuUuid
    gpu: PciAddress


@dataclass(frozen=True, slots=True, kw_only=True)
class SetScheduler(_OfGpu):
    """`expect`: engine → policy, as read. `before` is the setting that an undo restores, as far as the driver reports it.

    `around`: the idle vGPUs that are removed and re-created, but only if the driver refuses because of them.
    """

    api: int
    setting: Setting
    before: Setting
    expect: Mapping[str, Policy | None]
    around: tuple[EvacuateVgpu, ...] = ()

    verb = "set_scheduler"


@dataclass(frozen=True, slots=True, kw_only=True)
class SetMode(_OfGpu):
    """`before` is the mode as read, which an undo restores. `around`: see SetScheduler; `back` re-creates them in the new mode."""

    mode: SizeMode
    before: SizeMode
    around: tuple[EvacuateVgpu, ...] = ()
    back: tuple[CreateVgpu, ...] = ()

    verb = "set_mode"


@dataclass(frozen=True, slots=True, kw_only=True)
class SetVfs(_OfGpu):
    """The GPU's virtual functions made or removed; it has no vGPUs then, and loses its GPU instances.

    `framework` is what it offers with them; None if that is unknown, since it has none now.
    """

    on: bool
    framework: FrameworkName | None = field(compare=False)

    verb = "set_vfs"


@dataclass(frozen=True, slots=True, kw_only=True)
class SetMig(_OfGpu):
    """MIG mode, of a GPU without virtual functions. `before`: the mode that it is in now.

    `profiles` are those that it will have, as far as that can be known before.
    """

    on: bool
    before: bool
    profiles: tuple[InstanceProfile, ...] = field(compare=False)

    verb = "set_mig"


@dataclass(frozen=True, slots=True, kw_only=True)
class ResetGpu(_OfGpu):
    """A reset of this GPU alone, which has neither virtual functions nor vGPUs."""

    profiles: tuple[InstanceProfile, ...] = field(compare=False)

    verb = "reset_gpu"


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteModprobe:
    """One file's text, before and after. None: no such file."""

    host: HostName
    path: str
    text: str | None
    before: str | None

    verb = "write_modprobe"


@dataclass(frozen=True, slots=True, kw_only=True)
class SetCordon:
    """Of a GPU, or (both None) of the host. `cordon` None ends the one that there is; `before` is what an undo restores."""

    host: HostName
    gpu_uuid: GpuUuid | None
    gpu: PciAddress | None
    cordon: Cordon | None
    before: Cordon | None

    verb = "set_cordon"


VgpuStep = CreateVgpu | EnterVgpu | DestroyVgpu | EvacuateVgpu
GpuStep = SetScheduler | SetMode
InstanceStep = CreateInstance | DestroyInstance
MigStep = SetVfs | SetMig | ResetGpu
HostStep = VgpuStep | InstanceStep | GpuStep | MigStep | WriteModprobe | SetCordon  # the others are libvirt's
LiveStep = PlugHostdev | UnplugHostdev
DefinitionStep = PutClaim | DropClaim | AttachHostdev | DetachHostdev
Step = HostStep | DefinitionStep | LiveStep


def inverse(step: Step) -> Step:
    """The step that undoes this one. What is never undone has itself: an entry in the ledger, a reset."""
    match step:
        case PutClaim():
            if step.before is None:
                return DropClaim(vm=step.vm, vm_name=step.vm_name, before=step.claim)
            return replace(step, claim=step.before, before=step.claim)
        case DropClaim():
            return PutClaim(vm=step.vm, vm_name=step.vm_name, claim=step.before, before=None)
        case CreateVgpu(again=True):
            return EvacuateVgpu(host=step.host, vgpu=step.vgpu, runs=step.runs)
        case CreateVgpu():
            return DestroyVgpu(host=step.host, vgpu=step.vgpu, expect=PRESENT, runs=step.runs)
        case EnterVgpu():
            return step
        case CreateInstance() | DestroyInstance():
            return _inverse_of_instance(step)
        case DestroyVgpu():
            kept = step.vgpu.generation
            return CreateVgpu(host=step.host, vgpu=step.vgpu, expect=EMPTY, replaces=kept, runs=step.runs)
        case AttachHostdev() | DetachHostdev() | PlugHostdev() | UnplugHostdev():
            return _inverse_of_device(step)
        case EvacuateVgpu():
            return CreateVgpu(host=step.host, vgpu=step.vgpu, expect=EMPTY, again=True, runs=step.runs)
        case _:
            return _inverse_of_setting(step)


def _inverse_of_setting(step: GpuStep | MigStep | WriteModprobe | SetCordon) -> Step:
    match step:
        case SetScheduler():
            left = {engine: None if found is None else step.setting.policy for engine, found in step.expect.items()}
            return replace(step, setting=step.before, before=step.setting, expect=left, around=())
        case SetMode():
            return replace(step, mode=step.before, before=step.mode, around=(), back=())
        case SetVfs():
            return replace(step, on=not step.on)
        case SetMig():
            return replace(step, on=step.before, before=step.on)
        case ResetGpu():
            return step
        case WriteModprobe():
            return replace(step, text=step.before, before=step.text)
        case SetCordon():
            return replace(step, cordon=step.before, before=step.cordon)


def _inverse_of_instance(step: InstanceStep) -> InstanceStep:
    if isinstance(step, CreateInstance):
        return DestroyInstance(host=step.host, instance=step.instance, expect=PRESENT)
    return CreateInstance(host=step.host, instance=step.instance, expect=EMPTY)


def _inverse_of_device(step: AttachHostdev | DetachHostdev | LiveStep) -> Step:
    match step:
        case AttachHostdev():
            return DetachHostdev(vm=step.vm, vm_name=step.vm_name, slot=step.slot, device=step.device)
        case DetachHostdev():
            return AttachHostdev(vm=step.vm, vm_name=step.vm_name, slot=step.slot, device=step.device)
        case PlugHostdev() | UnplugHostdev():
            pass
    kind = UnplugHostdev if isinstance(step, PlugHostdev) else PlugHostdev
    return kind(vm=step.vm, vm_name=step.vm_name, slot=step.slot, device=step.device, port=step.port)


def instead(step: Step, nvml_code: int) -> tuple[Step, ...]:
    """The steps to take instead of one that the driver refused with this NVML return code; empty if there are none.

    nvml.h on nvmlDeviceSetVgpuHeterogeneousMode: IN_USE if vGPUs exist on the device, NOT_SUPPORTED if it has no such mode. nvml.h
    on nvmlDeviceSetVgpuSchedulerState: NOT_SUPPORTED and IN_USE if "any vGPU instance currently exists on the device".
    Drivers differ in whether an idle one counts, so the plain step is tried first.
    """
    because_of_vgpus = (_IN_USE,) if isinstance(step, SetMode) else (_NOT_SUPPORTED, _IN_USE)
    if not isinstance(step, GpuStep) or not step.around or nvml_code not in because_of_vgpus:
        return ()
    if isinstance(step, SetMode):
        return (*step.around, replace(step, around=(), back=()), *step.back)
    return (*step.around, replace(step, around=()), *(inverse(evacuation) for evacuation in step.around))


def vm_of(step: Step) -> VmUuid | None:
    """The VM that the step changes, through libvirt: its definition, or what it runs with; None if it changes none."""
    return step.vm if isinstance(step, DefinitionStep | LiveStep) else None


def destroys(step: Step) -> bool:
    """Whether the step removes existing hardware. Guards and confirmations count these steps."""
    return isinstance(step, DestroyVgpu) and step.expect == PRESENT


def is_final(step: Step) -> bool:
    """Whether nothing undoes the step. A guest that got or lost a device may have acted upon it by now."""
    return isinstance(step, DestroyVgpu | LiveStep | ResetGpu)


def is_grave(step: Step) -> bool:
    """Whether a user is asked first: the step removes a vGPU, a device in a definition or a claim, or changes a running VM."""
    return isinstance(step, DestroyVgpu | DetachHostdev | DropClaim | LiveStep)


def record(step: Step) -> dict[str, object]:
    """The step as plain values, for the journal and for `-o json`."""
    undo = inverse(step).verb
    match step:
        case PutClaim():
            claim, grant = step.claim, step.claim.grant
            return {
                "verb": step.verb,
                "vm": step.vm_name,
                "slot": claim.slot,
                "requested": claim.asked,
                "asked_mib": grant.asked_mib if grant else None,
                "framebuffer_mib": grant.framebuffer_mib if grant else None,
                "guest_mib": grant.guest_mib if grant else None,
                "waste_pct": grant.waste_pct if grant else None,
                "inverse": undo,
            }
        case DropClaim():
            return {"verb": step.verb, "vm": step.vm_name, "slot": step.before.slot, "inverse": undo}
        case CreateVgpu() | EnterVgpu() | DestroyVgpu() | EvacuateVgpu():
            vgpu = step.vgpu
            return {
                "verb": step.verb,
                "host": step.host,
                "vm": vgpu.vm_name,
                "slot": vgpu.slot,
                "gpu": vgpu.gpu,
                "parent": vgpu.parent,
                "type_id": vgpu.type_id,
                "type_name": vgpu.type_name,
                "uuid": vgpu.uuid,
                "placement_id": vgpu.placement_id,
                "mig": None if vgpu.mig is None else {"profile": vgpu.mig.profile, "start": vgpu.mig.start},
                "inverse": undo,
            }
        case CreateInstance() | DestroyInstance():
            instance = step.instance
            return {
                "verb": step.verb,
                "host": step.host,
                "gpu": instance.gpu,
                "mig_profile": instance.profile,
                "start": instance.start,
                "size": instance.size,
                "inverse": undo,
            }
        case AttachHostdev() | DetachHostdev():
            return {
                "verb": step.verb,
                "vm": step.vm_name,
                "slot": step.slot,
                "alias": step.device.alias,
                "where": ["inactive"],
                "inverse": undo,
            }
        case PlugHostdev() | UnplugHostdev():
            return {
                "verb": step.verb,
                "vm": step.vm_name,
                "slot": step.slot,
                "alias": step.device.alias,
                "port": step.port,
                "where": ["live"],
                "inverse": undo,
            }
        case SetScheduler():
            return {
                "verb": step.verb,
                "host": step.host,
                "gpu": step.gpu,
                "policy": step.setting.policy,
                "time_slice_ns": step.setting.time_slice_ns,
                "frequency_hz": step.setting.frequency_hz,
                "averaging_factor": step.setting.averaging_factor,
                "rm_pvmrl": scheduler.rm_pvmrl(step.setting),
                "around": [f"{evacuation.vgpu.vm_name} {evacuation.vgpu.slot}" for evacuation in step.around],
                "inverse": undo,
            }
        case SetMode():
            return {
                "verb": step.verb,
                "host": step.host,
                "gpu": step.gpu,
                "mode": step.mode,
                "around": [f"{evacuation.vgpu.vm_name} {evacuation.vgpu.slot}" for evacuation in step.around],
                "inverse": undo,
            }
        case SetVfs() | SetMig():
            return {"verb": step.verb, "host": step.host, "gpu": step.gpu, "on": step.on, "inverse": undo}
        case ResetGpu():
            return {"verb": step.verb, "host": step.host, "gpu": step.gpu, "inverse": undo}
        case WriteModprobe():
            return {"verb": step.verb, "host": step.host, "path": step.path, "inverse": undo}
        case SetCordon():
            reason = None if step.cordon is None else step.cordon.reason
            return {"verb": step.verb, "host": step.host, "gpu": step.gpu, "reason": reason, "inverse": undo}
