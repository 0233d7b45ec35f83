"""The free places of a GPU in mixed-size mode: which one a vGPU gets, and what is free after it.

The driver's lists, read before each plan, say what is free. Only if the plan itself removes a vGPU from a GPU, its free
places are computed (core/driver/geometry.py). A vGPU gets the place that leaves room for the largest types.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from vgpumgr.core.driver import geometry
from vgpumgr.core.model.snapshot import Places
from vgpumgr.core.placing import places

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from vgpumgr.core.model.snapshot import Gpu

Free = dict[int, Places]


class Returning(NamedTuple):
    """A vGPU that comes back: its type, and its placement id before, None if it had none."""

    type_id: int
    place: int | None = None


def choose(free: Mapping[int, Places], type_id: int) -> int | None:
    """The placement id for one more vGPU of the type; None if there is none.

    First the id after which the largest sizes stay possible, then the smallest hole that fits, then the lowest id.
    """
    offer = free.get(type_id)
    if offer is None or not offer.creatable:
        return None
    largest_first = sorted({(one.size, one.creatable) for one in free.values()}, reverse=True)
    holes = _holes(free)

    def order(place: int) -> tuple[tuple[bool, ...], int, int]:
        vgpus = [(place, offer.size)]
        losses = tuple(not geometry.creatable(ids, size, vgpus) for size, ids in largest_first)
        hole = next(end - start for start, end in holes if start <= place < end)
        return losses, hole, place

    return min(offer.creatable, key=order)


def without(free: Mapping[int, Places], place: int, size: int) -> Free:
    """What is free once a vGPU of that many slots lies at a place."""
    offers = (
        replace(offer, creatable=geometry.creatable(offer.creatable, offer.size, [(place, size)]))
        for offer in free.values()
    )
    return {offer.type_id: offer for offer in offers if offer.creatable}


def back(free: Mapping[int, Places], type_id: int, place: int | None) -> int | None:
    """The placement id for a vGPU that lay at `place`: the same if it is free, else another; None if there is none."""
    offer = free.get(type_id)
    return place if offer is not None and place in offer.creatable else choose(free, type_id)


def spread(free: Mapping[int, Places], wanted: Sequence[Returning]) -> tuple[int, ...] | None:
    """A placement id for each vGPU that comes back, in the order of `wanted`; None if one finds none.

    First those that can lie where they lay before, then the others, the largest first.
    """
    rest: Free = dict(free)
    by_index: dict[int, int] = {}

    def order(at: int) -> tuple[bool, int, int]:
        offer = free.get(wanted[at].type_id)
        return offer is None or wanted[at].place not in offer.creatable, -(offer.size if offer else 0), at

    for at in sorted(range(len(wanted)), key=order):
        type_id = wanted[at].type_id
        place = back(rest, type_id, wanted[at].place)
        if place is None:
            return None
        by_index[at] = place
        rest = without(rest, place, rest[type_id].size)
    return tuple(by_index[at] for at in range(len(wanted)))


def after(free: Mapping[int, Places], wanted: Sequence[Returning]) -> Free | None:
    """What is free once each of these has its place; None if one finds none."""
    spots = spread(free, wanted)
    if spots is None:
        return None
    rest: Free = dict(free)
    for one, place in zip(wanted, spots, strict=True):
        rest = without(rest, place, free[one.type_id].size)
    return rest


def count(free: Mapping[int, Places], type_id: int) -> int:
    """How many vGPUs of this type alone still find a place."""
    number, end = 0, 0
    offer = free.get(type_id)
    for place in offer.creatable if offer else ():
        if place >= end:
            number, end = number + 1, place + (offer.size if offer else 0)
    return number


def computed(gpu: Gpu) -> Free | None:
    """The free places beside the GPU's vGPUs, by geometry; None if a placement id or a type's geometry is unknown."""
    stretches: list[tuple[int, int]] = []
    for vgpu in gpu.vgpus:
        shape = places.geometry_of(gpu, gpu.type_of(vgpu.type_id))
        if vgpu.placement_id is None or shape is None:
            return None
        stretches.append((vgpu.placement_id, shape.size))
    offers: Free = {}
    for vgpu_type in (gpu.types or {}).values():
        shape = places.geometry_of(gpu, vgpu_type)
        ids = geometry.creatable(shape.mixed, shape.size, stretches) if shape else ()
        if shape and ids:
            offers[vgpu_type.id] = Places(type_id=vgpu_type.id, size=shape.size, creatable=ids)
    return offers


def _holes(free: Mapping[int, Places]) -> list[tuple[int, int]]:
    """The free stretches, (start, end) of each: adjoining and overlapping places are one."""
    holes: list[tuple[int, int]] = []
    for start, end in sorted((place, place + one.size) for one in free.values() for place in one.creatable):
        if holes and start <= holes[-1][1]:
            holes[-1] = (holes[-1][0], max(end, holes[-1][1]))
        else:
            holes.append((start, end))
    return holes
