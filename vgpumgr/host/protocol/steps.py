"""The steps of `execute`."""

from typing import Any, Dict, Final, Literal, Optional, TypedDict, Union

from .gpu import Policy, SchedulerFact, SizeMode
from .ledger import CordonText, OurVgpu, ReservationTerms
from .mig import OurInstance

# what a step about a vGPU expects to find (Step)
Expect = Literal["empty", "same", "present", "absent"]
EMPTY: Final = "empty"
SAME: Final = "same"
PRESENT: Final = "present"
ABSENT: Final = "absent"

# verbs of steps
CREATE_VGPU = "create_vgpu"
DESTROY_VGPU = "destroy_vgpu"
EVACUATE_VGPU = "evacuate_vgpu"
DEFER_VGPU = "defer_vgpu"
SET_SCHEDULER = "set_scheduler"
SET_MODE = "set_mode"
WRITE_MODPROBE = "write_modprobe"
SET_CORDON = "set_cordon"
SET_RESERVATION = "set_reservation"
CREATE_INSTANCE = "create_instance"
DESTROY_INSTANCE = "destroy_instance"
SET_MIG = "set_mig"
SET_VFS = "set_vfs"
RESET_GPU = "reset_gpu"
SET_METADATA: Final = "set_metadata"
ATTACH_DEVICE: Final = "attach_device"
DETACH_DEVICE: Final = "detach_device"
PLUG_DEVICE: Final = "plug_device"
UNPLUG_DEVICE: Final = "unplug_device"
START_DOMAIN: Final = "start_domain"
TRY_VF: Final = "try_vf"
DEVICE_VERBS = (ATTACH_DEVICE, DETACH_DEVICE, PLUG_DEVICE, UNPLUG_DEVICE)


class Step(OurVgpu):
    """One change of hardware and ledger: the entry's keys, and the state that must be found first.

    verb create_vgpu: expect "empty" (no vGPU there, no other entry) or "same" (a vGPU of this type and uuid is there
    and is to be entered as ours). A new vGPU is moved to `placement_id`, if set; the note says if it lies elsewhere.
    verb destroy_vgpu: expect "present" (exactly this vGPU is there) or "absent" (only the entry is left).
    verb evacuate_vgpu: expect "present"; the vGPU is removed; its entry, which must be `made`, stays as it is.
    verb defer_vgpu: expect "absent"; only the ledger is written: a lazy entry is added, or moved to this place.
    `param`: plugin parameters to set. `replaces`: the slot's generation (maybe this one) whose other parameters the new
    vGPU keeps. `runs`: the VM runs without this vGPU. `listed`: at planning, NVML listed the vGPU although its VM was
    off; it must be off NVML's list now.
    """

    verb: str
    expect: Expect
    param: Optional[str]
    replaces: Optional[int]
    runs: bool
    listed: bool


class SchedulerSetting(TypedDict):
    """What a scheduler is set to. A null value is the driver's default.

    A time slice needs `arr` false. A factor or a frequency needs `arr` true or null.
    """

    policy: Policy
    arr: Optional[bool]
    averaging_factor: Optional[int]
    frequency_hz: Optional[int]
    time_slice_ns: Optional[int]


class GpuStep(TypedDict):
    """A step that concerns a whole GPU."""

    verb: str
    gpu_uuid: str
    gpu: str


class SchedulerStep(GpuStep):
    """verb set_scheduler: every engine of the GPU gets the setting. `expect`: the policy of each engine, as read.

    An engine that already has the policy passes, too. Graphics must accept it; the note names engines that do not.
    """

    api: int
    setting: SchedulerSetting
    expect: Dict[str, Optional[Policy]]


class ModeStep(GpuStep):
    """verb set_mode: mixed-size mode on or off. `expect`: the mode as read; a GPU already in it passes, too."""

    mode: SizeMode
    expect: SizeMode


class ModprobeStep(TypedDict):
    """verb write_modprobe: /etc/modprobe.d/NAME.conf gets this text (null: it is removed); expect: its text before.

    A file that already has the text passes, too. A symbolic link is refused (SysfsRefused, ELOOP).
    """

    verb: str
    path: str
    text: Optional[str]
    expect: Optional[str]


class CordonStep(TypedDict):
    """verb set_cordon: the cordon of a GPU, of its function `vf_index`, or (all null) of the host; null lifts it.

    `expect`: the cordon before. A ledger that already has the new cordon passes, too. The GPU may have been taken out
    of the host.
    """

    verb: str
    gpu_uuid: Optional[str]
    gpu: Optional[str]
    vf_index: Optional[int]
    vf: Optional[str]
    cordon: Optional[CordonText]
    expect: Optional[CordonText]


class ReservationStep(OurVgpu):
    """verb set_reservation: the place of that vGPU is reserved on these terms; null ends its reservation.

    If the ledger has the reservation at the same place, that gets the new terms. To end one that is not there changes
    nothing.
    """

    verb: str
    terms: Optional[ReservationTerms]


class InstanceStep(OurInstance):
    """verbs create_instance, destroy_instance: a GPU instance of ours, and its entry.

    create_instance: expect "empty" (nothing lies in its memory slices) or "same" (just this instance is there, and is
    to be entered as ours). It gets one compute instance of its whole size.
    destroy_instance: expect "present" (it is there and ours) or "absent" (at most its entry is left).
    """

    verb: str
    expect: Expect


class MigModeStep(GpuStep):
    """verb set_mig: MIG on or off, on a GPU without VFs and vGPUs. `expect`: as read; a GPU already so passes, too.

    The answer's note says if the GPU's reset is needed before it takes effect.
    """

    on: bool
    expect: bool


class VfsStep(GpuStep):
    """verb set_vfs: sriov-manage creates the GPU's VFs (`on`) or removes them. `expect`: whether it had any.

    A GPU that is already as `on` says passes, too.
    """

    on: bool
    expect: bool


class ResetStep(GpuStep):
    """verb reset_gpu: a reset of this GPU alone, which has no VFs and no vGPUs."""


class TryStep(GpuStep):
    """verb try_vf: `type_id` is written to a VF that has just that type (0: none), so that NVIDIA's driver refuses it.

    The VF has no vGPU, or one of ours. If the driver accepts the write, nothing changes.
    """

    parent: str
    type_id: int


class MetadataStep(TypedDict):
    """verb set_metadata: the VM's persistent definition gets `xml` (without prefix and xmlns) in the namespace `uri`.

    `xml` null removes the element, which need not be there.
    """

    verb: Literal["set_metadata"]
    vm_uuid: str
    xml: Optional[str]
    key: str
    uri: str


class DeviceStep(TypedDict):
    """verbs attach_device, detach_device: add a device to the VM's persistent definition, or remove it there.

    verbs plug_device, unplug_device: the same for the running VM; unplug_device only asks its guest to release it.
    """

    verb: Literal["attach_device", "detach_device", "plug_device", "unplug_device"]
    vm_uuid: str
    xml: str


class StartStep(TypedDict):
    """verb start_domain: start a VM whose last start failed."""

    verb: Literal["start_domain"]
    vm_uuid: str


DefinitionStep = Union[MetadataStep, DeviceStep, StartStep]
MigStep = Union[InstanceStep, MigModeStep, VfsStep, ResetStep]
AnyStep = Union[
    Step, SchedulerStep, ModeStep, ModprobeStep, CordonStep, ReservationStep, MigStep, TryStep, DefinitionStep
]

# each verb's keys
SHAPES: Dict[str, Any] = {
    CREATE_VGPU: Step,
    DESTROY_VGPU: Step,
    EVACUATE_VGPU: Step,
    DEFER_VGPU: Step,
    SET_SCHEDULER: SchedulerStep,
    SET_MODE: ModeStep,
    WRITE_MODPROBE: ModprobeStep,
    SET_CORDON: CordonStep,
    SET_RESERVATION: ReservationStep,
    CREATE_INSTANCE: InstanceStep,
    DESTROY_INSTANCE: InstanceStep,
    SET_MIG: MigModeStep,
    SET_VFS: VfsStep,
    RESET_GPU: ResetStep,
    TRY_VF: TryStep,
    SET_METADATA: MetadataStep,
    **dict.fromkeys(DEVICE_VERBS, DeviceStep),
    START_DOMAIN: StartStep,
}


class Executed(TypedDict):
    """The answer to `execute`: a remark if there is one, and for set_scheduler the scheduler as read back."""

    note: Optional[str]
    scheduler: Optional[SchedulerFact]
