"""Which vGPUs of shut-off VMs to move within their host, so that a wish fits there: the fewest that are enough.

The search goes backwards. It lays one more vGPU of the wish on a GPU, as if the vGPUs in its way were gone. Then it
lays each of those elsewhere in the same way. It allows one move more whenever fewer are not enough. The moves that it
finds are planned as they would be carried out, and count only if the wish fits afterwards.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

from vgpumgr.core import simulate
from vgpumgr.core.driver.mig import Piece
from vgpumgr.core.evidence import sharing
from vgpumgr.core.model.view import Finding
from vgpumgr.core.placing import instances, places, resolve, room, takes
from vgpumgr.core.placing.no_place import Refusal
from vgpumgr.core.reconcile import draining, host_plan, requests
from vgpumgr.core.reconcile.tasks import MoveSlot
from vgpumgr.core.report import listing
from vgpumgr.core.slot import detach, how_many, targets, to_come
from vgpumgr.errors import NoCapacity, VgpumgrError
from vgpumgr.names import VmName
from vgpumgr.wording import Option, say

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from vgpumgr.core.inventory import HostDeclaration
    from vgpumgr.core.model.functions import Vgpu
    from vgpumgr.core.model.snapshot import Gpu, VgpuType
    from vgpumgr.core.model.vgpu import ExactPlace
    from vgpumgr.core.model.view import HostView
    from vgpumgr.core.reconcile.tasks import Author
    from vgpumgr.core.report.capacity import Question
    from vgpumgr.core.step import Step
    from vgpumgr.names import GpuUuid, HostName

MOST_STATES: Final = 3000
"""How many arrangements are tried on a host at most (some seconds). If there are more, the answer is not proven."""
_A_PLAN: Final = 20  # planning for real counts as so many arrangements


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """The moves for each host (`tasks`); none if the wish fits often enough already, or if no moves are enough.

    `before`: how often the wish fits now. `after`: how often it fits after the best moves found. `proven`: the search
    was complete, so that no fewer moves are enough. `movable`: how many vGPUs could move.
    """

    before: int
    after: int
    tasks: dict[HostName, tuple[MoveSlot, ...]]
    proven: bool
    movable: int

    def findings(self) -> tuple[Finding, ...]:
        text = say("not every arrangement was tried: it is not proven that no fewer moves are enough")
        return () if self.proven else (Finding(kind="not-proven", host=None, text=text),)

    def short(self, question: Question, count: int, most: int) -> NoCapacity | None:
        """The error if the wish does not fit `count` times after up to `most` moves; else None."""
        if self.after >= count:
            return None
        what = "is enough" if self.proven else "was found that is enough (not every arrangement was tried)"
        return NoCapacity(
            say(
                "{} of {} fit ({}), and no set of at most {} moves {}",
                self.before,
                count,
                question.described,
                most,
                what,
            ),
            details=[
                say("with moves, {} would fit", self.after)
                if self.after > self.before
                else say(
                    "{} vGPUs of shut-off VMs could move; what runs, is lazy, cordoned or foreign stays", self.movable
                )
            ],
            hint=say(
                "{}shut VMs down, so that more can move, or see `{}`",
                say("allow more moves ({}), ", Option("--max-moves")) if self.movable > most else "",
                question.asks("explain"),
            ),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Wanted:
    """A vGPU that needs a place: a new one of the wish, or one of a shut-off VM that is to move.

    `kinds`: the types that serve it, by GPU. A vGPU that is to move also has its `task`, its present place (`lies`) and
    the steps that free this place (`leaving`). `alike`: equal for vGPUs whose GPUs and types are the same.
    """

    kinds: dict[GpuUuid, tuple[VgpuType, ...]]
    task: MoveSlot | None = None
    lies: ExactPlace | None = None
    leaving: tuple[Step, ...] = ()
    alike: tuple[object, ...] = field(init=False)

    def __post_init__(self) -> None:
        alike = tuple((gpu, *(kind.id for kind in kinds)) for gpu, kinds in sorted(self.kinds.items()))
        object.__setattr__(self, "alike", alike)


_Moves = tuple[tuple[_Wanted, "ExactPlace"], ...]
_Spot = tuple["Gpu", "VgpuType", "int | None"]
"""A GPU, the type that is to lie there, and its start in the GPU (None in equal-size mode)."""
_Way = tuple[tuple[_Wanted, ...], "ExactPlace", "HostView"]
"""The vGPUs that leave first, the place where the new vGPU then lies, and the host with the new vGPU."""


def choose(
    hosts: Sequence[tuple[HostView, HostDeclaration]], question: Question, count: int, most: int, author: Author
) -> Found:
    """The fewest moves, at most `most`, after which the wish fits `count` times on these hosts together.

    If several sets of moves are equally small, the first hosts' moves are taken. Raises PolicyFailed.
    """
    searches = [_Search(view, declared, question, author) for view, declared in hosts]
    before = sum(search.before for search in searches)
    missing = max(0, count - before)
    best: dict[int, tuple[int, int, dict[HostName, tuple[MoveSlot, ...]]]] = {0: (0, 0, {})}
    for search in searches if missing else ():
        known = dict(best)
        for gain, moves, tasks in search.options(missing, best[missing][0] - 1 if missing in best else most):
            for made, gained, there in known.values():
                total = min(missing, gained + gain)
                if made + moves <= most and (total not in best or made + moves < best[total][0]):
                    best[total] = made + moves, gained + gain, {**there, search.host: tasks}
    _, gained, tasks_by_host = best[max(best)]
    return Found(
        before=before,
        after=before + gained,
        tasks=tasks_by_host if missing in best else {},
        proven=all(search.states <= MOST_STATES for search in searches),
        movable=sum(search.movable for search in searches),
    )


class _Search:
    """The search on one host. `before`: how often the wish fits there now."""

    def __init__(self, view: HostView, declared: HostDeclaration, question: Question, author: Author) -> None:
        self.host = view.snapshot.host
        self.states = 0
        self._declared, self._author = declared, author
        self._ask = resolve.Ask.at_host(view, question.wish, question.conditions)
        self.before = self._fits(view)
        planned, self._view = host_plan.plan_tasks(view, declared, _begun(view), author)
        self._begun = tuple(one.task for one in planned if one.refused is None and isinstance(one.task, MoveSlot))
        self._wish = _Wanted(kinds=_kinds(self._view, self._ask))
        self._at = dict(_movable(self._view, declared))  # by identity: the next vGPU on a VF has the same name
        self._failed: set[object] = set()

    @property
    def movable(self) -> int:
        return len(self._at)

    def options(self, missing: int, most: int) -> Iterator[tuple[int, int, tuple[MoveSlot, ...]]]:
        """Ways to make room, smallest first: how many more vGPUs fit then, after how many moves, and the tasks.

        Moves that a killed run began are finished first, and are not counted.
        """
        gain, fewest = self._fits(self._view) - self.before, 1
        if gain > 0:
            yield gain, 0, self._begun
        while gain < missing:
            tasks = self._fewest(self.before + max(gain, 0) + 1, fewest, most)
            if tasks is None:
                return
            gain = self._after(tasks) - self.before
            fewest = len(tasks)
            yield gain, fewest, (*self._begun, *tasks)

    def _fewest(self, need: int, fewest: int, most: int) -> tuple[MoveSlot, ...] | None:
        for left in range(fewest, most + 1):
            self._failed.clear()
            found = self._search(self._view, (), (), left, need)
            if found is not None or self.states > MOST_STATES:
                return found
        return None

    def _search(
        self, view: HostView, pending: tuple[_Wanted, ...], moves: _Moves, left: int, need: int
    ) -> tuple[MoveSlot, ...] | None:
        """The tasks that place all of `pending` and make the wish fit `need` times; None if `left` moves cannot."""
        state = _state(pending, moves, left)
        if state in self._failed or self.states > MOST_STATES:
            return None
        self._failed.add(state)
        if not pending and self._fits(view) + sum(one is self._wish for one, _ in moves) >= need:
            found = self._judged(moves, need)
            if found is not None:
                return found
        wanted, rest = (pending[0], pending[1:]) if pending else (self._wish, ())
        if any(next(self._ways(view, one, left), None) is None for one in rest):
            return None
        for out, place, after in self._ways(view, wanted, left):
            if pending or out:
                todo = tuple(sorted((*rest, *out), key=_largest_first))
                found = self._search(after, todo, (*moves, (wanted, place)), left - len(out), need)
                if found is not None:
                    return found
        return None

    def _ways(self, view: HostView, wanted: _Wanted, left: int) -> Iterator[_Way]:
        """Each place for the wanted vGPU, if at most `left` other vGPUs have to leave it first."""
        seen: set[object] = set()
        for gpu in sorted(view.snapshot.gpus, key=lambda gpu: gpu.pci):
            look = (self._look(view, gpu), wanted.lies is not None and gpu.uuid == wanted.lies.gpu_uuid)
            for kind in () if gpu.uuid is None or look in seen else wanted.kinds.get(gpu.uuid, ()):
                for start, in_way in _in_the_way(gpu, kind):
                    ways = self._cleared(view, (gpu, kind, start), in_way, left)
                    yield from (way for way in ways if way[1] != wanted.lies)
            seen.add(look)

    def _cleared(self, view: HostView, spot: _Spot, in_way: Sequence[Vgpu], left: int) -> Iterator[_Way]:
        """The spot, after the vGPUs in its way have left. If that is not enough, one further vGPU leaves as well."""
        (gpu, _, start), out = spot, tuple(self._at[id(vgpu)] for vgpu in in_way if id(vgpu) in self._at)
        if len(out) > left or len(out) < len(in_way):
            return
        for one in out:
            view = simulate.apply(view, one.leaving)
        made = self._made(view, spot)
        if made is not None:
            yield out, *made
        elif len(out) < left and (start is None or all(parent.vgpus for parent in gpu.parents)):
            for one in self._others(gpu, in_way):
                made = self._made(simulate.apply(view, one.leaving), spot)
                if made is not None:
                    yield (*out, one), *made

    def _others(self, gpu: Gpu, but: Sequence[Vgpu]) -> Iterable[_Wanted]:
        """The vGPUs, other than `but`, that could leave the GPU. If several are alike, only one of them is returned."""
        others = (self._at[id(vgpu)] for vgpu in gpu.vgpus if id(vgpu) in self._at and vgpu not in but)
        return {one.alike: one for one in others}.values()

    def _made(self, view: HostView, spot: _Spot) -> tuple[ExactPlace, HostView] | None:
        """The exact place of a new vGPU on this spot, and the host with it; None if the GPU does not take it there."""
        self.states += 1
        (before, kind, start), barred = spot, sharing.barred_functions(view)
        gpu = next(one for one in view.snapshot.gpus if one.pci == before.pci)
        parent = takes.free_parent(view.snapshot, room.room_of(view.snapshot, gpu), kind, barred)
        if isinstance(parent, Refusal):
            return None
        steps = how_many.steps_at(view, gpu, parent, kind, number=self.states, start=start)
        place = steps[-1].vgpu.exact_place
        try:
            return (place, simulate.apply(view, steps)) if place.start == start else None
        except simulate.ImpossibleStepError:
            return None

    def _look(self, view: HostView, gpu: Gpu) -> object:
        """A key of all about a GPU that matters to the search. Of several GPUs with equal keys, only one is tried."""
        awaited = [entry.vgpu for entry in room.awaited_on(view.snapshot, gpu)]
        vgpus = [
            (vgpu.type_id, *_place(gpu, vgpu), (one := self._at.get(id(vgpu))) and one.alike) for vgpu in gpu.vgpus
        ]
        serves = [one.kinds.get(gpu.uuid) is not None for one in (self._wish, *self._at.values()) if gpu.uuid]
        return (
            (gpu.board, gpu.mode, len(gpu.parents), tuple(serves)),
            tuple(sorted(map(repr, vgpus))),
            tuple(sorted(repr((one.type_id, one.exact_place.start)) for one in awaited)),
            tuple(sorted((one.profile_id, one.start) for one in (gpu.mig and gpu.mig.instances) or ())),
        )

    def _judged(self, moves: Iterable[tuple[_Wanted, ExactPlace]], need: int) -> tuple[MoveSlot, ...] | None:
        """The moves as tasks, in an order in which each finds its place free.

        None if no such order is found, or if the wish then does not fit often enough.
        """
        self.states += _A_PLAN
        todo = [replace(one.task, to=place) for one, place in moves if one.task is not None]
        done: list[MoveSlot] = []
        view = self._view
        while todo:
            for task in todo:
                planned, after = host_plan.plan_next(view, self._declared, task, self._author)
                if planned.refused is None and planned.steps:
                    break
            else:
                return None
            todo.remove(task)
            done.append(task)
            view = after
        return tuple(done) if self._fits(view) >= need else None

    def _after(self, tasks: Iterable[MoveSlot]) -> int:
        return self._fits(host_plan.plan_tasks(self._view, self._declared, tasks, self._author)[1])

    def _fits(self, view: HostView) -> int:
        """How often the wish fits, beside what is kept for others."""
        view = to_come.with_room_kept(view, self._declared)
        barred = sharing.barred_functions(view)
        return sum(how_many.how_many(view, gpu, self._ask, barred).count or 0 for gpu in view.snapshot.gpus)


def _begun(view: HostView) -> Iterator[MoveSlot]:
    """The moves that killed runs left unfinished, each to the place that the slot's claim already names."""
    for row in listing.rows(view):
        domain = view.domain(row.vm_uuid) if row.vm_uuid is not None else None
        if domain is None or domain.active or row.state != "lost" or not draining.may_move(view, row):
            continue
        claim = domain.claim(row.slot) if row.slot is not None else None
        if claim is not None:
            to = claim.binding.exact_place
            yield MoveSlot(vm=domain.name, uuid=domain.uuid, slot=claim.slot, to=to)


def _movable(view: HostView, declared: HostDeclaration) -> Iterator[tuple[int, _Wanted]]:
    """Each vGPU of ours that may move, with its Python id. It is idle, bound, and its VM is shut off.

    Lazy ones are left out: while its VM is off, a lazy vGPU takes no room.
    """
    for row in listing.rows(view):
        domain = view.domain(row.vm_uuid) if row.vm_uuid is not None else None
        claim = domain.claim(row.slot) if domain is not None and row.slot is not None else None
        if domain is None or claim is None or domain.active or row.state != "bound" or not draining.may_move(view, row):
            continue
        (entry, *others) = view.entries(domain.uuid, claim.slot)
        if entry.lazy:  # its VM's end has left it behind, and reconcile frees it
            continue
        freeing = detach.DetachRequest(vm=domain.uuid, slots=(claim.slot,), by=claim.by, at=claim.at)
        try:
            request = requests.request_to_move(view, declared, domain, claim)
            leaving = detach.plan_detach(view, freeing).steps
        except VgpumgrError:
            continue
        ask = targets.ask_of(view, request, claim)
        kinds = _kinds(view, ask, among=request.gpus, only=claim.binding.type_name)
        vgpu = view.snapshot.vgpu_of(entry.vgpu)
        if vgpu is not None and not others:
            task = MoveSlot(vm=VmName(domain.name), uuid=domain.uuid, slot=claim.slot)
            yield id(vgpu), _Wanted(kinds=kinds, task=task, lies=entry.vgpu.exact_place, leaving=leaving)


def _kinds(
    view: HostView, ask: resolve.Ask, *, among: tuple[str, ...] | None = None, only: str | None = None
) -> dict[GpuUuid, tuple[VgpuType, ...]]:
    """The types that serve an ask, by GPU, whatever lies there now. `among`: only these GPUs; `only`: the only type."""
    barred = sharing.barred_functions(view)
    kinds: dict[GpuUuid, tuple[VgpuType, ...]] = {}
    for gpu in view.snapshot.gpus:
        choices = resolve.choices(gpu, ask) if how_many.closed(view, gpu, barred) is None else ()
        if gpu.uuid is None or isinstance(choices, Refusal) or resolve.unmet(gpu, ask.conditions) is not None:
            continue
        found = tuple(
            one.type
            for one in choices
            if only in (None, one.type.type_name)
            and instances.is_mig_backed(one.type) == gpu.rules.mig_backed
            and resolve.too_much_waste(one, ask.conditions) is None
        )
        if found and (among is None or gpu.uuid in among):
            kinds[gpu.uuid] = found
    return kinds


def _in_the_way(gpu: Gpu, kind: VgpuType) -> Iterator[tuple[int | None, tuple[Vgpu, ...]]]:
    """Each place of a type on a GPU, and the vGPUs that have to leave before it is free."""
    if gpu.rules.mig_backed:
        yield from _in_instances(gpu, kind)
    elif gpu.rules.has_places:
        shape = places.geometry_of(gpu, kind)
        for start in shape.mixed if shape is not None else ():
            end = start + (shape.size if shape is not None else 0)
            yield start, tuple(vgpu for vgpu in gpu.vgpus if _overlaps(gpu, vgpu, start, end))
    else:
        others = {gpu.size_of(vgpu.type_id) for vgpu in gpu.vgpus} - {kind.size_mib}
        yield None, gpu.vgpus if others else ()


def _in_instances(gpu: Gpu, kind: VgpuType) -> Iterator[tuple[int, tuple[Vgpu, ...]]]:
    """Each start of a GPU instance for the type in MIG mode, and the vGPUs that have to leave before it is free.

    An instance that is there already and has room need not be emptied.
    """
    profile = instances.profile_of(gpu, kind)
    for piece in () if profile is None else (Piece(profile=profile, start=start) for start in profile.starts):
        full = (
            one
            for one in instances.held_by_driver(gpu)
            if one.piece.overlaps(piece.start, piece.profile.size)
            and not (one.piece == piece and one.has_room(gpu, kind, beside=0))
        )
        yield piece.start, tuple(vgpu for one in full for vgpu in one.vgpus)


def _overlaps(gpu: Gpu, vgpu: Vgpu, start: int, end: int) -> bool:
    """Whether a vGPU lies in this part of the framebuffer, or may lie there, since its place or size is unknown."""
    shape, at = places.geometry_of(gpu, gpu.type_of(vgpu.type_id)), vgpu.placement_id
    return shape is None or at is None or (at < end and start < at + shape.size)


def _place(gpu: Gpu, vgpu: Vgpu) -> tuple[object, ...]:
    place = gpu.mig_place_of(vgpu)
    return vgpu.placement_id, place and place.start


def _state(pending: Iterable[_Wanted], moves: _Moves, left: int) -> object:
    """A key of a state: which vGPUs have left, and what lies where. It is equal if only alike vGPUs change places."""
    placed = tuple(sorted(repr((one.alike, place)) for one, place in moves))
    return left, placed, frozenset(one.task for one in (*pending, *(one for one, _ in moves)))


def _largest_first(one: _Wanted) -> tuple[int, tuple[object, ...], str]:
    size = max(kind.size_mib or 0 for kinds in one.kinds.values() for kind in kinds) if one.kinds else 0
    return -size, one.alike, repr(one.task)
