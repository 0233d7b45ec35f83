"""What `mig show` reports: each GPU in MIG mode, its GPU instances, whose they are, and what still fits."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

from vgpumgr.core.driver import mig
from vgpumgr.core.evidence import sharing
from vgpumgr.core.model import view as views
from vgpumgr.core.placing import fits, instances
from vgpumgr.core.placing.room import room_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from vgpumgr.core.driver.mig import InstanceProfile
    from vgpumgr.core.model.functions import Vgpu
    from vgpumgr.core.model.snapshot import Gpu, HostSnapshot
    from vgpumgr.core.model.view import HostView
    from vgpumgr.names import GpuUuid, HostName, PciAddress

State = Literal["used", "cached", "foreign", "unknown"]


@dataclass(frozen=True, slots=True, kw_only=True)
class InstanceRow:
    """A GPU instance: `size` memory slices from `start` on. If it cannot be read, all is None, and `state` unknown.

    `state`: used (holds anybody's vGPUs or may hold some, or is ours and a vGPU comes back to it), cached (ours, not
    used), or foreign. `vms`: the VMs that have its vGPUs, or get one back; a vGPU without a VM is named by its type.
    """

    id: int | None = None
    profile: str | None = None
    start: int | None = None
    size: int | None = None
    state: State = "unknown"
    ours: bool | None = None
    vms: tuple[str, ...] | None = None


UNREAD: Final = InstanceRow()


@dataclass(frozen=True, slots=True, kw_only=True)
class DividedGpu:
    """A GPU that is in MIG mode, or may be. `problem`: why its instances are unknown; then one row stands for them.

    `slices`: how many memory slices it has. `fits`: the profiles of which one more fits, the largest first. As in a
    plan, cached instances make room; a profile does not fit if the driver would take a foreign instance for it.
    """

    pci: PciAddress
    uuid: GpuUuid | None
    board: str | None
    slices: int
    instances: tuple[InstanceRow, ...]
    fits: tuple[str, ...]
    problem: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class HostInstances:
    host: HostName
    gpus: tuple[DividedGpu, ...]


def of_host(view: HostView, gpu_id: GpuUuid | PciAddress | None = None) -> HostInstances:
    """The host's GPUs that are in MIG mode or may be, by address. `gpu_id`: only this one."""
    facts = view.snapshot
    gpus = sorted((gpu for gpu in facts.gpus if gpu_id in (None, gpu.pci, gpu.uuid)), key=lambda gpu: gpu.pci)
    mig_gpus = (gpu for gpu in gpus if gpu.rules.mig_backed or instances.why_unread(facts, gpu) is not None)
    return HostInstances(host=facts.host, gpus=tuple(_of_gpu(view, gpu) for gpu in mig_gpus))


def _of_gpu(view: HostView, gpu: Gpu) -> DividedGpu:
    profiles = gpu.instance_profiles
    slices = max((max(profile.starts) + profile.size for profile in profiles), default=0)
    why = instances.why_unread(view.snapshot, gpu)
    if why is not None:
        return DividedGpu(
            pci=gpu.pci,
            uuid=gpu.uuid,
            board=gpu.board,
            slices=slices,
            instances=rows(view.snapshot, gpu),
            fits=(),
            problem=why,
        )
    room = room_of(view.snapshot, gpu)
    pieces = [one.piece for one in instances.held(view.snapshot, gpu) if not (one.ours and one.is_idle)]
    pieces += instances.reserved(view.snapshot, gpu)

    def is_fitting(profile: InstanceProfile) -> bool:
        types = [one for one in (gpu.types or {}).values() if one.mig_profile == profile.id]
        lefts = (fits.left_of(view.snapshot, room, one, sharing.none_barred) for one in types)
        return any(lefts) if types else bool(mig.free_starts(profile, pieces))

    fitting = sorted(filter(is_fitting, profiles), key=lambda one: one.order, reverse=True)
    return DividedGpu(
        pci=gpu.pci,
        uuid=gpu.uuid,
        board=gpu.board,
        slices=slices,
        instances=rows(view.snapshot, gpu, lambda vgpu: views.holder_name(view, vgpu)),
        fits=tuple(one.name for one in fitting),
    )


def rows(
    facts: HostSnapshot, gpu: Gpu, holder: Callable[[Vgpu], str | None] = lambda _: None
) -> tuple[InstanceRow, ...]:
    """Each instance of a GPU in MIG mode by its start; one row, UNREAD, if they cannot be read.

    `holder` names the VM of a vGPU that is not ours.
    """
    if instances.why_unread(facts, gpu) is not None:
        return (UNREAD,)
    return tuple(
        InstanceRow(
            id=one.instance.id,
            profile=one.profile.name,
            start=one.instance.start,
            size=one.instance.size,
            state=one.state,
            ours=one.ours,
            vms=tuple(dict.fromkeys(_vms(facts, gpu, one, holder))),
        )
        for one in instances.held(facts, gpu)
    )


def _vms(facts: HostSnapshot, gpu: Gpu, one: instances.Held, holder: Callable[[Vgpu], str | None]) -> Iterator[str]:
    for vgpu in one.vgpus:
        entry = facts.entry_of(gpu, vgpu)
        yield entry.vgpu.vm_name if entry is not None else holder(vgpu) or vgpu.type_name or "?"
    for awaited in one.awaited:
        yield awaited.vgpu.vm_name
