"""A vGPU that no VM has asked for, as attach would make it: to see what would be left beside it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from vgpumgr import names
from vgpumgr.core.model import snapshot as observed
from vgpumgr.core.model.vgpu import VgpuSpec
from vgpumgr.core.placing import division
from vgpumgr.names import DEFAULT_SLOT, VmName, VmUuid

if TYPE_CHECKING:
    from vgpumgr.core.model.functions import Parent
    from vgpumgr.core.model.snapshot import Gpu, HostSnapshot, VgpuType

_NOBODY: Final = VmUuid("00000000-0000-0000-0000-000000000000")


def spec(snapshot: HostSnapshot, gpu: Gpu, parent: Parent, vgpu_type: VgpuType, *, number: int = 0) -> VgpuSpec:
    """A vGPU for an imaginary VM; each `number` is another one."""
    assert gpu.uuid is not None  # or the GPU could take none
    mdev, mode = gpu.framework != observed.VENDOR_VFIO, division.of(gpu)
    home = mode.home(snapshot, gpu, vgpu_type, before=None)
    return VgpuSpec(
        vm=_NOBODY,
        vm_name=VmName("?"),
        slot=DEFAULT_SLOT,
        generation=number,
        gpu_uuid=gpu.uuid,
        gpu=gpu.pci,
        vf_index=parent.vf_index,
        parent=parent.pci,
        uuid=names.compute_mdev_uuid(_NOBODY, DEFAULT_SLOT, number) if mdev else None,
        type_id=vgpu_type.id,
        type_name=vgpu_type.type_name,
        placement_id=mode.placement_id(snapshot, gpu, vgpu_type, before=None),
        mig=home.place if home is not None else None,
    )
