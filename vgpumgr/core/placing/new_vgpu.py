"""A vGPU that is to be made: a VM's, or one that nobody has asked for, to see what would be left beside it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from vgpumgr import names
from vgpumgr.core.model import snapshot as observed
from vgpumgr.core.model.vgpu import VgpuSpec
from vgpumgr.core.placing import division, instances
from vgpumgr.names import DEFAULT_SLOT, VmName, VmUuid

if TYPE_CHECKING:
    from vgpumgr.core.model.functions import Parent
    from vgpumgr.core.model.snapshot import Gpu, HostSnapshot, VgpuType
    from vgpumgr.core.placing.instances import Home
    from vgpumgr.names import Slot

_NOBODY: Final = VmUuid("00000000-0000-0000-0000-000000000000")


@dataclass(frozen=True, slots=True, kw_only=True)
class Owner:
    """The VM and the slot that a vGPU is for, and its generation in that slot."""

    vm: VmUuid
    vm_name: VmName
    slot: Slot
    generation: int


def spec(
    owner: Owner, gpu: Gpu, parent: Parent, vgpu_type: VgpuType, *, placement_id: int | None, home: Home | None
) -> VgpuSpec:
    """A new vGPU of a type on a function of a GPU."""
    assert gpu.uuid is not None  # or the GPU could take none
    mdev = gpu.framework != observed.VENDOR_VFIO
    return VgpuSpec(
        vm=owner.vm,
        vm_name=owner.vm_name,
        slot=owner.slot,
        generation=owner.generation,
        gpu_uuid=gpu.uuid,
        gpu=gpu.pci,
        vf_index=parent.vf_index,
        parent=parent.pci,
        uuid=names.compute_mdev_uuid(owner.vm, owner.slot, owner.generation) if mdev else None,
        type_id=vgpu_type.id,
        type_name=vgpu_type.type_name,
        placement_id=placement_id,
        mig=home.place if home is not None else None,
    )


def imagined(
    snapshot: HostSnapshot, gpu: Gpu, parent: Parent, vgpu_type: VgpuType, *, number: int = 0, start: int | None = None
) -> VgpuSpec:
    """A vGPU of an imaginary VM, at `start` if that is free, else at the place that attach would choose on that GPU.

    Different numbers give different vGPUs.
    """
    mode = division.of(gpu)
    return spec(
        Owner(vm=_NOBODY, vm_name=VmName("?"), slot=DEFAULT_SLOT, generation=number),
        gpu,
        parent,
        vgpu_type,
        placement_id=mode.placement_id(snapshot, gpu, vgpu_type, before=start),
        home=mode.home(snapshot, gpu, vgpu_type, before=instances.place_at(gpu, vgpu_type, start)),
    )
