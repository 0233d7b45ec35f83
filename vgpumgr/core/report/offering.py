"""How much a set of profiles would serve if a site offered it, and how much of the site's GPUs would be stranded.

Each host is filled by itself: its GPUs are empty, and divided by mode as they are now. Requests arrive in given
proportions until as much was asked for as these GPUs have. Each is rounded up to the smallest profile offered there
that holds it, and is placed as attach would place it, or refused. What is free then is stranded.
"""

from __future__ import annotations

import bisect
import hashlib
import itertools
from collections import Counter
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

from vgpumgr.core import simulate
from vgpumgr.core.driver import profiles
from vgpumgr.core.driver.asking import NO_CONDITIONS
from vgpumgr.core.evidence import cordons, sharing
from vgpumgr.core.placing import instances, resolve
from vgpumgr.core.report import place
from vgpumgr.core.report.capacity import Question
from vgpumgr.core.slot import how_many

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from vgpumgr.core.driver.profiles import Profile
    from vgpumgr.core.model.snapshot import Gpu
    from vgpumgr.core.model.view import HostView

_OPENB: Final = {
    50: 7, 110: 24, 140: 1, 160: 74, 220: 62, 230: 140, 270: 4, 290: 1, 320: 328, 330: 7,
    350: 6, 370: 47, 440: 2, 460: 128, 470: 750, 480: 19, 550: 72, 590: 75, 650: 253, 810: 1078,
}  # fmt: skip
"""How often each part of a GPU was asked for, in thousandths: the pods of the openb trace that take less than a GPU.

github.com/hkust-adsl/kubernetes-scheduler-simulator (Apache-2.0), data/csv/openb_pod_list_default.csv, gpu_milli.
"""

_REQUESTS: Final = 1000
"""At least so many requests come to each host, in as many orders as that takes. Each number is the orders' mean."""

Kind: TypeAlias = "tuple[object, ...]"
_State: TypeAlias = "tuple[object, ...]"


@dataclass(frozen=True, slots=True, kw_only=True)
class Mix:
    """The proportions in which requests arrive: framebuffer in MiB, and how often it was asked for."""

    source: Literal["journal", "openb"]
    requests: Mapping[int, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Score:
    """How much of the requests a set of profiles serves. `gpus`: how many GPUs take at least one of these profiles.

    `framebuffer_mib`: the framebuffer of these GPUs. `served_mib`: the framebuffer of the vGPUs made; `asked_mib`: what
    the requests for these vGPUs asked for. `not_held`: the part of the requests (0 to 1) that is larger than every
    profile. `not_taken`: the profiles that no GPU takes as it is divided.
    """

    offered: tuple[Profile, ...]
    gpus: int
    framebuffer_mib: int
    served_mib: float
    asked_mib: float
    not_held: float
    not_taken: tuple[Profile, ...]


def emptied(view: HostView) -> HostView:
    """A host with its GPUs empty, to be filled. Closed GPUs (cordoned, passed through, not read) are left out."""
    barred, kept_free = sharing.barred_functions(view), cordons.kept_free(view)
    gpus: list[Gpu] = []
    for gpu in sorted(view.snapshot.gpus, key=lambda one: one.pci):
        if how_many.closed(view, gpu, barred) is None:
            parents = tuple(one for one in gpu.parents if one.pci not in kept_free)
            gpus.append(simulate.with_creatable(simulate.cleared(replace(gpu, parents=parents))))
    facts = replace(view.snapshot, gpus=tuple(gpus), ledger=(), freed=(), instances=(), reservations=())
    return replace(view, snapshot=facts, domains=(), saved=None, usual={}, layouts={})


def kind(host: HostView) -> Kind:
    """A key of all that decides how a host is filled: hosts with equal keys are filled alike."""
    return host.policy.name, *(
        (
            gpu.name,
            gpu.mode,
            gpu.framework,
            len({one.group or one.pci for one in gpu.parents}),
            *((one.id, one.type_name, one.max) for one in gpu.known_types.values()),
        )
        for gpu in host.snapshot.gpus
    )


def mix_of(attached: Mapping[str, int], hosts: Iterable[HostView]) -> Mix:
    """The mix of what was attached, by profile. If nothing was: openb's mix, for the largest board of these hosts."""
    requests: Counter[int] = Counter()
    for profile, count in attached.items():
        requests[_mib(profile)] += count
    if requests:
        return Mix(source="journal", requests=requests)
    largest = max((resolve.board_mib(gpu) or 0 for host in hosts for gpu in host.snapshot.gpus), default=0)
    return Mix(source="openb", requests={largest * part // 1000: count for part, count in _OPENB.items()})


def score(hosts: Iterable[tuple[HostView, int]], offered: Sequence[Profile], mix: Mix) -> Score:
    """How much of the requests the set serves. `hosts`: each with the number of hosts like it. Raises PolicyFailed."""
    filled = [(host := _Host(view, offered), count, *host.filled(mix)) for view, count in hosts]
    sizes = {profile: size for host, *_ in filled for profile, size in host.sizes.items()}
    held = sum(count for mib, count in mix.requests.items() if mib <= max(sizes.values(), default=-1))
    return Score(
        offered=tuple(offered),
        gpus=sum(count * len(host.gpus) for host, count, *_ in filled),
        framebuffer_mib=sum(count * host.framebuffer_mib for host, count, *_ in filled),
        served_mib=sum(count * served for _, count, served, _ in filled),
        asked_mib=sum(count * asked for _, count, _, asked in filled),
        not_held=1 - held / sum(mix.requests.values()),
        not_taken=tuple(one for one in offered if one not in sizes),
    )


class _Host:
    """A host and what it takes of the profiles. Many orders lead to the same state, so what comes next is cached."""

    def __init__(self, view: HostView, offered: Sequence[Profile]) -> None:
        self.gpus = tuple(gpu for gpu in view.snapshot.gpus if _taken(gpu, offered))
        self.sizes = {one: _mib(one.short) for gpu in self.gpus for one in _taken(gpu, offered)}
        self.framebuffer_mib = sum(resolve.board_mib(gpu) or 0 for gpu in self.gpus)
        self._empty = _at(replace(view, snapshot=replace(view.snapshot, gpus=self.gpus)))
        self._known: dict[tuple[_State, int], tuple[_State, HostView] | None] = {}

    def filled(self, mix: Mix) -> tuple[float, float]:
        """The framebuffer of the vGPUs made, and what their requests asked for: MiB, each as the mean of the orders."""
        requests = sorted(one for one in mix.requests.items() if one[0] <= max(self.sizes.values(), default=-1))
        steps = [*itertools.accumulate(count for _, count in requests)]
        came = orders = served = asked = 0
        while requests and came < _REQUESTS:
            now, left, orders = self._empty, self.framebuffer_mib, orders + 1
            while left > 0:
                mib, _ = requests[bisect.bisect(steps, _draw(came) * steps[-1])]
                size = min(size for size in self.sizes.values() if size >= mib)
                came, left = came + 1, left - size
                after = self._after(now, size)
                if after is not None:
                    now, served, asked = after, served + size, asked + mib
        return served / (orders or 1), asked / (orders or 1)

    def _after(self, now: tuple[_State, HostView], size: int) -> tuple[_State, HostView] | None:
        """The host with one more vGPU of this size; None if there is no room."""
        state, view = now
        if (state, size) not in self._known:
            equal = sorted((one for one, mib in self.sizes.items() if mib == size), key=lambda one: one.text)
            asked = (Question(wish=profiles.ByProfile(profile=one), conditions=NO_CONDITIONS) for one in equal)
            found = (place.next_on(view, one, len(view.snapshot.entries) + 1) for one in asked)
            self._known[state, size] = next((_at(one[1]) for one in found if one is not None), None)
        return self._known[state, size]


def _at(view: HostView) -> tuple[_State, HostView]:
    """The host and its state: what lies on each of its GPUs, and where."""
    return tuple(_contents(gpu) for gpu in view.snapshot.gpus), view


def _contents(gpu: Gpu) -> _State:
    vgpus = ((vgpu.type_id or 0, vgpu.placement_id or 0) for vgpu in gpu.vgpus)
    parts = ((one.profile_id, one.start) for one in (gpu.mig and gpu.mig.instances) or ())
    return tuple(sorted(vgpus)), tuple(sorted(parts))


def _draw(number: int) -> float:
    """A pseudo-random number from 0 up to 1 for a request's number: the same in every run and for every set."""
    return int.from_bytes(hashlib.sha256(str(number).encode()).digest()[:6]) / (1 << 48)


def _taken(gpu: Gpu, offered: Sequence[Profile]) -> list[Profile]:
    """The profiles that the GPU takes as it is divided."""
    found = ((one, resolve.find_type(gpu, one)) for one in offered)
    return [one for one, its in found if its and instances.is_mig_backed(its) == gpu.rules.mig_backed]


def _mib(short: str) -> int:
    return profiles.name_of(f"any-{short}").nominal_mib
