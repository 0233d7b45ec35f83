"""How a host's GPUs without vGPUs should be divided for what is asked for: the mode of each, and the tasks that set it.

Declared slots come before the mix of what was attached lately. Requests are first placed on the host's other GPUs. The
rest decides about the idle GPUs: the most requests served, then the most framebuffer, then the fewest changes of mode
(core/fitting/dividing.py). A request counts as served if it was placed on the host as the tasks will leave it.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace
from functools import cache
from typing import TYPE_CHECKING, Final, TypeAlias

from vgpumgr.core.driver import geometry, modes
from vgpumgr.core.evidence import lost, sharing
from vgpumgr.core.fitting import counts, dividing, one_gpu
from vgpumgr.core.fitting.shapes import Shape
from vgpumgr.core.inventory import settings
from vgpumgr.core.model.snapshot import MDEV_PF
from vgpumgr.core.placing import instances, resolve, room
from vgpumgr.core.placing.no_place import Refusal
from vgpumgr.core.reconcile import demand, host_plan
from vgpumgr.core.reconcile.tasks import KeepInstances, SetGpuMode
from vgpumgr.core.report import place
from vgpumgr.core.slot import how_many
from vgpumgr.core.step import ResetGpu
from vgpumgr.wording import Option, joined, say

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from vgpumgr.core.driver.modes import Mode
    from vgpumgr.core.evidence.sharing import Barred
    from vgpumgr.core.fitting.one_gpu import Menu, Placed
    from vgpumgr.core.inventory import HostDeclaration
    from vgpumgr.core.model.attached import History
    from vgpumgr.core.model.snapshot import Gpu
    from vgpumgr.core.model.view import HostView
    from vgpumgr.core.reconcile.demand import Asked
    from vgpumgr.core.reconcile.tasks import Author
    from vgpumgr.names import HostName, PciAddress

_FEW: Final = 4
_KEPT_OF_FEW: Final = 1000
_KEPT: Final = 50


@dataclass(frozen=True, slots=True, kw_only=True)
class Served:
    """A request, the GPU that serves it, and its vGPU's profile and size."""

    asked: Asked
    gpu: PciAddress
    profile: str
    mib: int


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuAdvice:
    """How to divide an idle GPU. `layout`: the GPU instances to make, in MIG mode. `served`: what it then takes.

    `declared`: the part of the inventory that decides about the GPU, which then stays as it is. `refused`: the modes
    that might serve more but that the GPU cannot have, each with the reason.
    """

    gpu: Gpu
    mode: Mode
    layout: tuple[str, ...] = ()
    served: tuple[Served, ...] = ()
    declared: str | None = None
    refused: tuple[tuple[Mode, str], ...] = ()

    @property
    def text(self) -> str:
        """`equal-size of 8Q`, `mixed-size`, `MIG: 3g.20gb, 1g.5gb`."""
        rules = modes.of(self.mode)
        sizes = ", ".join(dict.fromkeys(one.profile for one in self.served)) if rules.one_size else ""
        layout = f": {', '.join(self.layout)}" if self.layout else ""
        return f"{rules.words}{layout}" + (f" of {sizes}" if sizes else "")

    @property
    def why(self) -> str | None:
        """Why the GPU is not divided in another way; None if no other way might serve more."""
        if self.declared is not None:
            return say("declared ({})", self.declared)
        return joined("; ", (say("no {} mode: {}", modes.of(mode).words, why) for mode, why in self.refused)) or None

    @property
    def line(self) -> str | None:
        """The line of an inventory that keeps the GPU divided so after a boot; None if no line is needed."""
        layout = f", instances: [{', '.join(self.layout)}]" if self.layout else ""
        ends = self.mode != self.gpu.mode and modes.of(self.mode).ends_with_boot(self.gpu.board_names)
        return f'vgpumgr_gpus: {{"{self.gpu.pci}": {{mode: {self.mode}{layout}}}}}' if layout or ends else None

    def tasks(self, *, reset: bool) -> tuple[SetGpuMode | KeepInstances, ...]:
        """The tasks that divide the GPU so. In equal-size mode none sets the size: the first vGPU fixes it."""
        pci, changes = self.gpu.pci, self.mode != self.gpu.mode
        mode = (SetGpuMode(gpu_id=pci, mode=self.mode, reset=reset),) if changes else ()
        return (*mode, KeepInstances(gpu_id=pci, profiles=self.layout)) if self.layout else mode


@dataclass(frozen=True, slots=True, kw_only=True)
class HostAdvice:
    """What to make of a host's idle GPUs, by address.

    `before`: what its requests would get now, one after the other, as attach places them; `after`: with its GPUs as
    advised. `proven`: the search left nothing out. `knows_mix`: something was attached lately, even if no idle GPU
    takes it.
    """

    host: HostName
    requests: tuple[Asked, ...]
    before: tuple[Served, ...]
    after: tuple[Served, ...]
    gpus: tuple[GpuAdvice, ...]
    proven: bool
    knows_mix: bool


_Idle: TypeAlias = tuple[GpuAdvice, tuple["Gpu", ...]]
"""The advice to leave a GPU as it is; and the GPU in each mode that it may have, its present mode first."""


@dataclass(slots=True)
class _Host:
    """A host on which requests are placed, and what was served so far."""

    view: HostView
    barred: Barred
    served: list[Served] = field(default_factory=list)

    @property
    def value(self) -> tuple[int, int, int]:
        """The value by which two divisions are compared."""
        certain = sum(one.asked.source != demand.JOURNAL for one in self.served)
        return certain, len(self.served), sum(one.mib for one in self.served)

    def serve(self, requests: Iterable[Asked], among: Collection[str]) -> list[Asked]:
        """Place the requests on these GPUs as attach would, one after the other. Return those without a place."""
        return [asked for asked in requests if not self._place(asked, among)]

    def _place(self, asked: Asked, among: Collection[str]) -> bool:
        gpus = [
            gpu for gpu in self.view.snapshot.gpus if gpu.pci in among and asked.gpu_id in (None, gpu.pci, gpu.uuid)
        ]
        found = place.next_on(self.view, asked, len(self.served) + 1, among=gpus, barred=self.barred)
        if found is None:
            return False
        spot, self.view = found
        kind = spot.choice.type
        self.served.append(Served(asked=asked, gpu=spot.gpu.pci, profile=kind.short, mib=kind.size_mib or 0))
        return True


def advise(
    view: HostView, declared: HostDeclaration, history: History, author: Author, *, reset: bool = False
) -> HostAdvice:
    """The advice for one host. `reset`: a GPU may be reset if its MIG mode needs that. Raises PolicyFailed."""
    barred = sharing.barred_functions(view)
    gpus = sorted(view.snapshot.gpus, key=lambda gpu: gpu.pci)
    every = [gpu.pci for gpu in gpus]
    slots, mix = demand.declared_slots(view, declared), demand.of_history(history, view.snapshot.host)
    wanted = (*slots, *mix)
    idle = [_idle(view, declared, gpu, wanted, author, reset=reset) for gpu in gpus if _is_idle(view, gpu, barred)]
    requests = (*slots, *_scaled(view, idle, slots, mix))
    now, then = _Host(view, barred), _Host(view, barred)
    unserved = now.serve(requests, every)
    rest = then.serve(requests, {*every} - {one.gpu.pci for one, _ in idle})
    divided, proven = _divided(view, idle, rest)
    todo = [task for one, _ in divided for task in one.tasks(reset=reset)]
    _, then.view = host_plan.plan_tasks(then.view, declared, todo, author)
    left = Counter(rest)
    for one, takes in divided:
        left = left - Counter(takes) + Counter(then.serve(takes, [one.gpu.pci]))
    left_over = then.serve(left.elements(), every)
    advice = [one for one, _ in divided]
    if then.value < now.value or (todo and then.value == now.value):
        advice, then, left_over = [one for one, _ in idle], now, unserved
    return HostAdvice(
        host=view.snapshot.host,
        requests=requests,
        before=tuple(now.served),
        after=tuple(then.served),
        gpus=tuple(_told(one, then.served, left_over) for one in advice),
        proven=proven,
        knows_mix=bool(mix),
    )


def _is_idle(view: HostView, gpu: Gpu, barred: Barred) -> bool:
    """Whether a GPU takes vGPUs, is empty, is kept for nobody and is not in use. False if any of this is unknown."""
    facts = view.snapshot
    return not (
        gpu.mode is None
        or how_many.closed(view, gpu, barred) is not None
        or gpu.vgpus
        or room.room_of(facts, gpu).entered
        or any(not one.ours for one in instances.held(facts, gpu))
        or lost.lost_parents(facts, gpu)
        or _is_used(view, gpu)
    )


def _is_used(view: HostView, gpu: Gpu) -> bool:
    """Whether a claim names the GPU or a process uses it. True if that is unknown."""
    facts = view.snapshot
    if facts.handles is None or facts.why_silent(gpu.pci) is not None:
        return True
    groups = {f"/dev/vfio/{parent.group}" for parent in gpu.parents if parent.group is not None}
    bindings = (claim.binding for vm in view.domains if vm.claims for claim in vm.claims.claims)
    return (
        any(one.path in groups for one in facts.handles)
        or any(one.gpu == gpu.pci for one in facts.active or ())
        or any((one.gpu_uuid, one.host) == (gpu.uuid, facts.machine) for one in bindings)
    )


def _idle(
    view: HostView, declared: HostDeclaration, gpu: Gpu, wanted: Sequence[Asked], author: Author, *, reset: bool
) -> _Idle:
    """The advice to leave a GPU as it is, with its refused modes; and the GPU in each mode that a request could use."""
    assert gpu.mode is not None
    as_it_is = GpuAdvice(gpu=gpu, mode=gpu.mode)
    deciding = settings.deciding(gpu, declared.of_gpus, "mode") or settings.deciding(gpu, declared.of_gpus, "instances")
    if deciding is not None:
        return replace(as_it_is, declared=deciding.origin), (gpu,)
    found, refused = [gpu], list[tuple["Mode", str]]()
    for mode in modes.MODES:
        if mode != gpu.mode and _has(gpu, mode) and any(one.suits(modes.of(mode).way) for one in wanted):
            there = _in_mode(
                view, declared, gpu, SetGpuMode(gpu_id=gpu.pci, mode=mode, reset=True), author, reset=reset
            )
            if isinstance(there, str):
                refused.append((mode, there))
            else:
                found.append(there)
    return replace(as_it_is, refused=tuple(refused)), tuple(found)


def _in_mode(
    view: HostView, declared: HostDeclaration, gpu: Gpu, task: SetGpuMode, author: Author, *, reset: bool
) -> Gpu | str:
    """The GPU once the task is done, or why the task cannot be done. `reset`: the task may reset the GPU."""
    share = settings.deciding(gpu, declared.of_gpus, "scheduler")
    if share is not None and share.scheduler is not None:
        policy = share.scheduler.wish.policy
        if policy not in modes.of(task.mode).policies:
            return say("the scheduler {} is declared ({})", policy, share.origin)
    planned, after = host_plan.plan_next(view, declared, task, author)
    if planned.refused is not None:
        return planned.refused.message
    if not reset and any(isinstance(step, ResetGpu) for step in planned.steps):
        return say("that resets the GPU: {}", Option("--allow-reset"))
    return next(one for one in after.snapshot.gpus if one.pci == gpu.pci)


def _has(gpu: Gpu, mode: Mode) -> bool:
    if modes.of(mode).mig_backed:
        return gpu.mig is not None
    return modes.of(mode).is_default or (gpu.framework != MDEV_PF and geometry.has_mixed_size(gpu.board or ""))


def _scaled(view: HostView, idle: Sequence[_Idle], slots: Sequence[Asked], mix: Mapping[Asked, int]) -> list[Asked]:
    """As much of the mix as the idle GPUs hold beside the declared slots."""
    every = [gpu for _, choices in idle for gpu in choices]
    sizes = {asked: max((_size(view, gpu, asked) for gpu in every), default=0) for asked in {*slots, *mix}}
    hold = sum(max((kind.size_mib or 0 for kind in (one.gpu.types or {}).values()), default=0) for one, _ in idle)
    return demand.scaled(mix, sizes, max(0, hold - sum(sizes[asked] for asked in slots)))


def _size(view: HostView, gpu: Gpu, asked: Asked) -> int:
    shape = _shape(view, gpu, asked)
    return shape.size_mib if shape is not None else 0


def _shape(view: HostView, gpu: Gpu, asked: Asked) -> Shape | None:
    """What a request takes of an empty GPU in this GPU's mode, as the closest type; None if the GPU cannot serve it."""
    ask = resolve.Ask.at_host(view, asked.wish, asked.conditions)
    found = resolve.unmet(gpu, asked.conditions) or resolve.choices(gpu, ask)
    if isinstance(found, Refusal) or asked.gpu_id not in (None, gpu.pci, gpu.uuid):
        return None
    kind, in_mig = found[0].type, gpu.rules.mig_backed
    if resolve.too_much_waste(found[0], asked.conditions) or instances.is_mig_backed(kind) != in_mig:
        return None
    places = (gpu.places or {}).get(kind.id)
    return Shape(
        type_name=kind.type_name,
        size_mib=kind.size_mib or 0,
        maximum=instances.per_instance(kind) if in_mig else kind.max or 0,
        slots=places.size if places else 0,
        places=places.creatable if places else (),
        instance=instances.profile_of(gpu, kind) if in_mig else None,
    )


def _divided(
    view: HostView, idle: Sequence[_Idle], rest: Sequence[Asked]
) -> tuple[list[tuple[GpuAdvice, list[Asked]]], bool]:
    """The best division for these requests: each GPU's advice and the requests for it; and whether it is proven."""
    wanted = Counter(rest[: counts.MOST])
    kinds = [*wanted]
    goal = counts.Goal.of(tuple(wanted.values()), _KEPT_OF_FEW if len(idle) <= _FEW else _KEPT)
    sizes = [max((_size(view, gpu, kind) for _, of in idle for gpu in of), default=0) for kind in kinds]

    @cache
    def menu(mode: Mode, of: tuple[Shape | None, ...]) -> Menu:
        return one_gpu.menu(mode, {at: shape for at, shape in enumerate(of) if shape is not None}, goal)

    def value(found: counts.Counts) -> tuple[int, int, int]:
        numbers = goal.split(found)
        certain = sum(n for n, kind in zip(numbers, kinds, strict=True) if kind.source != demand.JOURNAL)
        return certain, counts.total(found), sum(map(int.__mul__, numbers, sizes))

    def way(gpu: Gpu, *, changes: bool) -> dividing.Way:
        shapes = tuple(_shape(view, gpu, kind) for kind in kinds)
        return dividing.Way(mode=gpu.rules.name, menu=menu(gpu.rules.name, shapes), changes=changes)

    ways = [[way(gpu, changes=gpu is not one.gpu) for gpu in choices] for one, choices in idle]
    found: list[tuple[GpuAdvice, list[Asked]]] = []
    for (one, _), (mode, placed) in zip(idle, dividing.divide(ways, goal, value), strict=True):
        largest_first = sorted(placed, key=lambda each: -sizes[each.request])
        layout = () if one.declared is not None else _layout(placed)
        found.append((replace(one, mode=mode, layout=layout), [kinds[each.request] for each in largest_first]))
    return found, goal.complete and len(rest) <= counts.MOST


def _layout(placed: Iterable[Placed]) -> tuple[str, ...]:
    """The GPU instances of these vGPUs, the largest first."""
    pieces = {one.piece for one in placed if one.piece is not None}
    profiles = sorted((one.profile for one in pieces), key=lambda one: one.order, reverse=True)
    return tuple(one.name for one in profiles)


def _told(advice: GpuAdvice, served: Iterable[Served], unserved: Sequence[Asked]) -> GpuAdvice:
    """The advice with what the GPU serves, and with those refused modes that would suit an unserved request."""
    here = tuple(one for one in served if one.gpu == advice.gpu.pci)
    refused = [one for one in advice.refused if any(asked.suits(modes.of(one[0]).way) for asked in unserved)]
    return replace(advice, served=here, refused=tuple(refused))
