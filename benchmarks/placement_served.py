"""How much of the demand each placement policy serves while VMs of several sizes come and go.

    .venv/bin/python -m benchmarks.placement_served [--gpus 4,8,24] [--mode equal-size,mixed-size,mig] [--seeds 10]

Arrivals are a Poisson process, stays are exponential; the load is the memory requested at one time, as a part of all.
Each cell is the mean over the seeds, in percent of the GiB that were asked for: core's policies, then rules of others,
then a packer that may move every VM at each arrival (exact in equal-size mode, else largest first).
The boards: A40 in equal-size and mixed-size mode, H100 in MIG mode, by core's own geometry.
"""

from __future__ import annotations

import abc
import argparse
import heapq
import random
import statistics
import sys
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

from vgpumgr import resources
from vgpumgr.core.driver import catalogue, geometry, mig, modes
from vgpumgr.core.model.snapshot import Places
from vgpumgr.core.placing import cost, free_places
from vgpumgr.core.policies import known, ranking
from vgpumgr.core.policies.policy import Candidate, Fleet
from vgpumgr.names import HostName, PciAddress

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from vgpumgr.core.policies.policy import Policy

    State = tuple[tuple[int, int], ...]  # the vGPUs on a GPU, sorted: (size in GiB, where)

MIXES = {
    "mixed": {4: 30, 8: 25, 12: 20, 24: 15, 48: 10},
    "desktop": {2: 40, 4: 30, 8: 20, 12: 10},
    "ai": {8: 30, 12: 25, 24: 25, 48: 20},
}
LOADS = (0.5, 0.7, 0.9)
ARRIVALS, NOT_COUNTED = 600, 100  # not counted: until the GPUs are as full as they stay
EMPTY: State = ()


@dataclass(frozen=True, kw_only=True)
class Board(abc.ABC):
    """A board in a mode. `sizes`: those that a vGPU may have, in GiB. `largest`: the whole board's."""

    mode: modes.Mode
    sizes: tuple[int, ...]
    largest: int

    def serves(self, size: int) -> int:
        """The smallest size that is enough."""
        return next(one for one in self.sizes if one >= size)

    @abc.abstractmethod
    def where(self, state: State, size: int) -> int | None:
        """Where a new vGPU would lie; None if there is no room."""

    @abc.abstractmethod
    def count(self, state: State, size: int) -> int:
        """How many more of a size alone fit."""


class Equal(Board):
    def where(self, state: State, size: int) -> int | None:
        return len(state) if self.count(state, size) else None

    def count(self, state: State, size: int) -> int:
        return 0 if state and state[0][0] != size else self.largest // size - len(state)


class Mixed(Board):
    def where(self, state: State, size: int) -> int | None:
        return _mixed_place(state, size, self.sizes)

    def count(self, state: State, size: int) -> int:
        return len(_apart(_creatable(state, size), size))


class Mig(Board):
    def where(self, state: State, size: int) -> int | None:
        return mig.best_start(PROFILES.values(), PROFILES[size], _pieces(state))

    def count(self, state: State, size: int) -> int:
        return mig.capacity(PROFILES[size], _pieces(state))


def _pieces(state: State) -> tuple[mig.Piece, ...]:
    return tuple(mig.Piece(profile=PROFILES[size], start=start) for size, start in state)


def _creatable(state: State, size: int) -> tuple[int, ...]:
    shape = geometry.of_type("A40", 48, size)
    assert shape is not None
    return geometry.creatable(shape.mixed, size, [(start, slots) for slots, start in state])


def _apart(places: Sequence[int], size: int) -> list[int]:
    chosen: list[int] = []
    for place in places:
        if not chosen or place >= chosen[-1] + size:
            chosen.append(place)
    return chosen


@cache
def _mixed_place(state: State, size: int, sizes: tuple[int, ...]) -> int | None:
    offers = {one: Places(type_id=one, size=one, creatable=_creatable(state, one)) for one in sizes}
    return free_places.choose({key: offer for key, offer in offers.items() if offer.creatable}, size)


def _h100() -> dict[int, mig.InstanceProfile]:
    profiles = mig.board_profiles(catalogue.parse(resources.catalogue_text()), "H100") or ()
    plain = {one.name: one for one in profiles if "+" not in one.name}
    return {10: plain["1g.10gb"], 20: plain["2g.20gb"], 40: plain["3g.40gb"], 80: plain["7g.80gb"]}


PROFILES = _h100()
BOARDS: tuple[Board, ...] = (
    Equal(mode=modes.EQUAL_SIZE, sizes=(1, 2, 3, 4, 6, 8, 12, 16, 24, 48), largest=48),
    Mixed(mode=modes.MIXED_SIZE, sizes=(1, 2, 3, 4, 6, 8, 12, 16, 24, 48), largest=48),
    Mig(mode=modes.MIG, sizes=tuple(PROFILES), largest=80),
)


@cache
def where(board: Board, state: State, size: int) -> int | None:
    return board.where(state, size)


@cache
def usable(board: Board, state: State) -> tuple[int, ...]:
    return tuple(board.count(state, size) * size for size in board.sizes)


def after(board: Board, state: State, size: int) -> State:
    place = where(board, state, size)
    assert place is not None
    return tuple(sorted((*state, (size, place))))


def by_policy(policy: Policy) -> Callable[[Board, Sequence[State], int, Mapping[int, int]], int | None]:
    """One of core's policies as a rule: it is asked as placing asks it."""

    def choose(board: Board, gpus: Sequence[State], size: int, usual: Mapping[int, int]) -> int | None:
        offered = [
            _candidate(board, state, size, usual, at)
            for at, state in enumerate(gpus)
            if where(board, state, size) is not None
        ]
        ranked = ranking.rank(policy, offered, Fleet(usual=usual)) if offered else ()
        return ranked[0].place if ranked else None

    return choose


def _candidate(board: Board, state: State, size: int, usual: Mapping[int, int], at: int) -> Candidate:
    before, then = usable(board, state), usable(board, after(board, state, size))
    alike = sum(one == size for one, _ in state)
    return Candidate(
        host=HostName("kvm01"),
        gpu=PciAddress(f"0000:{at:02x}:00.0"),
        board="A40",
        mode=board.mode,
        type_name=f"A40-{size}Q",
        size_mib=size,
        framebuffer_mib=board.largest,
        share=sum(one for one, _ in state) / board.largest,
        alike=alike,
        others=len(state) - alike,
        cost_mib=cost.mean_loss(board.sizes, before, then, usual),
        place=at,
    )


def _fits(board: Board, gpus: Sequence[State], size: int) -> list[int]:
    return [at for at, state in enumerate(gpus) if where(board, state, size) is not None]


def first_fit(board: Board, gpus: Sequence[State], size: int, _usual: Mapping[int, int]) -> int | None:
    return next(iter(_fits(board, gpus, size)), None)


def best_fit(board: Board, gpus: Sequence[State], size: int, _usual: Mapping[int, int]) -> int | None:
    """The GPU with the least free memory, of those that have room."""
    return max(_fits(board, gpus, size), key=lambda at: (_taken(gpus[at]), -at), default=None)


def pack_by_size(board: Board, gpus: Sequence[State], size: int, _usual: Mapping[int, int]) -> int | None:
    """The fullest GPU with vGPUs of this size alone, else an empty one, else the fullest."""

    def order(at: int) -> tuple[int, int, int]:
        sizes = {one for one, _ in gpus[at]}
        return 0 if sizes == {size} else 1 if not sizes else 2, -_taken(gpus[at]), at

    return min(_fits(board, gpus, size), key=order, default=None)


def largest_remaining(board: Board, gpus: Sequence[State], size: int, _usual: Mapping[int, int]) -> int | None:
    """The GPU that loses the least room for the largest size, then for the next one."""

    def loss(at: int) -> tuple[tuple[int, ...], int, int]:
        before, then = usable(board, gpus[at]), usable(board, after(board, gpus[at], size))
        return tuple(old - new for old, new in zip(before[::-1], then[::-1], strict=True)), -_taken(gpus[at]), at

    return min(_fits(board, gpus, size), key=loss, default=None)


def at_random(board: Board, gpus: Sequence[State], size: int, _usual: Mapping[int, int]) -> int | None:
    fits = _fits(board, gpus, size)
    return random.Random(repr((gpus, size))).choice(fits) if fits else None


def _taken(state: State) -> int:
    return sum(size for size, _ in state)


def packs(board: Board, gpus: int, sizes: Sequence[int]) -> bool:
    """Whether a packer finds room for vGPUs of all these sizes together."""
    if isinstance(board, Equal):
        return sum(-(-sizes.count(size) // (board.largest // size)) for size in set(sizes)) <= gpus
    states: list[State] = [EMPTY] * gpus
    for size in sorted(sizes, reverse=True):
        at = best_fit(board, states, size, {})
        if at is None:
            return False
        states[at] = after(board, states[at], size)
    return True


def requests(board: Board, gpus: int, mix: Mapping[int, int], load: float, seed: int) -> list[tuple[float, float, int]]:
    """The requests, each as the times when it comes and leaves, and its size in GiB."""
    dice = random.Random(seed)
    sizes, weights = list(mix), list(mix.values())
    mean = sum(size * weight for size, weight in mix.items()) / sum(weights)
    stay = load * gpus * 48 / mean  # with an arrival in each unit of time
    now, found = 0.0, []
    scale = board.largest / 48
    for _ in range(ARRIVALS):
        now += dice.expovariate(1)
        (size,) = dice.choices(sizes, weights)
        found.append((now, now + dice.expovariate(1 / stay), board.serves(round(size * scale))))
    return found


def served(board: Board, gpus: int, arrivals: Sequence[tuple[float, float, int]], choose: Any) -> float:
    """The part of the GiB asked for that was placed."""
    states: list[State] = [EMPTY] * gpus
    usual = dict.fromkeys(board.sizes, 1)
    leaving: list[tuple[float, int, int, tuple[int, int]]] = []
    demand = supply = 0
    for number, (now, ends, size) in enumerate(arrivals):
        while leaving and leaving[0][0] <= now:
            _, _, at, vgpu = heapq.heappop(leaving)
            rest = list(states[at])
            rest.remove(vgpu)
            states[at] = tuple(rest)
        at = choose(board, states, size, usual)
        usual[size] += 1
        demand += size if number >= NOT_COUNTED else 0
        if at is None:
            continue
        supply += size if number >= NOT_COUNTED else 0
        place = where(board, states[at], size)
        assert place is not None
        states[at] = after(board, states[at], size)
        heapq.heappush(leaving, (ends, number, at, (size, place)))
    return supply / demand


def served_by_packer(board: Board, gpus: int, arrivals: Sequence[tuple[float, float, int]]) -> float:
    leaving: list[tuple[float, int]] = []
    demand = supply = 0
    for number, (now, ends, size) in enumerate(arrivals):
        leaving = [one for one in leaving if one[0] > now]
        demand += size if number >= NOT_COUNTED else 0
        if packs(board, gpus, [*(one for _, one in leaving), size]):
            leaving.append((ends, size))
            supply += size if number >= NOT_COUNTED else 0
    return supply / demand


RULES: dict[str, Any] = {
    **{name: by_policy(policy) for name, policy in known.BUILT_IN.items() if name != "numa"},
    "first-fit": first_fit,
    "best-fit": best_fit,
    "pack-by-size": pack_by_size,
    "largest-rem": largest_remaining,
    "random": at_random,
}
PEERS = ("first-fit", "best-fit", "pack-by-size", "largest-rem")


def main(words: Sequence[str]) -> int:
    """Exit 1 where the default serves less than the best peer by more than the seeds' spread."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gpus", default="4,8,24")
    parser.add_argument("--mode", default=",".join(board.mode for board in BOARDS))
    parser.add_argument("--seeds", type=int, default=10)
    options = parser.parse_args(words)
    worst = 0
    print("MODE        GPUS  MIX      LOAD  " + "  ".join(f"{name:>11}" for name in RULES) + "      packer", flush=True)
    for board in (one for one in BOARDS if one.mode in options.mode.split(",")):
        for gpus in map(int, options.gpus.split(",")):
            for name in MIXES:
                for load in LOADS:
                    worst += _cell(board, gpus, name, load=load, seeds=options.seeds)
    return min(worst, 1)


def _cell(board: Board, gpus: int, name: str, *, load: float, seeds: int) -> int:
    mix = MIXES[name]
    streams = [requests(board, gpus, mix, load, seed) for seed in range(seeds)]
    results = {rule: [100 * served(board, gpus, one, choose) for one in streams] for rule, choose in RULES.items()}
    means = {rule: statistics.mean(found) for rule, found in results.items()}
    bound = statistics.mean(100 * served_by_packer(board, gpus, one) for one in streams)
    best = max(PEERS, key=lambda rule: means[rule])
    differences = [a - b for a, b in zip(results[known.DEFAULT.name], results[best], strict=True)]
    spread = statistics.stdev(differences) / len(differences) ** 0.5 if len(differences) > 1 else 0.0
    misses = statistics.mean(differences) < -2 * spread
    cells = "  ".join(f"{means[rule]:11.1f}" for rule in RULES)
    print(
        f"{board.mode:10}  {gpus:4}  {name:7}  {load:.1f}   {cells}  {bound:10.1f}{'  <' if misses else ''}", flush=True
    )
    return int(misses)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
