"""Whether vGPUs fit on many GPUs together, and how many at most: by OR-Tools CP-SAT, the optional extra `plan`.

GPUs of one kind are alike. So the model counts them: how many are bound to each size, in MIG mode how many have each
set of GPU instances, and in mixed-size mode how many have a vGPU of a request at a placement id, as a flow from the
start of the framebuffer to its end (arc flow; Valério de Carvalho, 1999). Each unit of the flow is a GPU.
"""

from __future__ import annotations

import importlib.util
import itertools
import math
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, Final

from vgpumgr.core.driver.modes import EQUAL_SIZE, MIG, MIXED_SIZE
from vgpumgr.core.fitting import one_gpu
from vgpumgr.core.fitting.one_gpu import Placed
from vgpumgr.core.fitting.packing import Found, Search

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from vgpumgr.core.driver.mig import Piece
    from vgpumgr.core.driver.modes import Mode
    from vgpumgr.core.fitting.asked import Empty
    from vgpumgr.core.fitting.packing import Task
    from vgpumgr.core.fitting.shapes import Shape

_EFFORT: Final = 10.0
"""The limit of work, in CP-SAT's own unit (about a second each), so that every machine gets the same answer."""


def solver() -> Search | None:
    """The search by CP-SAT; None if OR-Tools is not installed."""
    return _search if importlib.util.find_spec("ortools") is not None else None


def _search(task: Task, allowed: Sequence[Mode]) -> Found:
    from ortools.sat.python import cp_model  # slow to import

    model, solver = _Model(cp_model.CpModel(), task), cp_model.CpSolver()
    for kind, count in Counter(task.gpus).items():
        model.add_kind(kind, count, allowed if kind.mode is None else (kind.mode,))
    solver.parameters.num_workers = 1
    solver.parameters.linearization_level = 2
    solver.parameters.max_deterministic_time = _EFFORT
    # CP-SAT's own handler would replace Python's for good: Python would not hear of any later Ctrl-C.
    solver.parameters.catch_sigint_signal = False
    number, size = model.goals()
    placed, at_most = _solved(model, solver, number)
    model.cp.add(number == len(placed))
    placed = _solved(model, solver, size)[0] or placed
    counts = Counter(one.request for _, _, one in placed)
    return Found(there=tuple(counts[at] for at in range(len(task.numbers))), placed=placed, at_most=at_most)


def _solved(model: _Model, solver: Any, goal: Any) -> tuple[tuple[tuple[int, Mode, Placed], ...], int]:
    """The vGPUs of the best solution that was found, none if none was; and the goal's proven bound."""
    model.cp.maximize(goal)
    # In a thread of its own: Python handles a Ctrl-C in the main thread only, and not while that is in C++.
    status = solver.status_name(ThreadPoolExecutor(1).submit(solver.solve, model.cp).result())
    if status not in ("OPTIMAL", "FEASIBLE"):
        return (), sum(model.task.numbers)
    bound = int(solver.best_objective_bound + 0.5)
    return tuple(itertools.chain.from_iterable(read(solver.value) for read in model.readers)), bound


class _Model:
    """The variables, and how the vGPUs of a solution are read from them (`readers`), kind by kind."""

    def __init__(self, cp: Any, task: Task) -> None:
        self.cp, self.task = cp, task
        self.supply: list[list[Any]] = [[] for _ in task.numbers]
        self.readers: list[Callable[[Callable[[Any], int]], Iterator[tuple[int, Mode, Placed]]]] = []

    def var(self, most: int) -> Any:
        return self.cp.new_int_var(0, most, "")

    def goals(self) -> tuple[Any, Any]:
        """What to maximise: first the number of vGPUs, then their sizes."""
        unit = math.gcd(*self.task.sizes)
        placed = [sum(supply) for supply in self.supply]
        for one, number in zip(placed, self.task.numbers, strict=True):
            self.cp.add(one <= number)
        return sum(placed), sum(one * (size // unit) for one, size in zip(placed, self.task.sizes, strict=True))

    def add_kind(self, kind: Empty, count: int, choices: Sequence[Mode]) -> None:
        """Add the GPUs of one kind, of which there are `count`, each in one of the modes `choices`."""
        every = self.task.by_board[kind.board]
        numbers = [at for at, gpu in enumerate(self.task.gpus) if gpu == kind]
        used = {mode: self.var(count) for mode in choices}
        self.cp.add(sum(used.values()) <= count)
        reads = []
        for mode in choices:
            shapes = {at: shape for at, shape in every.items() if mode in shape.modes()}
            add = {EQUAL_SIZE: self._bound, MIXED_SIZE: self._mixed_size, MIG: self._mig}[mode]
            reads.append((mode, add(shapes, used[mode], count)))

        def read(value: Callable[[Any], int]) -> Iterator[tuple[int, Mode, Placed]]:
            left = iter(numbers)
            for mode, gpus in reads:
                for placed, at in zip(gpus(value), left, strict=False):  # in this order: no GPU is lost between modes
                    yield from ((at, mode, one) for one in placed)

        self.readers.append(read)

    def _bound(self, shapes: Mapping[int, Shape], used: Any, count: int) -> Any:
        """Add GPUs, or instances, each of which takes one size only, and no more of a type than its maximum.

        The model only limits the sums. `read` deals the vGPUs out in turn, the type with the least maximum first, so
        that each GPU keeps within the maximum.
        """
        groups = []
        for size in {shape.size_mib for shape in shapes.values()}:
            alike = sorted((shape.maximum, at) for at, shape in shapes.items() if shape.size_mib == size)
            bound, xs = self.var(count), {at: self._placed(at) for _, at in alike}
            for most in {most for most, _ in alike}:
                self.cp.add(sum(xs[at] for limit, at in alike if limit <= most) <= most * bound)
            groups.append((bound, xs))
        self.cp.add(sum(bound for bound, _ in groups) <= used)

        def read(value: Callable[[Any], int]) -> Iterator[list[Placed]]:
            for bound, xs in groups:
                dealt: list[list[Placed]] = [[] for _ in range(value(bound))]
                turn = itertools.cycle(dealt)
                for at, x in xs.items():
                    for _ in range(value(x)):
                        next(turn).append(Placed(request=at))
                yield from dealt

        return read

    def _mixed_size(self, shapes: Mapping[int, Shape], used: Any, count: int) -> Any:
        """Add GPUs in mixed-size mode: a flow leads from each GiB to the next, or over a vGPU that begins there."""
        end = max((place + shape.slots for shape in shapes.values() for place in shape.places), default=0)
        arcs: dict[int, list[tuple[Any, int, int | None]]] = {
            at: [(self.var(count), at + 1, None)] for at in range(end)
        }
        for at, shape in shapes.items():
            for place in shape.places:
                arcs[place].append((self._placed(at, count), place + shape.slots, at))
        into: dict[int, list[Any]] = {0: [used]}
        for start in range(end):
            self.cp.add(sum(into.get(start, ())) == sum(arc for arc, _, _ in arcs[start]))
            for arc, to, _ in arcs[start]:
                into.setdefault(to, []).append(arc)

        def read(value: Callable[[Any], int]) -> Iterator[list[Placed]]:
            left = {(start, n): value(arc) for start, some in arcs.items() for n, (arc, _, _) in enumerate(some)}
            for _ in range(value(used)):
                placed, start = [], 0
                while start < end:
                    n = next(n for n in range(len(arcs[start])) if left[start, n])
                    left[start, n] -= 1
                    _, to, request = arcs[start][n]
                    placed += [] if request is None else [Placed(request=request, place=start)]
                    start = to
                yield placed

        return read

    def _mig(self, shapes: Mapping[int, Shape], used: Any, count: int) -> Any:
        """Add GPUs in MIG mode: how many have each set of instances, and how many instances take each size."""
        profiles = {one.instance.name: one.instance for one in shapes.values() if one.instance is not None}
        sets = [(self.var(count), pieces) for pieces in one_gpu.instance_sets([*profiles.values()])]
        self.cp.add(sum(number for number, _ in sets) <= used)
        inside = {}
        for name, profile in profiles.items():
            there = sum(number * sum(one.profile.name == name for one in pieces) for number, pieces in sets)
            inside[name] = self._bound(one_gpu.of_instance(shapes, name), there, count * profile.maximum)

        def read(value: Callable[[Any], int]) -> Iterator[list[Placed]]:
            contents = {name: of_profile(value) for name, of_profile in inside.items()}
            for number, pieces in sets:
                for _ in range(value(number)):
                    yield [one for piece in pieces for one in _in(piece, next(contents[piece.profile.name], ()))]

        return read

    def _placed(self, request: int, most: int | None = None) -> Any:
        wanted = self.task.numbers[request]
        one = self.var(wanted if most is None else min(wanted, most))
        self.supply[request].append(one)
        return one


def _in(piece: Piece, placed: Sequence[Placed]) -> Iterator[Placed]:
    return (Placed(request=one.request, piece=piece) for one in placed)
