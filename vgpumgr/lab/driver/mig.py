"""GPU instances of one simulated GPU: where they may lie, which ids they get, and which one a new vGPU lives in.

Sources: nvml.h (placements, errors, +me.all); open modules 595.45.04, kernel_vgpu_mgr.c (kvgpumgrGetSwizzId: a vGPU's
instance; kvgpumgrGetCreatableVgpuTypes) and kernel_mig_manager.c (kmigmgrGetInvalidSwizzIdMask: the ids). The product
has rules of its own for the same.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from vgpumgr.lab.driver.model import ComputeInstance, GpuInstance

if TYPE_CHECKING:
    from collections.abc import Sequence

    from vgpumgr.lab.driver.model import Gpu, InstanceProfile, TypeSpec, Vgpu

MAX_VGPUS = 48  # MAX_VGPU_DEVICES_PER_PGPU; with MIG no lower limit applies
COMPUTE_PROFILES = {
    1: 0,
    2: 1,
    3: 2,
    4: 3,
    7: 4,
}  # compute slices → the profile's id, as NVML_COMPUTE_INSTANCE_PROFILE_*

_ALL_MEDIA, _NO_MEDIA = "+me.all", "-me"


def profile_of(gpu: Gpu, profile_id: int) -> InstanceProfile | None:
    """The board's profile of that id, as `mig -lgip` has it."""
    profiles = gpu.board.mig.profiles if gpu.board.mig else ()
    return next((profile for profile in profiles if profile.id == profile_id), None)


def free_starts(gpu: Gpu, profile: InstanceProfile) -> tuple[int, ...]:
    """Where one more instance of this profile would overlap no other; none if the GPU has its maximum of them."""
    profiles = [instance.profile for instance in gpu.instances]
    if sum(one.id == profile.id for one in profiles) >= profile.maximum or not _media_left(profiles, profile):
        return ()
    return tuple(
        start
        for start in profile.starts
        if all(start + profile.size <= other.start or other.end <= start for other in gpu.instances)
    )


def _media_left(profiles: Sequence[InstanceProfile], profile: InstanceProfile) -> bool:
    """Whether the profile's media engines are free: an instance with all of them leaves none to others (nvml.h)."""
    takers = [one for one in profiles if not one.name.endswith(_NO_MEDIA)]
    if profile.name.endswith(_NO_MEDIA):
        return True
    return not takers if profile.name.endswith(_ALL_MEDIA) else not any(one.name.endswith(_ALL_MEDIA) for one in takers)


def remaining(gpu: Gpu, profile: InstanceProfile) -> int:
    """How many more instances of this profile the GPU takes now; the starts of one profile never overlap."""
    has = sum(instance.profile.id == profile.id for instance in gpu.instances)
    return min(len(free_starts(gpu, profile)), profile.maximum - has)


def usual_start(gpu: Gpu, profile: InstanceProfile) -> int | None:
    """Where the driver puts an instance for which nobody names a place.

    The first free place on RTX PRO 6000, the last one elsewhere: as in public output, as far as that goes (likely).
    """
    free = free_starts(gpu, profile)
    if not free:
        return None
    return free[0] if gpu.board.mig is not None and gpu.board.mig.shared else free[-1]


def new_id(gpu: Gpu, profile: InstanceProfile, start: int, *, flip: bool) -> int:
    """The id of a new instance of this profile at `start`.

    Known (the driver's table of ids): 0 is the whole GPU, 1 and 2 its halves, 3 to 6 its quarters, 7 to 14 its eighths,
    as a tree: 7 lies in 3, 3 in 1. Which branch is which half differs between GPUs (a public host has a 3g at 4:4 with
    id 2 on one GPU and id 1 on the next), and no public source has the rule. Here `flip` turns each free branch round,
    and the driver flips where an instance would otherwise get the id that it had last (chosen).
    """
    leaf, leaves = _place(gpu, profile, start)
    low, width = 0, _leaves(gpu)
    number = 0  # the id of the branch that holds the instance, so far
    while width > leaves:
        width //= 2
        upper = leaf >= low + width
        turned = _is_turned(gpu, number, low + width)
        number = 2 * number + 1 + (upper != (flip if turned is None else turned))
        low += width if upper else 0
    return number


def _leaves(gpu: Gpu) -> int:
    """The tree's width: the eighths of a board with seven slices, the quarters of one with four."""
    assert gpu.board.mig is not None
    return 8 if gpu.board.mig.width == 8 else 4


def _place(gpu: Gpu, profile: InstanceProfile, start: int) -> tuple[int, int]:
    """The first leaf and the number of leaves of an instance there."""
    assert gpu.board.mig is not None
    per_leaf = gpu.board.mig.width // _leaves(gpu)
    return start // per_leaf, profile.size // per_leaf


def _is_turned(gpu: Gpu, number: int, middle: int) -> bool | None:
    """Whether the upper half of that branch has the lower id, by the instances in it; None if there are none."""
    children = (2 * number + 1, 2 * number + 2)
    for instance in gpu.instances:
        child = instance.id
        while child > children[1]:
            child = (child - 1) // 2
        if child in children:
            upper = _place(gpu, instance.profile, instance.start)[0] >= middle
            return upper != (child == children[1])
    return None


# compute instances


def free_compute_start(instance: GpuInstance, slices: int) -> int | None:
    """The first place of a compute instance in the GPU instance; None if there is no room."""
    for start in range(instance.profile.slices - slices + 1):
        if all(start + slices <= other.start or other.start + other.slices <= start for other in instance.compute):
            return start
    return None


def new_compute(instance: GpuInstance, slices: int, *, serial: int) -> ComputeInstance | None:
    """One more compute instance of that many slices; its id is the lowest that is free. None if there is no room."""
    start = free_compute_start(instance, slices)
    if start is None:
        return None
    ids = {one.id for one in instance.compute}
    number = next(number for number in range(len(ids) + 1) if number not in ids)
    return ComputeInstance(serial=serial, id=number, start=start, slices=slices)


# vGPUs


def on_instance(gpu: Gpu, instance: GpuInstance) -> list[Vgpu]:
    """The vGPUs in that instance, including those that the driver has lost."""
    return [vgpu for vgpu in gpu.counted if vgpu.gpu_instance == instance.id]


def room_in(gpu: Gpu, instance: GpuInstance, kind: TypeSpec) -> int:
    """How many more vGPUs of that type the instance takes.

    It takes 0 if the type needs another profile, or if vGPUs of another framebuffer size are there.
    """
    vgpus = on_instance(gpu, instance)
    if instance.profile.name != kind.profile or any(
        vgpu.type.framebuffer_mib != kind.framebuffer_mib for vgpu in vgpus
    ):
        return 0
    return max(0, kind.per_instance - len(vgpus))


def chosen(gpu: Gpu, kind: TypeSpec) -> GpuInstance | None:
    """The instance that the driver gives a new vGPU of that type: of those with room the one with the lowest id."""
    fitting = [instance for instance in gpu.instances if room_in(gpu, instance, kind)]
    return min(fitting, key=lambda instance: instance.id, default=None)


def room(gpu: Gpu, kind: TypeSpec) -> int:
    """How many more vGPUs of that type all instances take now."""
    return max(
        0,
        min(
            sum(room_in(gpu, instance, kind) for instance in gpu.instances),
            MAX_VGPUS - len(gpu.counted),
        ),
    )


def place_in(gpu: Gpu, instance: GpuInstance, kind: TypeSpec) -> int | None:
    """A new vGPU's placement id: its offset within the instance, where vGPUs share one (kvgpumgrCreateRequestVgpu).

    The places are even parts of the instance, as on the whole GPU of these boards (likely).
    """
    if gpu.board.mig is None or not gpu.board.mig.shared:
        return None
    ids = {vgpu.placement_id for vgpu in on_instance(gpu, instance)}
    size = -(-kind.framebuffer_mib // 1024)
    return next((size * index for index in range(kind.per_instance) if size * index not in ids), None)
