"""Whether a GPU, or one function of it, takes one more vGPU of a type now; or why not."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vgpumgr.core.evidence import blocked_write, cordons, lost
from vgpumgr.core.evidence.sharing import none_barred
from vgpumgr.core.placing import division, health, instances
from vgpumgr.core.placing.no_place import Cause, Refusal
from vgpumgr.core.placing.room import Room, room_of
from vgpumgr.wording import Own, say

if TYPE_CHECKING:
    from vgpumgr.core.evidence.sharing import Barred
    from vgpumgr.core.model.functions import Parent
    from vgpumgr.core.model.snapshot import Gpu, HostSnapshot, VgpuType
    from vgpumgr.core.model.vgpu import VgpuSpec
    from vgpumgr.names import PciAddress


def may_create(
    snapshot: HostSnapshot, gpu: Gpu, parent: Parent, vgpu_type: VgpuType, barred: Barred = none_barred
) -> Refusal | None:
    """Why this function cannot take the type now; None if it can."""
    room = room_of(snapshot, gpu)
    return (
        cordoned(snapshot, gpu)
        or passed_through(gpu, barred)
        or of_type(snapshot, room, vgpu_type)
        or of_parent(snapshot, room, parent, vgpu_type, barred)
    )


def of_type(snapshot: HostSnapshot, room: Room, vgpu_type: VgpuType) -> Refusal | None:
    """Why none of a GPU's functions takes the type now; None if nothing is known against it."""
    problem = unfit(snapshot, room.gpu)
    if problem:
        return problem
    if instances.is_mig_backed(vgpu_type) != room.gpu.rules.mig_backed:
        return other_division(room.gpu, vgpu_type)
    return division.of(room.gpu).refusal(snapshot, room, vgpu_type)


def other_division(gpu: Gpu, vgpu_type: VgpuType) -> Refusal:
    """Why a MIG-backed type is not for a GPU that is not in MIG mode, or the other way round."""
    if instances.is_mig_backed(vgpu_type):
        return Refusal(
            Cause.NEEDS_MIG, f"{vgpu_type.short} needs MIG mode, and the GPU is in {gpu.mode or 'an unknown'} mode"
        )
    return Refusal(Cause.OTHER_MODE, f"{vgpu_type.short} is time-sliced, and the GPU is in MIG mode")


def of_parent(
    snapshot: HostSnapshot, room: Room, parent: Parent, vgpu_type: VgpuType, barred: Barred, *, again: bool = False
) -> Refusal | None:
    """Why this function alone does not take the type now; None if it does.

    `again`: the vGPU comes back to its own place, so places that are reserved for others do not count.
    """
    if parent.vf_index is not None:
        occupant = room.taken(snapshot, parent)
        if occupant is not None:
            whose = Own(f"({occupant.type_name}, {occupant.owner})")
            return Refusal(Cause.TAKEN, say("{} is taken {}", parent.pci, whose))
        why = barred(parent.pci)
        if why is not None:
            return Refusal(Cause.TAKEN, say("{} is taken {}", parent.pci, Own(f"({why})")))
        why = _in_its_group(snapshot, parent, again=again)
        if why is not None:
            return Refusal(Cause.TAKEN, say("{} {}", parent.pci, why))
    if parent.creatable is None:
        return Refusal(Cause.UNREADABLE, say("the types that {} offers could not be read", parent.pci))
    return division.of(room.gpu).refusal_on(snapshot, room, parent, vgpu_type)


def _in_its_group(snapshot: HostSnapshot, parent: Parent, *, again: bool = False) -> str | None:
    """Who has another virtual function of the same IOMMU group; None if nobody. VFIO gives a whole group to one VM."""
    for gpu in snapshot.gpus if parent.group is not None else ():
        for other in gpu.functions.by_group.get(parent.group or "", ()):
            its_room = Room.of(gpu, ()) if again else room_of(snapshot, gpu)
            occupant = None if other.pci == parent.pci else its_room.taken(snapshot, other)
            if occupant is not None:
                return say("shares IOMMU group {} with {}, {}", parent.group, other.pci, occupant.owner)
    return None


def may_make_again(snapshot: HostSnapshot, gpu: Gpu, ours: VgpuSpec) -> Refusal | None:
    """Why an entry's missing vGPU cannot be re-created at its place now; None if it can.

    Its place is reserved for it, so only existing hardware can be in the way.
    """
    problem = unfit(snapshot, gpu)
    if problem:
        return problem
    parent = gpu.parent_at(ours.vf_index)
    if parent is None:
        text = f"has no virtual function {ours.vf_index} now, the place of {ours.type_name}"
        return Refusal(Cause.NO_FUNCTION, text)
    vgpu_type = (gpu.types or {}).get(ours.type_id)
    if vgpu_type is None:
        return Refusal(Cause.NO_SUCH_TYPE, f"does not offer {ours.type_name} any more")
    if gpu.rules.mig_backed and instances.is_mig_backed(vgpu_type):
        entry = snapshot.entries.named(ours.key)
        home = instances.find_home(snapshot, gpu, vgpu_type, before=ours.mig, but=entry)
        return home if isinstance(home, Refusal) else None
    if parent.pci in lost.lost_parents(snapshot, gpu):
        return Refusal(Cause.TAKEN, say("the driver has lost {}: {}", parent.pci, lost.way_out(snapshot)))
    room = Room.of(gpu, ())
    return of_type(snapshot, room, vgpu_type) or of_parent(snapshot, room, parent, vgpu_type, none_barred, again=True)


def cordoned(snapshot: HostSnapshot, gpu: Gpu) -> Refusal | None:
    """Why nothing new is placed on a GPU that an operator has cordoned. vGPUs that it had may be re-created."""
    cordon = snapshot.cordon_on(gpu.uuid)
    return None if cordon is None else Refusal(Cause.CORDONED, cordons.in_words(cordon))


def passed_through(gpu: Gpu, barred: Barred) -> Refusal | None:
    """Why nothing new is placed on a GPU: it, or another function of its card, is passed through to a VM.

    When that VM starts, libvirt takes the function from the nvidia driver, and with it every vGPU.
    """
    for pci in gpu.own_functions:
        why = barred(pci)
        if why is not None:
            what = "it is passed through whole" if pci == gpu.pci else f"its card's function {pci} is passed through"
            return Refusal(Cause.PASSED_THROUGH, say("{} {}", what, Own(f"({why})")))
    return None


def unfit(snapshot: HostSnapshot, gpu: Gpu) -> Refusal | None:
    """Why nothing can be created on a GPU, whatever the request; None if something can."""
    if gpu.framework is None:
        # The host's own words, which may tell to run a command with the GPU's address.
        return Refusal(Cause.NO_VGPUS, say("offers no vGPUs: {}{}{}", *str(gpu.problem).partition(gpu.pci)))
    if (sick := health.ill(gpu)) is not None:
        return sick
    if gpu.uuid is None:
        return Refusal(Cause.NO_GPU_UUID, "its GPU UUID cannot be read, so nothing is written to it")
    if health.lacks_types(gpu):
        return Refusal(Cause.NO_TYPES, health.NO_TYPES)
    if not gpu.types:
        return Refusal(Cause.NO_TYPES, "its vGPU types cannot be read")
    why = blocked_write.why_not(snapshot, gpu)
    return None if why is None else Refusal(Cause.BLOCKED_WRITE, why)


def free_parent(snapshot: HostSnapshot, room: Room, vgpu_type: VgpuType, barred: Barred) -> Parent | Refusal:
    """The function of a GPU that takes a type now, or why none does. Ask only if the GPU is not passed through."""
    problem = of_type(snapshot, room, vgpu_type)
    if problem is not None:
        return problem
    lost_here = lost.lost_parents(snapshot, room.gpu)

    def why_not(pci: PciAddress) -> str | None:
        return barred(pci) or ("lost by the driver" if pci in lost_here else None)

    # A taken VF is not the reason if another one is free: then the refusal of the free one is.
    verdict: Refusal | None = None
    for parent in _in_turn(snapshot, room.gpu):
        refusal = of_parent(snapshot, room, parent, vgpu_type, why_not)
        if refusal is None:
            return parent
        if not refusal.of_this_place_alone:
            verdict = refusal
    if verdict is not None:
        return verdict
    parents = room.gpu.parents
    free = [parent for parent in parents if room.taken(snapshot, parent) is None]
    whys = [(parent, _in_its_group(snapshot, parent)) for parent in free]
    whys += [(parent, why_not(parent.pci)) for parent in parents]
    reserved = next((f"; {parent.pci} {why}" for parent, why in whys if why is not None), "")
    detail = Own(f"({len(parents)}{reserved})")
    return Refusal(Cause.ALL_TAKEN, say("every virtual function is taken {}", detail))


def _in_turn(snapshot: HostSnapshot, gpu: Gpu) -> tuple[Parent, ...]:
    """The GPU's functions in the order in which they are tried: the one after the newest entry's VF comes first."""
    last = snapshot.entries.newest_vf(gpu.uuid)
    after = (at for at, parent in enumerate(gpu.parents) if parent.vf_index is not None and parent.vf_index > last)
    start = next(after, 0)
    return (*gpu.parents[start:], *gpu.parents[:start])
