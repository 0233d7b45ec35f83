"""What NVML's calls on MIG change, as functions over one GPU's state; Driver calls them under its lock.

The errno stands for NVML's error: EOPNOTSUPP *not supported*, EINVAL *invalid argument*, ENOSPC *insufficient
resources*, EBUSY *in use*. Source: nvml.h, which names these errors per call and leaves open what is `likely`.
"""

from __future__ import annotations

import errno
from typing import TYPE_CHECKING

from vgpumgr.lab.driver import mig
from vgpumgr.lab.driver.errors import os_error
from vgpumgr.lab.driver.model import GpuInstance

if TYPE_CHECKING:
    from vgpumgr.lab.driver.model import Gpu


def set_mode(gpu: Gpu, *, on: bool) -> None:
    """What nvmlDeviceSetMigMode does. EBUSY while the GPU has VFs or a vGPU, as seen on hosts with MIG-backed vGPUs.

    Where the board needs a reset, only the pending mode changes. Elsewhere both modes change and the instances are gone
    (likely: the driver resets the GPU by itself there).
    """
    if gpu.board.mig is None:
        raise os_error(errno.EOPNOTSUPP)
    if gpu.vfs_on or gpu.counted:
        raise os_error(errno.EBUSY)
    gpu.mig_pending = on
    if gpu.mig_on != on and not gpu.board.mig.needs_reset:
        gpu.mig_on = on
        gpu.mixed = False
        gpu.instances.clear()


def create(gpu: Gpu, profile_id: int, start: int | None, *, serial: int) -> None:
    """What nvmlDeviceCreateGpuInstance does; with a start, nvmlDeviceCreateGpuInstanceWithPlacement.

    EINVAL for a profile that the board does not have or a start that it does not allow, ENOSPC if there is no room.
    """
    _check_mode(gpu)
    profile = mig.profile_of(gpu, profile_id)
    if profile is None or (start is not None and start not in profile.starts):
        raise os_error(errno.EINVAL)
    place = mig.usual_start(gpu, profile) if start is None else start
    if place is None or place not in mig.free_starts(gpu, profile):
        raise os_error(errno.ENOSPC)
    number = mig.new_id(gpu, profile, place, flip=False)
    if number == gpu.past_ids.get((profile.id, place)):
        number = mig.new_id(gpu, profile, place, flip=True)
    gpu.past_ids[profile.id, place] = number
    gpu.instances.append(GpuInstance(serial=serial, id=number, profile=profile, start=place))


def destroy(gpu: Gpu, serial: int) -> None:
    """What nvmlGpuInstanceDestroy does. EINVAL if the instance is gone; EBUSY while it has a compute instance or vGPU.

    A vGPU that no VM has counts, too (likely: the driver has reserved the instance for it).
    """
    instance = _find(gpu, serial)
    if instance.compute or mig.on_instance(gpu, instance):
        raise os_error(errno.EBUSY)
    gpu.instances.remove(instance)


def create_compute(gpu: Gpu, instance_serial: int, profile_id: int, *, serial: int) -> None:
    """What nvmlGpuInstanceCreateComputeInstance does. EINVAL: no instance; EOPNOTSUPP: no profile; ENOSPC: no room."""
    instance = _find(gpu, instance_serial)
    slices = next((count for count, number in mig.COMPUTE_PROFILES.items() if number == profile_id), None)
    if slices is None or slices > instance.profile.slices:
        raise os_error(errno.EOPNOTSUPP)
    compute = mig.new_compute(instance, slices, serial=serial)
    if compute is None:
        raise os_error(errno.ENOSPC)
    instance.compute.append(compute)


def destroy_compute(gpu: Gpu, serial: int) -> None:
    """What nvmlComputeInstanceDestroy does. EINVAL if it is gone, EBUSY while a VM has a vGPU in its GPU instance."""
    _check_mode(gpu)
    for instance in gpu.instances:
        compute = next((one for one in instance.compute if one.serial == serial), None)
        if compute is None:
            continue
        if any(vgpu.holder_uuid or vgpu.plugin for vgpu in mig.on_instance(gpu, instance)):
            raise os_error(errno.EBUSY)
        instance.compute.remove(compute)
        return
    raise os_error(errno.EINVAL)


def _check_mode(gpu: Gpu) -> None:
    if not gpu.mig_on:
        raise os_error(errno.EOPNOTSUPP)


def _find(gpu: Gpu, serial: int) -> GpuInstance:
    _check_mode(gpu)
    instance = next((instance for instance in gpu.instances if instance.serial == serial), None)
    if instance is None:
        raise os_error(errno.EINVAL)
    return instance
