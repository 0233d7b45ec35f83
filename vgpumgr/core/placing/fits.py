"""What still fits on a GPU."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from vgpumgr.core.evidence import sharing
from vgpumgr.core.placing import division, takes
from vgpumgr.core.placing.room import room_of

if TYPE_CHECKING:
    from vgpumgr.core.model.functions import Parent
    from vgpumgr.core.model.snapshot import Gpu, HostSnapshot, VgpuType
    from vgpumgr.core.placing.room import Room


@dataclass(frozen=True, slots=True, kw_only=True)
class Fit:
    """A type that a GPU would take now. `left`: how many more of it; None if the ledger cannot be read."""

    gpu: Gpu
    type: VgpuType
    left: int | None


def fits(snapshot: HostSnapshot, gpu: Gpu, barred: sharing.Barred = sharing.none_barred) -> tuple[Fit, ...]:
    """Every type that could be placed on a GPU now. `barred`: why a function must not be used, or None if it may."""
    rows: list[Fit] = []
    if takes.cordoned(snapshot, gpu) is not None:
        return ()
    room = room_of(snapshot, gpu)
    kinds = [*(gpu.types or {}).values()]
    most = division.of(gpu).counts(snapshot, room, kinds)  # counted soon; left_of words each refusal
    for vgpu_type in (kind for kind, more in zip(kinds, most, strict=True) if more > 0 or kind.max is None):
        count = left_of(snapshot, room, vgpu_type, barred)
        if count:
            rows.append(Fit(gpu=gpu, type=vgpu_type, left=None if snapshot.ledger is None else count))
    return tuple(rows)


def left_of(snapshot: HostSnapshot, room: Room, vgpu_type: VgpuType, barred: sharing.Barred) -> int:
    """How many more of a type a GPU takes now, if nothing else comes between. The ledger must be readable."""
    if takes.passed_through(room.gpu, barred) or takes.of_type(snapshot, room, vgpu_type):
        return 0
    offered = sum(
        1 if room.gpu.rules.mig_backed else _offered(parent, vgpu_type, room)
        for parent in room.gpu.parents
        if takes.of_parent(snapshot, room, parent, vgpu_type, barred) is None
    )
    return division.of(room.gpu).left(snapshot, room, vgpu_type, offered)


def _offered(parent: Parent, vgpu_type: VgpuType, room: Room) -> int:
    """How many of a type a function offers: a VF 1 or 0; a physical one, less those that missing vGPUs will need."""
    return (parent.creatable or {}).get(vgpu_type.id, 0) - (len(room.awaited) if parent.vf_index is None else 0)
