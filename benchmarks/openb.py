"""A replay of the openb trace: requests for GPUs come one by one and none leaves, till they ask for more than there is.

After FGD (Weng et al., "Beware of Fragmentation", USENIX ATC'23) and its simulator,
github.com/hkust-adsl/kubernetes-scheduler-simulator (Apache-2.0). Each policy here is written anew from these two.
A request asks for CPU, memory, and a share of one GPU or some whole ones; a node that has them all can take it.
A decision looks only at the nodes that changed since the last one for such a request.
"""

from __future__ import annotations

import csv
import functools
import heapq
import itertools
import math
import random
import time
from bisect import bisect_left
from collections import Counter, defaultdict
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from vgpumgr.core.policies import ranking
from vgpumgr.core.policies.policy import Candidate
from vgpumgr.core.policies.policy import Fleet as CoreFleet
from vgpumgr.names import HostName, PciAddress

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from pathlib import Path

    from vgpumgr.core.policies.policy import Policy as CorePolicy

WHOLE = 1000  # thousandths of a GPU
ARRIVALS = 1.3  # how much is asked for in the end, of the fleet's GPUs
_LEAST_CPU = 100  # what Kubernetes counts for a request without any
_MOST_CPU, _MOST_GPU = 128_000, 8_000  # of a node: what best fit divides by
_TYPICAL = 0.95  # FGD looks at the most frequent requests that are this part of all

# What is hashed many times a decision is a tuple: a frozen dataclass takes three times as long.


class Request(NamedTuple):
    """What one pod asks for: `milli` thousandths of each of `gpus` GPUs. No `models`: any model will do."""

    cpu: int
    memory: int
    gpus: int
    milli: int
    models: frozenset[str]

    @property
    def size(self) -> int:
        return self.gpus * self.milli


class Node(NamedTuple):
    """What is left of a node; `free` has a number for each of its GPUs, the fullest GPU first."""

    model: str
    cpu: int
    memory: int
    free: tuple[int, ...]


class Trace(NamedTuple):
    """The nodes in the order of their names, and the requests in that of the file."""

    nodes: tuple[Node, ...]
    requests: tuple[Request, ...]


Mix = list[tuple[Request, float]]  # how usual each request is
Key = tuple[Any, ...]


class Outcome(NamedTuple):
    """How a replay ended: percent of GPUs allocated, and how long each decision took."""

    allocated: float
    decisions_ms: list[float]


class Fleet(NamedTuple):
    """The nodes by name (a number), and the names of those that changed, as often as they did."""

    nodes: list[Node]
    changed: list[int]


class Policy(Protocol):
    """Where a request goes: the name of the node that takes it, and the state that it is in then."""

    def choose(self, fleet: Fleet, request: Request) -> tuple[int, Node] | None: ...


def read(nodes: Path, requests: Path) -> Trace:
    """The trace in these two files."""
    with nodes.open(encoding="utf-8", newline="") as file:
        rows = sorted(csv.DictReader(file), key=lambda row: row["sn"])
    with requests.open(encoding="utf-8", newline="") as file:
        asked = tuple(map(_request, csv.DictReader(file)))
    return Trace(tuple(map(_node, rows)), asked)


def _node(row: dict[str, str]) -> Node:
    return Node(row["model"], int(row["cpu_milli"]), int(row["memory_mib"]), (WHOLE,) * int(row["gpu"]))


def _request(row: dict[str, str]) -> Request:
    gpus = int(row["num_gpu"])
    milli = min(int(row["gpu_milli"]), WHOLE) if gpus else 0
    models = frozenset(filter(None, row["gpu_spec"].split("|"))) if gpus else frozenset[str]()
    return Request(int(row["cpu_milli"]), int(row["memory_mib"]), gpus, milli, models)


def arrivals(trace: Trace, dice: random.Random) -> list[Request]:
    """The trace's requests in another order, some left out or drawn again: they ask for ARRIVALS of the fleet."""
    goal = ARRIVALS * capacity(trace.nodes)
    requests = dice.sample(trace.requests, len(trace.requests))
    total = sum(request.size for request in requests)
    if total > goal:
        while total > goal:
            total -= requests.pop(dice.randrange(len(requests))).size
        return requests
    while total + (drawn := dice.choice(trace.requests)).milli <= goal:
        total += drawn.size
        requests.append(drawn)
    return requests


def capacity(nodes: Iterable[Node]) -> int:
    """All that the nodes have free, in thousandths of a GPU."""
    return sum(sum(node.free) for node in nodes)


def outcomes(node: Node, request: Request) -> list[Node]:
    """The node's possible states with the request: for a share, one for each GPU with room, the fullest GPU first."""
    cpu, memory = node.cpu - request.cpu, node.memory - request.memory
    if cpu < 0 or memory < 0 or (request.models and node.model not in request.models):
        return []
    free = node.free
    if request.size and request.milli < WHOLE:
        places = [place for place, left in enumerate(free) if left >= request.milli]
        lefts = [tuple(sorted((*free[:at], free[at] - request.milli, *free[at + 1 :]))) for at in places]
    elif free.count(WHOLE) >= request.gpus:
        lefts = [(0,) * request.gpus + free[: len(free) - request.gpus]]
    else:
        return []
    return [Node(node.model, cpu, memory, left) for left in lefts]


def replay(trace: Trace, policy: Callable[[Trace, random.Random], Policy], seed: int, *, shuffled: bool) -> Outcome:
    """One replay. `shuffled` gives each node another's name."""
    dice = random.Random(seed)
    requests, chooser, total = arrivals(trace, dice), policy(trace, dice), capacity(trace.nodes)
    nodes = random.Random(~seed).sample(trace.nodes, len(trace.nodes)) if shuffled else list(trace.nodes)
    fleet = Fleet(nodes, list(range(len(nodes))))
    arrived = used = 0
    at_end: list[float] = []
    times: list[float] = []
    for request in requests:
        start = time.perf_counter()
        choice = chooser.choose(fleet, request)
        times.append((time.perf_counter() - start) * 1000)
        arrived += request.size
        if choice:
            used += request.size
            name, fleet.nodes[name] = choice  # `name` is set first
            fleet.changed.append(name)
        # The original's figure for a percent of arrivals is the mean of all moments that round to it.
        if round(100 * arrived / total) == round(100 * ARRIVALS):
            at_end.append(100 * used / total)
    return Outcome(math.fsum(at_end) / len(at_end) if at_end else 100 * used / total, times)


class Random:
    """Chooses any node that can take the request, and any GPU there."""

    def __init__(self, _: Trace, dice: random.Random) -> None:
        self._dice = dice

    def choose(self, fleet: Fleet, request: Request) -> tuple[int, Node] | None:
        for name in self._dice.sample(range(len(fleet.nodes)), len(fleet.nodes)):
            if afters := outcomes(fleet.nodes[name], request):
                return name, self._dice.choice(afters)
        return None


class Ranked:
    """Chooses the smallest key, and of equal ones the first name. A key depends on states only: it is computed once.

    For each kind of request the nodes wait in a heap. A node that has changed since stays there until it comes up.
    """

    def __init__(self, key: Callable[[Node, Node, Request], Key | None]) -> None:
        self._key = key
        self._waiting: dict[Request, list[tuple[Key, int, Node, Node]]] = defaultdict(list)
        self._known: dict[Request, dict[Node, tuple[Key, Node] | None]] = defaultdict(dict)
        self._seen: Counter[Request] = Counter()

    def choose(self, fleet: Fleet, request: Request) -> tuple[int, Node] | None:
        waiting, known = self._waiting[request], self._known[request]
        for name in set(fleet.changed[self._seen[request] :]):
            node = fleet.nodes[name]
            if node not in known:
                known[node] = self._ranked(node, request)
            if ranked := known[node]:
                heapq.heappush(waiting, (ranked[0], name, node, ranked[1]))
        self._seen[request] = len(fleet.changed)
        while waiting and fleet.nodes[waiting[0][1]] is not waiting[0][2]:
            heapq.heappop(waiting)
        return (waiting[0][1], waiting[0][3]) if waiting else None

    def _ranked(self, node: Node, request: Request) -> tuple[Key, Node] | None:
        """The best that the node offers; of equal GPUs the fullest. What has no key is not used."""
        offers = ((self._key(node, after, request), after) for after in dict.fromkeys(outcomes(node, request)))
        return min(((key, after) for key, after in offers if key is not None), key=lambda one: one[0], default=None)


def usable_by(mix: Mix, *, cpu_counts: bool) -> Callable[[Node], float]:
    """How much of a node's free GPUs the usual requests can use: the mean over them, by how usual each is.

    A request can use what is free on the GPUs that have room for it. If only such requests came, the CPU might end
    before the GPUs: with `cpu_counts`, half of what is usable counts only as far as the CPU lasts.
    """

    @functools.cache
    def able_on(model: str, cpu: int) -> dict[tuple[int, int], list[tuple[float, float]]]:
        """By number of GPUs and share: how usual each such request is, and for how much GPU the CPU would last."""
        able = defaultdict(list)
        for request, part in mix:
            if request.size and request.cpu <= cpu and (not request.models or model in request.models):
                lasts = cpu / request.cpu * request.size if cpu_counts else math.inf
                able[request.gpus, request.milli].append((part, lasts))
        return able

    @functools.cache
    def usable(model: str, cpu: int, free: tuple[int, ...]) -> float:
        sums = [*itertools.accumulate(reversed(free), initial=0)]
        total = 0.0
        for (gpus, milli), each in able_on(model, cpu).items():
            fitting = len(free) - bisect_left(free, milli)
            if fitting >= gpus:
                reach = sums[fitting]
                total += sum(part * (reach + min(reach, lasts)) for part, lasts in each) / 2
        return total

    return lambda node: usable(node.model, node.cpu, node.free)


def mix_of(requests: Sequence[Request]) -> Mix:
    """How usual each kind of request is, whatever memory it wants; the most usual first."""
    kinds = Counter(request._replace(cpu=request.cpu or _LEAST_CPU, memory=0) for request in requests)
    order = sorted(kinds, key=lambda kind: (kinds[kind], *kind[:4], sorted(kind.models)), reverse=True)
    return [(kind, kinds[kind] / len(requests)) for kind in order]


def typical(mix: Mix) -> Mix:
    """FGD's choice: the most usual requests, each as a part of all that are chosen."""
    so_far = itertools.accumulate((part for _, part in mix), initial=0.0)
    chosen = [usual for usual, sum_before in zip(mix, so_far, strict=False) if sum_before < _TYPICAL]
    total = sum(part for _, part in chosen)
    return [(request, part / total) for request, part in chosen]


def fgd(trace: Trace, _: random.Random) -> Policy:
    """FGD's policy. Its score is a whole number, so that many nodes are equal; then the first name decides."""
    usable = usable_by(typical(mix_of(trace.requests)), cpu_counts=False)

    def key(before: Node, after: Node, request: Request) -> Key:
        growth = usable(before) - usable(after) - request.size
        return (-int(100 / (1 + math.exp(growth / WHOLE))),)

    return Ranked(key)


def of_core(policy: CorePolicy) -> Callable[[Trace, random.Random], Policy]:
    """A policy of vgpumgr's, or of a site's. A node, or one of its GPUs, is a candidate; the policy compares two.

    What it leaves equal is decided by the node's state: the least CPU, then the rest. Nodes with equal keys are equal.
    A node that it leaves out beside an equal one is not used. Raises PolicyFailed if the policy raises anything.
    """
    no_more = CoreFleet()

    def used(*offered: Candidate) -> Sequence[Candidate]:
        return ranking.ask(policy, lambda: tuple(policy.order(offered, no_more)))

    def compare(one: Candidate, other: Candidate) -> int:
        ahead, behind = used(one, other), used(other, one)
        if not ahead or not behind or ahead[0] is not behind[0]:
            return 0
        return -1 if ahead[0] is one else 1

    ranked = functools.cmp_to_key(compare)

    def make(trace: Trace, _: random.Random) -> Policy:
        usable = usable_by(mix_of([request for request in trace.requests if request.size]), cpu_counts=True)

        def key(before: Node, after: Node, request: Request) -> Key | None:
            loss = round(usable(before) - usable(after), 6)  # what differs by less is a sum in another order
            candidate = _candidate(before, request, loss)
            if not used(candidate, replace(candidate)):
                return None
            return (ranked(candidate), before.cpu, before.memory, before.free, before.model)

        return Ranked(key)

    return make


def _candidate(node: Node, request: Request, cost: float) -> Candidate:
    """A node as a policy sees a GPU. `place` is the same for all: no order of names may decide."""
    size = len(node.free) * WHOLE
    return Candidate(
        host=HostName("openb"),
        gpu=PciAddress("0000:41:00.0"),
        board=node.model,
        mode=None,
        type_name=f"{request.gpus}x{request.milli}",
        size_mib=request.size,
        framebuffer_mib=size,
        share=1 - sum(node.free) / size if size else 1.0,
        alike=0,
        others=len(node.free) - node.free.count(WHOLE),
        cost_mib=cost,
        place=0,
    )


def _best_fit(_: Node, after: Node, __: Request) -> Key:
    return (-int(100 * (1 - after.cpu / _MOST_CPU / 2 - sum(after.free) / _MOST_GPU / 2)),)


def _gpu_packing(node: Node, _: Node, request: Request) -> Key:
    """GPUs in use come first, then free GPUs of nodes in use, then nodes that are wholly free."""
    wholly = node.free.count(WHOLE)
    if not request.size:
        return (0,)
    if wholly == len(node.free):
        return (-max(33 - wholly, wholly),)
    taken = [left for left in node.free if left >= request.milli][: request.gpus]
    if whole := taken.count(WHOLE):
        return (-max(50 - whole, 33),)
    return (-max(100 - sum(left // 10 for left in taken) // 10, 50),)


PEERS: dict[str, Callable[[Trace, random.Random], Policy]] = {
    "fgd": fgd,
    "bestfit": lambda _, __: Ranked(_best_fit),
    "gpupacking": lambda _, __: Ranked(_gpu_packing),
    "random": Random,
}
