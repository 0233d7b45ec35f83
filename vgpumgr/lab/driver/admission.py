"""What the driver admits, as pure functions over one GPU's state.

Source: the driver's own rules in open-gpu-kernel-modules 595, kernel_vgpu_mgr.c: in equal-size mode after the first
vGPU only types of the same framebuffer size stay creatable, whatever their series, until the type's maximum; in
mixed-size mode those with a supported place that overlaps no vGPU, without a maximum; at most 32 time-sliced vGPUs per
GPU; one vGPU per VF. vGPUs that the driver has lost (model.Gpu.lost) count like existing ones.

In MIG mode only MIG-backed types are admitted, if an instance of their profile has room (mig.py); otherwise none are.
"""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING

from vgpumgr.core.model.snapshot import MDEV_PF
from vgpumgr.lab.driver import mig, places

if TYPE_CHECKING:
    from vgpumgr.lab.driver.model import Gpu, TypeSpec, Vgpu

MAX_TIME_SLICED = 32  # per GPU without MIG


class Refusal(Enum):
    """Why a vGPU cannot be created."""

    FULL = "full"
    OTHER_SIZE = "other-size"
    VF_TAKEN = "vf-taken"
    OTHER_MODE = "other-mode"
    NO_INSTANCE = "no-instance"


def on_vf(gpu: Gpu, vf: int | None) -> Vgpu | None:
    """The vGPU of that VF, if it has one; lost ones are not shown."""
    return next((vgpu for vgpu in gpu.vgpus if vgpu.vf == vf), None)


def instances_left(gpu: Gpu, kind: TypeSpec) -> int:
    """How many more of this type the whole GPU takes now, regardless of virtual functions."""
    if gpu.mig_on != (kind.profile is not None):
        return 0
    if gpu.mig_on:
        return mig.room(gpu, kind)
    if gpu.mixed:
        return max(0, min(len(places.free(gpu, kind)), MAX_TIME_SLICED - len(gpu.counted)))
    if any(vgpu.type.framebuffer_mib != kind.framebuffer_mib for vgpu in gpu.counted):
        return 0
    return max(0, min(kind.max_instances, MAX_TIME_SLICED) - len(gpu.counted))


def refusal(gpu: Gpu, vf: int | None, kind: TypeSpec) -> Refusal | None:
    """Why one more vGPU of this type is refused on that VF (None: on the PF), or None if it is admitted."""
    if gpu.framework != MDEV_PF and any(vgpu.vf == vf for vgpu in gpu.counted):
        return Refusal.VF_TAKEN
    if gpu.mig_on != (kind.profile is not None):
        return Refusal.OTHER_MODE
    if gpu.mig_on:
        return None if mig.room(gpu, kind) else Refusal.NO_INSTANCE
    if not gpu.mixed and any(vgpu.type.framebuffer_mib != kind.framebuffer_mib for vgpu in gpu.counted):
        return Refusal.OTHER_SIZE
    if instances_left(gpu, kind) == 0:
        return Refusal.FULL
    return None


def available(gpu: Gpu, vf: int | None, kind: TypeSpec) -> int:
    """The value of `available_instances`: a number on the PF, 0 or 1 on a VF."""
    if gpu.framework == MDEV_PF:
        return instances_left(gpu, kind)
    return int(refusal(gpu, vf, kind) is None)


def creatable_on(gpu: Gpu, vf: int | None) -> tuple[TypeSpec, ...]:
    """The types that this parent would take now."""
    return tuple(kind for kind in gpu.board.all_types if available(gpu, vf, kind))


def creatable(gpu: Gpu) -> tuple[TypeSpec, ...]:
    """The types that some parent of this GPU would take now: what NVML lists as creatable."""
    if gpu.framework == MDEV_PF:
        return creatable_on(gpu, None)
    if not gpu.vfs_on or len(gpu.counted) >= gpu.board.vfs:
        return ()
    return tuple(kind for kind in gpu.board.all_types if instances_left(gpu, kind))


def next_placement(gpu: Gpu, kind: TypeSpec) -> int | None:
    """The placement id of the next vGPU: the first free one of its type; None if there is none."""
    return next(iter(places.free(gpu, kind)), None)
