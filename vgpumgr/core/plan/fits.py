"""What still fits on a GPU."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from vgpumgr.core.driver import admission
from vgpumgr.core.model import snapshot as observed
from vgpumgr.core.plan import free_places, takes
from vgpumgr.core.plan.room import room_of

if TYPE_CHECKING:
    from vgpumgr.core.model.snapshot import Gpu, HostSnapshot, VgpuType


@dataclass(frozen=True, slots=True, kw_only=True)
class Fit:
    """A type that a GPU would take now, and how many more of it; None if the ledger's reservations cannot be read."""

    gpu: Gpu
    type: VgpuType
    left: int | None


def fits(snapshot: HostSnapshot, gpu: Gpu, barred: takes.Barred = takes.none_barred) -> tuple[Fit, ...]:
    """Every type that could be placed on a GPU now. `barred`: see place."""
    found: list[Fit] = []
    room = room_of(snapshot, gpu)
    for vgpu_type in (gpu.types or {}).values():
        if takes.of_type(snapshot, room, vgpu_type) is not None:
            continue
        open_parents = [
            parent for parent in gpu.parents if takes.of_parent(snapshot, room, parent, vgpu_type, barred) is None
        ]
        if open_parents:
            offered = sum((parent.creatable or {}).get(vgpu_type.id, 0) for parent in open_parents)
            if gpu.mode == observed.MIXED_SIZE:
                left = min(offered, free_places.count(room.free or {}, vgpu_type.id))
            else:
                left = admission.left(offered, vgpu_type.max, room.count)
            found.append(Fit(gpu=gpu, type=vgpu_type, left=None if snapshot.ledger is None else left))
    return tuple(found)
