"""Whether the vGPUs of a pool fit on its GPUs together: which mode each GPU has, and where each vGPU lies.

For few GPUs the search is complete: GPU by GPU it keeps every fullest combination of what lies on the GPUs so far. If
there are too many, it goes on with those with the most vGPUs, and all that is proven is how many fit at most. For more
GPUs another search (vgpumgr/planning.py) may be given.
"""

from __future__ import annotations

import functools
from collections import Counter
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, TypeAlias

from vgpumgr.core.driver import modes
from vgpumgr.core.driver.modes import EQUAL_SIZE, MIG, MIXED_SIZE
from vgpumgr.core.fitting import one_gpu, shapes
from vgpumgr.core.fitting.counts import NONE, Goal, total
from vgpumgr.errors import NoCapacity, UnknownProfile
from vgpumgr.names import nearest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from vgpumgr.core.driver.catalogue import Catalogue
    from vgpumgr.core.driver.modes import Mode
    from vgpumgr.core.fitting.asked import Empty, Pool
    from vgpumgr.core.fitting.counts import Counts
    from vgpumgr.core.fitting.one_gpu import Placed
    from vgpumgr.core.fitting.shapes import Shape

_FEW: Final = 4
_KEPT_OF_FEW: Final = 1000
_KEPT: Final = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class Vgpu:
    """A vGPU that has a place. `requested`: the profile as it was written.

    `placement_id` is of mixed-size mode, the MIG fields of MIG mode; `mig_start` is the first memory slice.
    """

    requested: str
    type_name: str
    placement_id: int | None
    mig_profile: str | None
    mig_start: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Filled:
    """A GPU with what lies on it. `number`: from 1, among those of its board. `mode` None: the GPU stays empty."""

    number: int
    board: str
    mode: Mode | None
    vgpus: tuple[Vgpu, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Packed:
    """The most vGPUs of a pool that fit; among equally many, the largest. `missing`: what has no place, by profile.

    `at_most`: no arrangement has more vGPUs than that.
    """

    pool: Pool
    gpus: tuple[Filled, ...]
    missing: tuple[tuple[str, int], ...]
    at_most: int

    @property
    def wanted(self) -> int:
        return sum(count for _, count in self.pool.requests)

    @property
    def proven(self) -> bool:
        """Whether it is proven that no arrangement has more vGPUs."""
        return self.at_most == self.wanted - sum(count for _, count in self.missing)


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """What a search is given. `by_board`: what a vGPU of each request takes on each board.

    For each request, `numbers` says how many vGPUs are wanted, and `sizes` the size of one in MiB.
    """

    gpus: tuple[Empty, ...]
    by_board: Mapping[str, Mapping[int, Shape]]
    numbers: tuple[int, ...]
    sizes: tuple[int, ...]

    @property
    def is_small(self) -> bool:
        return len(self.gpus) <= _FEW and len(self.numbers) <= _FEW

    def value(self, there: tuple[int, ...]) -> tuple[int, int]:
        """The rank of a combination: how many vGPUs it has, then how many MiB."""
        return sum(there), sum(map(int.__mul__, there, self.sizes))


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """How many of each request have a place, and where: (the GPU's index, its mode, the vGPU) of each.

    `at_most`: no arrangement in the allowed modes has more vGPUs.
    """

    there: tuple[int, ...]
    placed: tuple[tuple[int, Mode, Placed], ...]
    at_most: int


Search: TypeAlias = "Callable[[Task, Sequence[Mode]], Found]"
"""Finds the best combination. The modes are those that a GPU may have for which none is given."""


def pack(catalogue: Catalogue, pool: Pool, many: Search | None = None) -> Packed:
    """The best arrangement. A GPU without a given mode is in mixed-size mode only where that places more.

    `many`: the search for many GPUs or profiles, if there is one. Raises BadName, and UnknownProfile for a request that
    none of the boards has.
    """
    by_board, numbers = _shapes(catalogue, pool), tuple(count for _, count in pool.requests)
    sizes = tuple(next(of[at].size_mib for of in by_board.values() if at in of) for at in range(len(numbers)))
    task = Task(gpus=pool.gpus, by_board=by_board, numbers=numbers, sizes=sizes)
    search = many if many is not None and not task.is_small else _search
    best = search(task, (EQUAL_SIZE, MIG))
    if best.there != numbers:
        other = search(task, (EQUAL_SIZE, MIXED_SIZE, MIG))
        best = replace(max(best, other, key=lambda one: task.value(one.there)), at_most=other.at_most)
    missing = tuple((name, count - placed) for (name, count), placed in zip(pool.requests, best.there, strict=True))
    return Packed(
        pool=pool,
        gpus=tuple(_filled(pool, task, best)),
        missing=tuple((name, count) for name, count in missing if count),
        at_most=best.at_most,
    )


def _shapes(catalogue: Catalogue, pool: Pool) -> dict[str, dict[int, Shape]]:
    """What each request takes on each board; a request that the board cannot serve is left out."""
    boards = [*dict.fromkeys(gpu.board for gpu in pool.gpus)]
    found: dict[str, dict[int, Shape]] = {board: {} for board in boards}
    for at, (name, _) in enumerate(pool.requests):
        for board in boards:
            shape = shapes.of_request(catalogue, board, name)
            if shape is not None:
                found[board][at] = shape
        if not any(at in of for of in found.values()):
            names = dict.fromkeys(one for board in boards for one in shapes.offered(catalogue, board))
            near = nearest(name, names, typos=False)
            raise UnknownProfile(
                f"{' and '.join(boards)} {'has' if len(boards) == 1 else 'have'} no profile {name!r}",
                hint=(f"did you mean {near}? " if near else "") + f"there is {', '.join(names)}",
            )
    return found


def _search(task: Task, allowed: Sequence[Mode]) -> Found:
    wanted = Goal.of(task.numbers, _KEPT_OF_FEW if task.is_small else _KEPT)

    @functools.cache
    def menu(gpu: Empty) -> dict[Counts, tuple[tuple[Mode, Placed], ...]]:
        choices = allowed if gpu.mode is None else (gpu.mode,)
        every: dict[Counts, tuple[tuple[Mode, Placed], ...]] = {}
        for mode in choices:
            for counts, placed in one_gpu.menu(mode, task.by_board[gpu.board], wanted).items():
                every.setdefault(counts, tuple((mode, one) for one in placed))
        return wanted.fullest(every)

    most = min(wanted.total, sum(max(map(total, menu(gpu))) for gpu in task.gpus))
    at_most = most if wanted.complete else wanted.total
    found: dict[Counts, tuple[tuple[int, Mode, Placed], ...]] = {NONE: ()}
    for at, gpu in enumerate(task.gpus):
        here = {counts: tuple((at, *one) for one in placed) for counts, placed in menu(gpu).items()}
        found = one_gpu.added(found, here, wanted)
    best = max(found, key=lambda counts: task.value(wanted.split(counts)))
    there = wanted.split(best)
    return Found(there=there, placed=found[best], at_most=sum(there) if wanted.complete else at_most)


def _filled(pool: Pool, task: Task, best: Found) -> Iterator[Filled]:
    """Each GPU with its vGPUs. Where the search had place for more than what is wanted, the last ones are left out."""
    left = [*task.numbers]
    kept: list[tuple[int, Mode, Placed]] = []
    for at, mode, one in best.placed:
        if left[one.request]:
            left[one.request] -= 1
            kept.append((at, mode, one))
    numbers: Counter[str] = Counter()
    for at, gpu in enumerate(pool.gpus):
        here = [(mode, one) for where, mode, one in kept if where == at]
        numbers[gpu.board] += 1
        yield Filled(
            number=numbers[gpu.board],
            board=gpu.board,
            mode=here[0][0] if here else None,
            vgpus=tuple(
                Vgpu(
                    requested=pool.requests[one.request][0],
                    type_name=task.by_board[gpu.board][one.request].type_name,
                    placement_id=one.place,
                    mig_profile=one.piece.profile.name if one.piece else None,
                    mig_start=one.piece.start if one.piece else None,
                )
                for _, one in here
            ),
        )


def remedies(catalogue: Catalogue, packed: Packed, many: Search | None = None) -> tuple[str, ...]:
    """What makes all of a pool fit: other modes, or one more GPU of one of its boards. Empty if neither does."""
    pool, found = packed.pool, []
    free = replace(pool, gpus=tuple(replace(gpu, mode=None) for gpu in pool.gpus))
    if free != pool and not pack(catalogue, free, many).missing:
        found.append("with the modes left open, all fit")
    for gpu in dict.fromkeys(pool.gpus):
        if not pack(catalogue, replace(pool, gpus=(*pool.gpus, gpu)), many).missing:
            mode = f" in {modes.of(gpu.mode).words} mode" if gpu.mode is not None else ""
            found.append(f"with one more {gpu.board}{mode}, all fit")
    return tuple(found)


def refusal(packed: Packed, remedies: Sequence[str], many: Search | None = None) -> NoCapacity | None:
    """The error if not all of a pool fit: what has no place, how many fit at most, and what would help; else None."""
    if not packed.missing:
        return None
    missing = ", ".join(f"{count} of {name}" for name, count in packed.missing)
    more, nothing = "", "neither other modes nor one more GPU would be enough"
    if not packed.proven:
        more, prove = " may", "for an answer that is proven"
        nothing = f"ask about fewer profiles or fewer GPUs at a time {prove}"
        nothing = nothing if many is not None else f"pip install 'vgpumgr[plan]' {prove}"
    return NoCapacity(
        f"not all fit on {names(packed.pool)}: no room for {missing}; at most {packed.at_most} of {packed.wanted}{more} fit",
        hint="; ".join(remedies) or nothing,
    )


def names(pool: Pool) -> str:
    """The GPUs of a pool: `2 A40, 1 L40 (mixed-size)`."""
    return ", ".join(
        f"{count} {gpu.board}" + (f" ({gpu.mode})" if gpu.mode else "") for gpu, count in Counter(pool.gpus).items()
    )
