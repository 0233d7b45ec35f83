"""The plans that make or remove the GPU instances of one GPU.

A declared layout moves no vGPUs of other profiles, nor their instances. Our cached instances are removed to make room
unless they are declared. What still finds no room is `unmet`, beside the plan for the rest.

Giving back removes our instances that hold no vGPU and to which no vGPU will return.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

from vgpumgr import errors
from vgpumgr.core import step as steps
from vgpumgr.core.driver import mig, mig_fit
from vgpumgr.core.driver.mig import Blocked, Piece
from vgpumgr.core.evidence import blocked_write
from vgpumgr.core.gpu import gpu_choice, gpu_plan
from vgpumgr.core.gpu.gpu_plan import GpuPlan
from vgpumgr.core.placing import instances
from vgpumgr.core.slot import detach
from vgpumgr.core.slot import plan as plans
from vgpumgr.wording import Command, joined, say

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from vgpumgr.core.driver.mig import InstanceProfile
    from vgpumgr.core.model.snapshot import Gpu, HostSnapshot
    from vgpumgr.core.model.view import HostView
    from vgpumgr.names import PciAddress


@dataclass(frozen=True, slots=True, kw_only=True)
class InstancePlan(GpuPlan):
    """`in_use`: how many of our instances stay because they hold a vGPU; 0 in a plan that only makes instances.

    `unmet`: why some declared instances are not made. Removing an empty instance needs no confirmation.
    """

    in_use: int = 0
    unmet: errors.NoCapacity | None = None

    @property
    def about(self) -> str:
        return f"GPU instances of {self.gpu.pci}"

    @property
    def takes_away(self) -> tuple[()]:
        return ()

    def rests_on(self, view: HostView) -> tuple[object, ...]:
        return plans.of_host(view)


def plan_layout(view: HostView, gpu_id: str, names: Sequence[str]) -> InstancePlan:
    """Plan the steps that make the instances of these profiles which a GPU lacks.

    Raises UnknownGpu, LedgerBroken, BlockedWrite, Unsure if instances cannot be read, RefusedPlan on a GPU in another
    mode, and ProfileNotHere for a profile that the board does not have.
    """
    detach.guard_ledger(view)
    facts = view.snapshot
    gpu, _ = gpu_choice.find(facts, gpu_id)
    _guard_divided(facts, gpu)
    by_name = {profile.name: profile for profile in gpu.instance_profiles}
    layout = [_find(facts, gpu, by_name, name) for name in names]
    changes, lacking = _steps(facts, gpu, layout)
    blocked_write.guard(facts, changes)
    unmet = _unmet(facts, gpu, layout, lacking) if lacking else None
    return InstancePlan(gpu=gpu, steps=changes, findings=(), unmet=unmet)


def _guard_divided(facts: HostSnapshot, gpu: Gpu) -> None:
    why = instances.why_unread(facts, gpu) or (None if gpu.mode is not None else "its mode is unknown")
    if why is not None:
        raise gpu_plan.unread(facts, gpu, "GPU instances", why)
    if not gpu.rules.mig_backed:
        why = f"is in {gpu.mode} mode, and has no GPU instances"
        raise gpu_plan.refused(facts, gpu, why, "declare mode: mig beside its instances")


def _unmet(
    facts: HostSnapshot, gpu: Gpu, layout: Sequence[InstanceProfile], lacking: Sequence[InstanceProfile]
) -> errors.NoCapacity:
    texts = [
        name if count == 1 else say("{} x {}", count, name)
        for name, count in Counter(one.name for one in lacking).items()
    ]
    what = say("GPU {} of {} has no room for {}", gpu.pci, facts.host, joined(", ", texts))
    if isinstance(mig.arrange(layout), Blocked):
        return errors.NoCapacity(what, hint="even an empty GPU has no room for all that is declared: declare less")
    ways = [
        f"in its way: {mig_fit.where(one.piece)}{'' if one.ours else ', which is not ours'}"
        for one in instances.held(facts, gpu)
        if any(one.piece.overlaps(start, profile.size) for profile in lacking for start in profile.starts)
    ]
    show = Command("vgpumgr", "mig", "show", facts.host)
    hint = say("`{}` shows whose they are: detach vGPUs, or declare less", show)
    return errors.NoCapacity(what, details=ways, hint=hint)


def _find(facts: HostSnapshot, gpu: Gpu, by_name: dict[str, InstanceProfile], name: str) -> InstanceProfile:
    if name not in by_name:
        raise errors.ProfileNotHere(
            say("GPU {} of {} ({}) has no MIG profile {}", gpu.pci, facts.host, gpu.board or gpu.name or "?", name),
            hint=f"it has {', '.join(sorted(by_name))}",
        )
    return by_name[name]


def _steps(
    facts: HostSnapshot, gpu: Gpu, layout: Sequence[InstanceProfile]
) -> tuple[tuple[steps.InstanceStep, ...], tuple[InstanceProfile, ...]]:
    """The steps that make the missing instances, and the profiles that find no room."""
    occupants = instances.held(facts, gpu)
    counts = Counter(profile.name for profile in layout)
    spare: list[Piece] = []
    for one in sorted(occupants, key=lambda one: one.is_idle):
        if one.ours and counts[one.profile.name] > 0:
            counts[one.profile.name] -= 1
        elif one.ours and one.is_idle:
            spare.append(one.piece)
    pieces = [one.piece for one in occupants if one.piece not in spare]
    pieces += instances.reserved(facts, gpu)
    for piece in instances.reserved(facts, gpu):  # comes back with its vGPU
        counts[piece.profile.name] = max(0, counts[piece.profile.name] - 1)
    by_name = {profile.name: profile for profile in layout}
    profiles = sorted(
        (by_name[name] for name, count in counts.items() for _ in range(count)), key=lambda one: one.order, reverse=True
    )
    return _made(facts, gpu, profiles, pieces, spare)


def _made(
    facts: HostSnapshot, gpu: Gpu, profiles: Sequence[InstanceProfile], pieces: list[Piece], spare: list[Piece]
) -> tuple[tuple[steps.InstanceStep, ...], tuple[InstanceProfile, ...]]:
    whole = mig.arrange(profiles, (*pieces, *spare))
    if not isinstance(whole, Blocked):
        return tuple(_in(facts, gpu, piece) for piece in whole), ()
    changes: list[steps.InstanceStep] = []
    lacking: list[InstanceProfile] = []
    for profile in profiles:
        victims = mig.evict(profile, pieces, spare)
        if victims is None:
            lacking.append(profile)
            continue
        changes += [instances.removal(facts, gpu, piece) for piece in victims]
        spare = [piece for piece in spare if piece not in victims]
        start = mig.best_start(gpu.instance_profiles, profile, (*pieces, *spare))
        assert start is not None
        pieces.append(Piece(profile=profile, start=start))
        changes.append(_in(facts, gpu, pieces[-1]))
    return tuple(changes), tuple(lacking)


def _in(facts: HostSnapshot, gpu: Gpu, piece: Piece) -> steps.CreateInstance:
    instance = instances.ours_at(gpu, piece.profile, piece.start)
    return steps.CreateInstance(host=facts.host, instance=instance, expect=steps.EMPTY)


def gpus_of_ours(facts: HostSnapshot) -> tuple[PciAddress, ...]:
    """The GPUs of the host on which the ledger has instances."""
    return tuple(gpu.pci for gpu in facts.gpus if _has_entered(facts, gpu))


def plan_giving_back(view: HostView, gpu_id: str) -> InstancePlan:
    """Plan the removal of a GPU's cached instances, and of the entries of instances that are gone.

    Raises UnknownGpu, LedgerBroken, Unsure, BlockedWrite.
    """
    detach.guard_ledger(view)
    facts = view.snapshot
    for gpu in facts.gpus:
        if gpu_id in {gpu.pci, gpu.uuid}:
            _guard_read(facts, gpu)
    gpu, _ = gpu_choice.find(facts, gpu_id)
    changes = tuple(_of_gpu(facts, gpu))
    blocked_write.guard(facts, changes)
    stay = sum(one.ours and not one.is_idle for one in instances.held(facts, gpu))
    return InstancePlan(gpu=gpu, steps=changes, findings=(), in_use=stay)


def _has_entered(facts: HostSnapshot, gpu: Gpu) -> bool:
    specs = (entry.instance for entry in facts.instances)
    return any(one.gpu_uuid == gpu.uuid or (gpu.uuid is None and one.gpu == gpu.pci) for one in specs)


def _guard_read(facts: HostSnapshot, gpu: Gpu) -> None:
    """Raises Unsure if the instances cannot be read, unless the ledger has none: then none can be cached."""
    why = instances.why_unread(facts, gpu)
    if why is not None and _has_entered(facts, gpu):
        raise gpu_plan.unread(facts, gpu, "GPU instances", why)


def _of_gpu(facts: HostSnapshot, gpu: Gpu) -> Iterator[steps.DestroyInstance]:
    places = {(one.profile.name, one.instance.start) for one in instances.held(facts, gpu) if one.ours}
    for one in instances.cached(facts, gpu):
        ours = instances.ours_at(gpu, one.profile, one.instance.start)
        yield steps.DestroyInstance(host=facts.host, instance=ours, expect=steps.PRESENT)
    reserved_places = instances.wanted_again(facts, gpu)
    for entry in facts.instances:
        ours = entry.instance
        if ours.gpu_uuid == gpu.uuid and (ours.profile, ours.start) not in places | reserved_places:
            yield steps.DestroyInstance(host=facts.host, instance=ours, expect=steps.ABSENT)
