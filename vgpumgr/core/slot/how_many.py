"""How many more vGPUs of a wish a GPU takes: how many attaches, one after the other, would be granted there.

core/placing/fits.py counts them for one type. If several types serve the wish, each attach is simulated after those
before it (core/simulate.py), since a GPU that has no room for the closest type may have some for the next one.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from vgpumgr.core import simulate
from vgpumgr.core import step as steps
from vgpumgr.core.evidence import preflight
from vgpumgr.core.model import view as views
from vgpumgr.core.placing import division, fits, instances, new_vgpu, placement, resolve, room, takes
from vgpumgr.core.placing.no_place import Cause, Refusal
from vgpumgr.wording import say

if TYPE_CHECKING:
    from vgpumgr.core.evidence.sharing import Barred
    from vgpumgr.core.model.functions import Parent
    from vgpumgr.core.model.snapshot import Gpu, VgpuType
    from vgpumgr.core.model.view import HostView
    from vgpumgr.core.placing.placement import Spot
    from vgpumgr.core.placing.resolve import Ask

_UNREAD: Final = frozenset({Cause.NO_TYPES, Cause.UNREADABLE})
"""Causes for which an attach is refused although nobody knows whether the GPU has room."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Granted:
    """How many vGPUs of one type are granted."""

    type_name: str
    count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class HowMany:
    """How many vGPUs of a wish a GPU takes. `granted`: their types, in the order in which attaches would get them.

    `count` None: unknown. `why`: why it is unknown or 0; None if the GPU takes at least one.
    """

    granted: tuple[Granted, ...] = ()
    count: int | None
    why: str | None = None
    cause: Cause | None = None


def how_many(view: HostView, gpu: Gpu, ask: Ask, barred: Barred) -> HowMany:
    """How often this wish would be granted on this GPU. `barred`: says why a function must not be used, or None."""
    first = _next(view, gpu, ask, barred)
    if isinstance(first, Refusal):
        return HowMany(count=_none(first), why=first.text, cause=first.cause)
    shut = shut_to_every_vm(view, gpu, first.parent)
    if shut is not None:
        return shut
    choices = resolve.choices(gpu, ask)
    if isinstance(choices, tuple) and len(choices) == 1:
        kind = first.choice.type
        count = fits.left_of(view.snapshot, room.room_of(view.snapshot, gpu), kind, barred)
        return HowMany(granted=(Granted(type_name=kind.type_name, count=count),), count=count)
    return _step_by_step(view, first, ask, barred)


def closed(view: HostView, gpu: Gpu, barred: Barred) -> HowMany | None:
    """Why a GPU takes no vGPU of any type now, even if it is empty. None if it takes some, or is only full."""
    snapshot = view.snapshot
    refusal = takes.unfit(snapshot, gpu) or takes.cordoned(snapshot, gpu) or takes.passed_through(gpu, barred)
    if refusal is not None:
        return HowMany(count=_none(refusal), why=refusal.text, cause=refusal.cause)
    return shut_to_every_vm(view, gpu, gpu.parents[0] if gpu.parents else None)


def of_types(view: HostView, gpu: Gpu, barred: Barred) -> dict[int, int | None]:
    """How many more of each of its types a GPU takes, by type id; None: unknown."""
    shut = closed(view, gpu, barred)
    if shut is not None:
        return dict.fromkeys(gpu.types or {}, shut.count)
    gpu_room = room.room_of(view.snapshot, gpu)
    return {kind.id: _left(view, gpu_room, kind, barred) for kind in (gpu.types or {}).values()}


def _left(view: HostView, gpu_room: room.Room, kind: VgpuType, barred: Barred) -> int | None:
    count = fits.left_of(view.snapshot, gpu_room, kind, barred)
    if count or not gpu_room.gpu.parents:
        return count
    refusal = takes.free_parent(view.snapshot, gpu_room, kind, barred)
    return _none(refusal) if isinstance(refusal, Refusal) else 0


def _none(refusal: Refusal) -> int | None:
    return None if refusal.cause in _UNREAD else 0


def shut_to_every_vm(view: HostView, gpu: Gpu, parent: Parent | None) -> HowMany | None:
    """Why attach would refuse every VM: no ledger, no machine-id, or no VM could start. None: it would not."""
    if view.snapshot.ledger is None:
        return HowMany(count=None, why=f"the ledger cannot be read: {views.why_unknown(view.snapshot, 'ledger')}")
    if view.snapshot.machine is None:
        return HowMany(count=0, why="the host has no machine-id, by which a claim names its host")
    obstacle = None if view.even_if_it_will_not_start else next(preflight.of_every_vm(view, gpu, parent), None)
    return None if obstacle is None else HowMany(count=0, why=say("no VM would start {}", obstacle.why))


def _step_by_step(view: HostView, first: Spot, ask: Ask, barred: Barred) -> HowMany:
    counts: Counter[str] = Counter()
    candidate: Spot | Refusal = first
    while not isinstance(candidate, Refusal):
        counts[candidate.choice.type.type_name] += 1
        view = simulate.apply(view, steps_of(view, candidate, counts.total()))
        gpu = next(one for one in view.snapshot.gpus if one.pci == first.gpu.pci)
        candidate = _next(view, gpu, ask, barred)
    granted = tuple(Granted(type_name=name, count=count) for name, count in counts.items())
    return HowMany(granted=granted, count=counts.total())


def _next(view: HostView, gpu: Gpu, ask: Ask, barred: Barred) -> Spot | Refusal:
    survey = placement.consider(view.snapshot, ask, among=(gpu,), barred=barred)
    return survey.candidates[0] if survey.candidates else survey.refused[0][1]


def steps_of(view: HostView, candidate: Spot, number: int) -> tuple[steps.Step, ...]:
    """The steps that make a vGPU as attach would, for an imaginary VM; in MIG mode its GPU instance first."""
    return steps_at(view, candidate.gpu, candidate.parent, candidate.choice.type, number=number)


def steps_at(
    view: HostView, gpu: Gpu, parent: Parent, kind: VgpuType, *, number: int, start: int | None = None
) -> tuple[*tuple[steps.InstanceStep, ...], steps.CreateVgpu]:
    """The steps that make a vGPU of this type on this function, for an imaginary VM; in MIG mode its instance first.

    `start`: where in the GPU the vGPU is to lie; if that place is not free, it lies elsewhere.
    """
    snapshot = view.snapshot
    spec = new_vgpu.imagined(snapshot, gpu, parent, kind, number=number, start=start)
    home = division.of(gpu).home(snapshot, gpu, kind, before=instances.place_at(gpu, kind, start))
    first = home.steps if home is not None else ()
    return *first, steps.CreateVgpu(host=snapshot.host, vgpu=spec, expect=steps.EMPTY)
