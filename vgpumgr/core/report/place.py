"""Where VMs that do not exist yet would get their vGPUs: over several hosts, one after the other, as attach would."""

from __future__ import annotations

import itertools
from collections import Counter
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

from vgpumgr.core import simulate
from vgpumgr.core.evidence import sharing
from vgpumgr.core.placing import cost, division, placement, resolve
from vgpumgr.core.placing.placement import Spot
from vgpumgr.core.policies import ranking
from vgpumgr.core.policies.policy import Candidate, Fleet
from vgpumgr.core.slot import how_many
from vgpumgr.errors import NoCapacity
from vgpumgr.wording import say

if TYPE_CHECKING:
    from collections.abc import Sequence

    from vgpumgr.core.driver.asking import Conditions, Grant
    from vgpumgr.core.driver.modes import Mode
    from vgpumgr.core.driver.profiles import Wish
    from vgpumgr.core.model.snapshot import Gpu
    from vgpumgr.core.model.view import HostView
    from vgpumgr.core.policies.policy import Policy
    from vgpumgr.core.report.capacity import Question
    from vgpumgr.names import GpuUuid, HostName, PciAddress


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where vGPU `number` (from 1) would lie. `placement_id` is set in mixed-size mode, the MIG fields in MIG mode."""

    policy: str
    number: int
    host: HostName
    gpu: PciAddress
    gpu_uuid: GpuUuid | None
    board: str
    mode: Mode | None
    type_name: str
    grant: Grant | None
    placement_id: int | None
    mig_profile: str | None
    mig_start: int | None
    why: str


@dataclass(slots=True)
class _Host:
    """A host as it would be after the places chosen so far, and what its GPUs offer then."""

    view: HostView
    first: int
    offers: tuple[tuple[Spot, Candidate], ...] = ()


class _Offers(dict[tuple[bool, Fraction, bool], dict[int, tuple[_Host, Spot, Candidate]]]):
    """All hosts' offers, by Spot.closeness, then by Candidate.place. A new vGPU changes one host's only."""

    def renew(self, host: _Host, offers: tuple[tuple[Spot, Candidate], ...]) -> None:
        for spot, candidate in host.offers:
            del self[spot.closeness][candidate.place]
        for spot, candidate in offers:
            self.setdefault(spot.closeness, {})[candidate.place] = host, spot, candidate
        host.offers = offers

    def best(self, policy: Policy, fleet: Fleet) -> tuple[_Host, Spot, Candidate] | None:
        """What the policy ranks first of the closest that it uses, or None."""
        for closeness in sorted(self):
            offers = self[closeness]
            ranked = ranking.rank(policy, [one for _, _, one in offers.values()], fleet) if offers else ()
            if ranked:
                return offers[ranked[0].place]
        return None


def short(found: Sequence[Place], policy: Policy, count: int, question: Question) -> NoCapacity | None:
    """The error if fewer than `count` found a place by a policy."""
    number = sum(one.policy == policy.name for one in found)
    if number >= count:
        return None
    return NoCapacity(
        say("{} of {} find a place ({}, policy {})", number, count, question.described, policy.name),
        hint=say("`{}` says why for each GPU, `{}` how many fit", question.asks("explain"), question.asks("capacity")),
    )


def places(views: Sequence[HostView], wish: Wish, conditions: Conditions, policy: Policy, count: int) -> list[Place]:
    """The places of `count` vGPUs, or of as many as find one. Raises PolicyFailed.

    Each vGPU is placed on what those before it leave; if several GPUs are equal, the first host's is taken. What a GPU
    costs is judged by what is usual on its own host, as attach judges it.
    """
    starts = itertools.accumulate((len(view.snapshot.gpus) for view in views), initial=0)
    hosts = [_Host(view, first) for view, first in zip(views, starts, strict=False)]
    usual: Counter[int] = Counter()
    offers = _Offers()
    for host in hosts:
        fleet, found = _offers(host, wish, conditions)
        usual.update(fleet.usual)
        offers.renew(host, found)
    fleet = Fleet(usual=usual)
    chosen: list[Place] = []
    while len(chosen) < count and (best := offers.best(policy, fleet)) is not None:
        host, spot, candidate = best
        chosen.append(_place(host.view, spot, candidate, policy, len(chosen) + 1))
        host.view = simulate.apply(host.view, how_many.steps_of(host.view, spot, len(chosen)))
        offers.renew(host, _offers(host, wish, conditions)[1])
    return chosen


def next_on(
    view: HostView,
    question: Question,
    number: int,
    *,
    among: Sequence[Gpu] | None = None,
    barred: sharing.Barred = sharing.none_barred,
) -> tuple[Spot, HostView] | None:
    """Where attach would place one more vGPU on this host, and the host with it; None if there is no room.

    `number`: the new vGPU's number, from 1. `among`: only these GPUs. `barred`: says why a function must not be used,
    or None. Raises PolicyFailed.
    """
    ask = resolve.Ask.at_host(view, question.wish, question.conditions)
    for spot in placement.consider(view.snapshot, ask, among=among, barred=barred).candidates:
        if how_many.shut_to_every_vm(view, spot.gpu, spot.parent) is None:
            return spot, simulate.apply(view, how_many.steps_of(view, spot, number))
    return None


def _offers(host: _Host, wish: Wish, conditions: Conditions) -> tuple[Fleet, tuple[tuple[Spot, Candidate], ...]]:
    """What is usual on a host, and what its GPUs offer."""
    view = host.view
    ask, barred = resolve.Ask.at_host(view, wish, conditions), sharing.barred_functions(view)
    spots, _ = placement.spots_of(view.snapshot, ask, barred=barred)
    fleet = Fleet(usual=cost.usual_sizes(view.snapshot, ask))
    return fleet, tuple(
        (spot, placement.as_candidate(view.snapshot, spot, fleet, first=host.first))
        for spot in spots
        if how_many.shut_to_every_vm(view, spot.gpu, spot.parent) is None
    )


def _place(view: HostView, spot: Spot, candidate: Candidate, policy: Policy, number: int) -> Place:
    mode, gpu, kind = division.of(spot.gpu), spot.gpu, spot.choice.type
    home = mode.home(view.snapshot, gpu, kind, before=None)
    return Place(
        policy=policy.name,
        number=number,
        host=view.snapshot.host,
        gpu=gpu.pci,
        gpu_uuid=gpu.uuid,
        board=gpu.board or gpu.name or "?",
        mode=gpu.mode,
        type_name=kind.type_name,
        grant=spot.choice.grant,
        placement_id=mode.placement_id(view.snapshot, gpu, kind, before=None),
        mig_profile=home.place.profile if home is not None else None,
        mig_start=home.place.start if home is not None else None,
        why=ranking.why(policy, candidate),
    )
