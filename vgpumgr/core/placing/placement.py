"""Which GPU and which function of it take a new vGPU, or why each GPU cannot; in MIG mode also which GPU instance."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from vgpumgr.core.driver.profiles import ByProfile, last_word
from vgpumgr.core.evidence import sharing
from vgpumgr.core.placing import cost, division, fits, instances, resolve, room, takes
from vgpumgr.core.placing.no_place import Cause, Refusal
from vgpumgr.core.policies import ranking
from vgpumgr.core.policies.known import BUILT_IN
from vgpumgr.core.policies.policy import Candidate, Fleet
from vgpumgr.names import nearest

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from fractions import Fraction

    from vgpumgr.core.driver.asking import Grant
    from vgpumgr.core.driver.profiles import Profile
    from vgpumgr.core.model.functions import Parent
    from vgpumgr.core.model.snapshot import Gpu, HostSnapshot, VgpuType
    from vgpumgr.core.model.vgpu import ExactPlace
    from vgpumgr.core.placing.instances import Home
    from vgpumgr.core.placing.resolve import Ask, Choice
    from vgpumgr.names import PciAddress

_MANY: Final = 3  # two are named as quickly as they are counted


@dataclass(frozen=True, slots=True, kw_only=True)
class Placed:
    """A place. `ordinal`: how many vGPUs the GPU has with this one; `maximum`: the type's limit, None: none is known.

    `why`: why it is this GPU, in words. `grant`: what serves the wish, if the type's size is known. `placement_id`: the
    vGPU's place on a GPU in mixed-size mode. `home`: its GPU instance on a GPU in MIG mode.
    """

    gpu: Gpu
    parent: Parent
    type: VgpuType
    ordinal: int
    maximum: int | None
    why: str
    grant: Grant | None = None
    placement_id: int | None = None
    home: Home | None = None

    @property
    def is_first_of_its_size(self) -> bool:
        """Whether it binds an empty GPU in equal-size mode to its size, of which more than one fits."""
        return self.home is None and self.ordinal == 1 and self.maximum is not None and self.maximum > 1


@dataclass(frozen=True, slots=True, kw_only=True)
class NoPlace:
    """Why each GPU was rejected: (PCI address, board, reason), and what would fit there now if the policy uses the GPU.

    `unknown_profile` is set if no GPU has a type of that name at all.
    """

    reasons: tuple[tuple[PciAddress, str, Refusal], ...]
    fits: tuple[str, ...]
    unknown_profile: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Spot:
    """What a GPU has for a wish: the function that takes it, as which type, and what is allocated of the GPU.

    `passed`: the closer types that the GPU has but cannot take now, the closest first. `ready`: a GPU instance that is
    declared for this GPU stands ready for it. `offer`: the spot as the policy saw it, and `why`, the policy's reason;
    None where the policy had no choice.
    """

    gpu: Gpu
    parent: Parent
    choice: Choice
    share: Fraction
    passed: tuple[tuple[VgpuType, Refusal], ...] = ()
    preferred: bool = True
    ready: bool = False
    offer: Candidate | None = None
    why: str | None = None

    @property
    def closeness(self) -> tuple[bool, Fraction, bool]:
        """What counts before any policy: whether the GPU is divided as preferred, how close its type is, `ready`."""
        return not self.preferred, self.choice.excess, not self.ready

    def equals(self, other: Spot) -> bool:
        """Whether the policy saw no difference but where the two GPUs are plugged in, and its reason names none."""
        offers = [
            replace(one.offer, gpu=self.gpu.pci, place=0, numa_node=None)
            for one in (self, other)
            if one.offer is not None
        ]
        return len(offers) == 2 and offers[0] == offers[1] and self.why == other.why


@dataclass(frozen=True, slots=True, kw_only=True)
class Considered:
    """Every GPU that a wish was held against: those that can take it, the best first, and why the others cannot."""

    candidates: tuple[Spot, ...]
    refused: tuple[tuple[Gpu, Refusal], ...]


def place(
    snapshot: HostSnapshot,
    ask: Ask,
    *,
    among: Sequence[Gpu] | None = None,
    barred: sharing.Barred = sharing.none_barred,
    exact: ExactPlace | None = None,
) -> Placed | NoPlace:
    """Choose a place for one new vGPU; the answer does not depend on the order in which anything was read.

    `among`, `barred` and the order of the GPUs: see `consider`. `exact`: the only GPU that may take the vGPU, and where
    it lies there if possible.
    """
    survey = consider(snapshot, ask, among=among, barred=barred)
    if exact is not None:
        survey = replace(survey, candidates=tuple(one for one in survey.candidates if one.gpu.uuid == exact.gpu_uuid))
    if not survey.candidates:
        return _no_place(snapshot, ask, survey, barred)
    best, start = survey.candidates[0], exact and exact.start
    mode = division.of(best.gpu)
    return Placed(
        gpu=best.gpu,
        parent=best.parent,
        type=best.choice.type,
        ordinal=room.count_allocated(snapshot, best.gpu) + 1,
        maximum=mode.most(best.choice.type),
        why=why_first(snapshot, survey) if exact is None else "to make room",
        grant=best.choice.grant,
        placement_id=mode.placement_id(snapshot, best.gpu, best.choice.type, before=start),
        home=mode.home(
            snapshot, best.gpu, best.choice.type, before=instances.place_at(best.gpu, best.choice.type, start)
        ),
    )


def _no_place(snapshot: HostSnapshot, ask: Ask, survey: Considered, barred: sharing.Barred) -> NoPlace:
    gpus = [gpu for gpu, refusal in survey.refused if refusal.cause is not Cause.LEFT_OUT]
    return NoPlace(
        reasons=tuple((gpu.pci, gpu.board or gpu.name or "?", refusal) for gpu, refusal in survey.refused),
        fits=_alternatives(snapshot, gpus, ask, barred),
        unknown_profile=isinstance(ask.wish, ByProfile)
        and not any(resolve.find_type(gpu, ask.wish.profile) for gpu in snapshot.gpus)
        and all(gpu.types for gpu in snapshot.gpus),
    )


def consider(
    snapshot: HostSnapshot,
    ask: Ask,
    *,
    among: Sequence[Gpu] | None = None,
    barred: sharing.Barred = sharing.none_barred,
) -> Considered:
    """Hold a wish against every GPU, and put those that can take it in order. `among` limits the choice to these GPUs.

    `barred`: why a function must not be used, whatever is on it now, or None. GPUs divided as preferred come first,
    then those whose free type is closest to the wish; between equals the policy decides. Where `among` names one GPU,
    no policy is asked. Raises PolicyFailed.
    A GPU offers its first free function after that of its newest ledger entry, so that a virtual function which accepts
    a vGPU and then fails its VM (seen on hardware: kernel/hypeman #435) does not get every VM.
    """
    spots, refused = spots_of(snapshot, ask, among=among, barred=barred)
    if among is not None and len(among) == 1:
        return Considered(candidates=tuple(spots), refused=tuple(refused))
    ranked: list[Spot] = []
    for _, equals in itertools.groupby(sorted(spots, key=lambda one: one.closeness), lambda one: one.closeness):
        used, left_out = _rank(snapshot, ask, tuple(equals))
        ranked += used
        refused += left_out
    return Considered(candidates=tuple(ranked), refused=tuple(sorted(refused, key=lambda one: one[0].pci)))


def spots_of(
    snapshot: HostSnapshot,
    ask: Ask,
    *,
    among: Sequence[Gpu] | None = None,
    barred: sharing.Barred = sharing.none_barred,
) -> tuple[list[Spot], list[tuple[Gpu, Refusal]]]:
    """What each GPU has for a wish, by address, before any policy; and why the others have nothing."""
    spots: list[Spot] = []
    refused: list[tuple[Gpu, Refusal]] = []
    for gpu in sorted(snapshot.gpus if among is None else among, key=lambda gpu: gpu.pci):
        verdict = _candidate(snapshot, gpu, ask, barred)
        if isinstance(verdict, Refusal):
            refused.append((gpu, verdict))
        else:
            spots.append(verdict)
    return spots, refused


def _rank(
    snapshot: HostSnapshot, ask: Ask, spots: Sequence[Spot]
) -> tuple[tuple[Spot, ...], tuple[tuple[Gpu, Refusal], ...]]:
    """GPUs that are equally close to the wish, in the policy's order; and those that the policy leaves out."""
    policy = ask.policy
    if len(spots) == 1 and policy.name in BUILT_IN:
        return tuple(spots), ()
    fleet = Fleet(usual=cost.usual_sizes(snapshot, ask), numa_nodes=ask.numa_nodes)
    offered = [as_candidate(snapshot, spot, fleet) for spot in spots]
    by_place = {one.place: spot for one, spot in zip(offered, spots, strict=True)}
    ranked = ranking.rank(policy, offered, fleet)
    left_out = [one for one in offered if one not in ranked]
    return (
        tuple(replace(by_place[one.place], offer=one, why=ranking.why(policy, one)) for one in ranked),
        tuple((by_place[one.place].gpu, Refusal(Cause.LEFT_OUT, ranking.why(policy, one))) for one in left_out),
    )


def _is_ready(snapshot: HostSnapshot, gpu: Gpu, vgpu_type: VgpuType, ask: Ask) -> bool:
    """Whether a GPU instance that is declared for this GPU exists and has room for a type."""
    if gpu.pci not in ask.layouts:
        return False
    home = division.of(gpu).home(snapshot, gpu, vgpu_type, before=None)
    return home is not None and home.is_there and home.place.profile in ask.layouts[gpu.pci]


def as_candidate(snapshot: HostSnapshot, spot: Spot, fleet: Fleet, *, first: int = 0) -> Candidate:
    """A spot as a policy sees it. `first`: how many GPUs come before its host's."""
    gpu, kind = spot.gpu, spot.choice.type
    there = room.room_of(snapshot, gpu)
    alike = sum(number for type_id, number in there.type_ids.items() if gpu.size_of(type_id) == kind.size_mib)
    return Candidate(
        host=snapshot.host,
        gpu=gpu.pci,
        board=gpu.board or gpu.name or "?",
        mode=gpu.mode,
        type_name=kind.type_name,
        size_mib=kind.size_mib or 0,
        framebuffer_mib=resolve.board_mib(gpu) or 0,
        share=float(spot.share),
        alike=alike,
        others=there.count - alike,
        cost_mib=cost.cost_mib(snapshot, there, spot.parent, kind, fleet.usual),
        place=first + sum(one.pci < gpu.pci for one in snapshot.gpus),
        numa_node=gpu.numa_node,
    )


def _candidate(snapshot: HostSnapshot, gpu: Gpu, ask: Ask, barred: sharing.Barred) -> Spot | Refusal:
    """The closest type to a wish that a GPU can take now, and where; or why it can take none."""
    problem = takes.unfit(snapshot, gpu) or takes.passed_through(gpu, barred) or resolve.unmet(gpu, ask.conditions)
    if problem:
        return problem
    choices = resolve.choices(gpu, ask)
    if isinstance(choices, Refusal):
        return choices
    kept_free = takes.cordoned(snapshot, gpu)
    if kept_free is not None:
        return kept_free
    if not gpu.parents:
        return Refusal(Cause.NO_FUNCTION, "has no virtual function")
    gpu_room = room.room_of(snapshot, gpu)
    refusals: list[tuple[VgpuType, Refusal]] = []
    for choice in choices:
        parent = takes.free_parent(snapshot, gpu_room, choice.type, barred)
        if isinstance(parent, Refusal):
            refusals.append((choice.type, parent))
            continue
        wasteful = resolve.too_much_waste(choice, ask.conditions)
        return wasteful or Spot(
            gpu=gpu,
            parent=parent,
            choice=choice,
            share=gpu_room.share,
            passed=tuple(refusals),
            preferred=resolve.is_preferred(gpu, ask.conditions),
            ready=_is_ready(snapshot, gpu, choice.type, ask),
        )
    # On a GPU that is bound to one size, the refusal of that size says more than those of the others.
    return next((one for _, one in refusals if one.cause is not Cause.OTHER_SIZE), refusals[0][1])


def why_behind(best: Spot, other: Spot) -> str:
    """Why another candidate comes after the best."""
    if best.preferred and not other.preferred:
        return (
            "time-sliced, and MIG is preferred"
            if best.gpu.rules.mig_backed
            else "in MIG mode, and time-sliced is preferred"
        )
    if other.choice.excess != best.choice.excess:
        wastes = f"{resolve.percent(other.choice.waste)} waste, not {resolve.percent(best.choice.waste)}"
        return f"further from the wish: {wastes}"
    if best.ready and not other.ready:
        return "has no declared GPU instance that stands ready"
    return "as good as the first, which has the lower address" if best.equals(other) else str(other.why)


def why_first(snapshot: HostSnapshot, found: Considered) -> str:
    """Why the first candidate is the best. Nothing is known of GPUs that were not asked for."""
    best, *others = found.candidates
    if not others and 1 + len(found.refused) < len(snapshot.gpus):
        return "the only GPU of those asked for that can take it" if found.refused else "the GPU that was asked for"
    if not others:
        return "the only GPU that can take it"
    preferred = [one for one in found.candidates if one.preferred == best.preferred]
    if len(preferred) == 1:
        return "the only GPU of the preferred kind that can take it"
    closest = [one for one in preferred if one.choice.excess == best.choice.excess]
    if len(closest) == 1:
        return f"the closest fit: {_instead(snapshot, preferred[1])}"
    if best.ready and not closest[-1].ready:
        return "a GPU instance that is declared there stands ready"
    alike = sum(best.equals(one) for one in closest)
    return f"{best.why}, the first of {alike} such GPUs" if alike > 1 else f"{best.why}"


def _instead(snapshot: HostSnapshot, other: Spot) -> str:
    """What the next best GPU would give."""
    types = sorted({one.type.short if one.type else one.type_name for one in room.occupants(snapshot, other.gpu)})
    holds = f" holds {', '.join(types)} and" if types else ""
    return f"{other.gpu.pci}{holds} would give {other.choice.type.short}, {resolve.percent(other.choice.waste)} waste"


def _alternatives(snapshot: HostSnapshot, gpus: Sequence[Gpu], ask: Ask, barred: sharing.Barred) -> tuple[str, ...]:
    """Per GPU, the nearest type that fits now: same series, next size up. GPUs that offer the same share one line."""
    pcis_by_fit: dict[tuple[str, int | None], list[PciAddress]] = {}
    for gpu in gpus:
        series, mib = resolve.wanted(gpu, ask)
        rows = [(*_distance(fit.type, series, mib), fit) for fit in fits.fits(snapshot, gpu, barred)]
        if rows:
            nearest_fit = min(rows, key=lambda row: row[:-1])[-1]
            pcis_by_fit.setdefault((nearest_fit.type.type_name, nearest_fit.left), []).append(gpu.pci)
    return tuple(text for (name, count), pcis in pcis_by_fit.items() for text in _on(name, count, pcis))


def _on(name: str, count: int | None, gpus: Sequence[PciAddress]) -> Iterator[str]:
    """`A40-8Q on 0000:41:00.0 (5 left)`, `A40-8Q on each of 8 GPUs (5 left)`."""
    more = "" if count is None else f" ({count} left)"
    for where in gpus if len(gpus) < _MANY else [f"each of {len(gpus)} GPUs"]:
        yield f"{name} on {where}{more}"


def _distance(vgpu_type: VgpuType, series: str, mib: Fraction) -> tuple[bool, bool, Fraction, int]:
    size = vgpu_type.full_mib
    return vgpu_type.parsed.series != series, size < mib, abs(size - mib), vgpu_type.id


def nearest_profile(snapshot: HostSnapshot, profile: Profile) -> str | None:
    """The profile of this host that is the same but for its spelling; never another product."""
    vgpu_types = [vgpu_type for gpu in snapshot.gpus for vgpu_type in (gpu.types or {}).values()]
    if profile.board is None:
        return nearest(profile.short, {vgpu_type.short for vgpu_type in vgpu_types}, typos=False)
    return nearest(last_word(profile.text), {vgpu_type.type_name for vgpu_type in vgpu_types}, typos=False)
