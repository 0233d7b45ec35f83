"""(declared layout, observed) → the GPU instances that a GPU in MIG mode lacks of it.

What is there stays: vGPUs of other profiles, and their instances, are nobody's to move for a layout. Cached instances of ours that
are not declared make room; what finds none all the same is `unmet`, beside the plan for the rest.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from vgpumgr import errors
from vgpumgr.core import step as steps
from vgpumgr.core.driver import mig, mig_fit
from vgpumgr.core.driver.mig import Blocked, Piece
from vgpumgr.core.evidence import blocked_write
from vgpumgr.core.gpu import gpu_choice
from vgpumgr.core.gpu.instance_plan import InstancePlan
from vgpumgr.core.model.snapshot import MIG
from vgpumgr.core.placing import instances
from vgpumgr.core.slot import detach

if TYPE_CHECKING:
    from collections.abc import Sequence

    from vgpumgr.core.driver.mig import InstanceProfile
    from vgpumgr.core.model.snapshot import Gpu, HostSnapshot
    from vgpumgr.core.model.view import HostView


def plan_layout(view: HostView, gpu_id: str, names: Sequence[str]) -> InstancePlan:
    """Plan what makes the missing ones. Raises UnknownGpu, LedgerBroken, BlockedWrite, Unsure if the instances cannot be read, RefusedPlan on
    a GPU in another mode, and ProfileNotHere for a profile that the board does not have.
    """
    detach.guard_ledger(view)
    facts = view.snapshot
    gpu, _ = gpu_choice.find(facts, gpu_id)
    _guard(facts, gpu)
    assert gpu.mig is not None
    known = {profile.name: profile for profile in gpu.mig.profiles}
    wanted = [_find(facts, gpu, known, name) for name in names]
    found, lacking = _steps(facts, gpu, wanted)
    blocked_write.guard(facts, found)
    unmet = _unmet(facts, gpu, wanted, lacking) if lacking else None
    return InstancePlan(gpu=gpu, steps=found, findings=(), unmet=unmet)


def _guard(facts: HostSnapshot, gpu: Gpu) -> None:
    why = instances.why_unread(facts, gpu) or (None if gpu.mode is not None else "its mode is unknown")
    if why is not None:
        raise errors.Unsure(
            f"the GPU instances of GPU {gpu.pci} of {facts.host} cannot be read: {why}",
            hint=f"vgpumgr discover {facts.host} shows what else is unknown there",
        )
    if gpu.mode != MIG:
        raise errors.RefusedPlan(
            f"GPU {gpu.pci} of {facts.host} is in {gpu.mode} mode, and has no GPU instances",
            hint="declare mode: mig beside its instances",
        )


def _unmet(
    facts: HostSnapshot, gpu: Gpu, wanted: Sequence[InstanceProfile], lacking: Sequence[InstanceProfile]
) -> errors.NoCapacity:
    named = [
        name if count == 1 else f"{count} x {name}" for name, count in Counter(one.name for one in lacking).items()
    ]
    what = f"GPU {gpu.pci} of {facts.host} has no room for {', '.join(named)}"
    if isinstance(mig.arrange(wanted), Blocked):
        return errors.NoCapacity(what, hint="even an empty GPU has no room for all that is declared: declare less")
    ways = [
        f"in its way: {mig_fit.where(one.piece)}{'' if one.ours else ', which is not ours'}"
        for one in instances.held(facts, gpu)
        if any(one.piece.overlaps(start, profile.size) for profile in lacking for start in profile.starts)
    ]
    hint = f"`vgpumgr mig show {facts.host}` shows whose they are: detach vGPUs, or declare less"
    return errors.NoCapacity(what, details=ways, hint=hint)


def _find(facts: HostSnapshot, gpu: Gpu, known: dict[str, InstanceProfile], name: str) -> InstanceProfile:
    if name not in known:
        raise errors.ProfileNotHere(
            f"GPU {gpu.pci} of {facts.host} ({gpu.board or gpu.name or '?'}) has no MIG profile {name}",
            hint=f"it has {', '.join(sorted(known))}",
        )
    return known[name]


def _steps(
    facts: HostSnapshot, gpu: Gpu, wanted: Sequence[InstanceProfile]
) -> tuple[tuple[steps.InstanceStep, ...], tuple[InstanceProfile, ...]]:
    """What makes those that are missing, and those that find no place."""
    there = instances.held(facts, gpu)
    left = Counter(profile.name for profile in wanted)
    spare: list[Piece] = []
    for one in sorted(there, key=lambda one: one.is_idle):
        if one.ours and left[one.profile.name] > 0:
            left[one.profile.name] -= 1
        elif one.ours and one.is_idle:
            spare.append(one.piece)
    kept = [one.piece for one in there if one.piece not in spare]
    kept += instances.reserved(facts, gpu)
    for piece in instances.reserved(facts, gpu):  # comes back with its vGPU
        left[piece.profile.name] = max(0, left[piece.profile.name] - 1)
    named = {profile.name: profile for profile in wanted}
    missing = sorted(
        (named[name] for name, count in left.items() for _ in range(count)), key=lambda one: one.order, reverse=True
    )
    return _made(facts, gpu, missing, kept, spare)


def _made(
    facts: HostSnapshot, gpu: Gpu, missing: Sequence[InstanceProfile], kept: list[Piece], spare: list[Piece]
) -> tuple[tuple[steps.InstanceStep, ...], tuple[InstanceProfile, ...]]:
    whole = mig.arrange(missing, (*kept, *spare))
    if not isinstance(whole, Blocked):
        return tuple(_in(facts, gpu, piece) for piece in whole), ()
    found: list[steps.InstanceStep] = []
    lacking: list[InstanceProfile] = []
    for profile in missing:
        going = mig.evict(profile, kept, spare)
        if going is None:
            lacking.append(profile)
            continue
        found += [instances.removal(facts, gpu, piece) for piece in going]
        spare = [piece for piece in spare if piece not in going]
        assert gpu.mig is not None
        start = mig.best_start(gpu.mig.profiles, profile, (*kept, *spare))
        assert start is not None
        kept.append(Piece(profile=profile, start=start))
        found.append(_in(facts, gpu, kept[-1]))
    return tuple(found), tuple(lacking)


def _in(facts: HostSnapshot, gpu: Gpu, piece: Piece) -> steps.CreateInstance:
    made = instances.ours_at(gpu, piece.profile, piece.start)
    return steps.CreateInstance(host=facts.host, instance=made, expect=steps.EMPTY)
