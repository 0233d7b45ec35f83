"""Where no GPU can take a wish: what would have to change on the host, so that one can; asked by whoever shows the refusal.

Each way is tried on what the host would be after its command (core/simulate.py), with the plans of those commands and
their guards. So nothing is offered that would be refused, or that would not help.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Final, TypeAlias

from vgpumgr.core import simulate
from vgpumgr.core import step as steps
from vgpumgr.core.commands import command
from vgpumgr.core.driver import profiles
from vgpumgr.core.driver.scheduler import SchedulerWish
from vgpumgr.core.evidence import sharing
from vgpumgr.core.gpu import mode_plan, modes
from vgpumgr.core.gpu import scheduler as scheduler_plan
from vgpumgr.core.model import claims
from vgpumgr.core.model.claims import INVENTORY
from vgpumgr.core.model.snapshot import EQUAL_SIZE, MIG, MIXED_SIZE
from vgpumgr.core.placing import placement, room
from vgpumgr.core.placing.no_place import Cause
from vgpumgr.core.placing.placement import Placed
from vgpumgr.core.slot import detach
from vgpumgr.core.slot.no_room import Shortage
from vgpumgr.errors import NoCapacity, VgpumgrError
from vgpumgr.names import DEFAULT_SLOT, GpuUuid

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from vgpumgr.core.driver.scheduler import Policy
    from vgpumgr.core.model.snapshot import Gpu, Mode
    from vgpumgr.core.model.vgpu import LedgerEntry
    from vgpumgr.core.model.view import HostView
    from vgpumgr.core.placing.placement import NoPlace
    from vgpumgr.core.slot.request import AttachRequest
    from vgpumgr.names import PciAddress, Slot, VmUuid


@dataclass(frozen=True, slots=True, kw_only=True)
class InTheWay:
    vm: str
    slot: Slot
    type_name: str
    alone: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class AnotherGpu:
    """A GPU that the request leaves out can take it."""

    placed: Placed


@dataclass(frozen=True, slots=True, kw_only=True)
class AnotherMode:
    """A GPU can take it in another mode; `resets`: which it has only after a reset."""

    gpu: PciAddress
    mode: Mode
    placed: Placed
    resets: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class AnotherPolicy:
    """A GPU can take it once its scheduler has the policy that was asked for."""

    gpu: PciAddress
    policy: Policy
    placed: Placed


@dataclass(frozen=True, slots=True, kw_only=True)
class Uncordoned:
    """A GPU can take it once its cordon is lifted; `gpu` None: its host's."""

    gpu: PciAddress | None
    placed: Placed


@dataclass(frozen=True, slots=True, kw_only=True)
class Without:
    """A GPU can take it without these vGPUs: whose they are, and their types. `alone`: the VM has no other slot."""

    vgpus: tuple[InTheWay, ...]
    placed: Placed


Remedy: TypeAlias = AnotherGpu | AnotherMode | AnotherPolicy | Uncordoned | Without

MOST_VGPUS: Final = 4
"""A way that takes more vGPUs away is none."""

_OTHER_SIZES: Final[Mapping[Mode | None, Mode]] = {EQUAL_SIZE: MIXED_SIZE, MIXED_SIZE: EQUAL_SIZE}
_IN_THE_WAY = frozenset({Cause.OTHER_SIZE, Cause.FULL, Cause.ALL_TAKEN, Cause.NOT_OFFERED})


Tried: TypeAlias = "Callable[[HostView, tuple[str, ...] | None], Placed | NoPlace]"
"""The same wish on a host as it would be then, on any GPU or on these."""


def explained(error: VgpumgrError) -> VgpumgrError:
    """The error, whose hint also says what would help where no GPU of a host can take a wish."""
    if not isinstance(error, NoCapacity) or not isinstance(error.shortage, Shortage):
        return error
    full = error.shortage.error("; or ".join(_in_words(error.shortage, remedy) for remedy in find(error.shortage)))
    full.message = error.message  # of several slots it also says how many could get one
    return full


def _in_words(shortage: Shortage, remedy: Remedy) -> str:
    """What would have to change, with the command."""
    pci, exact = remedy.placed.gpu.pci, isinstance(shortage.request.wish, profiles.ByProfile)
    granted = "" if exact else f", as {remedy.placed.type.short}"
    match remedy:
        case AnotherGpu() if shortage.request.origin == INVENTORY:
            return f"on {pci}{granted} (in the inventory, gpu_id: {pci!r})"
        case AnotherGpu():
            options = (*shortage.request.options, "--gpu-id", pci)
            slot = None if shortage.request.slot == DEFAULT_SLOT else shortage.request.slot
            return f"on {pci}{granted}: `{command('attach', shortage.domain.name, slot=slot, options=options)}`"
        case AnotherMode():
            named = "MIG" if remedy.mode == MIG else remedy.mode
            reset = " --allow-reset" if remedy.resets else ""
            return f"on {pci} in {named} mode{granted}: `vgpumgr mode set {remedy.mode} --on {shortage.view.snapshot.host} --gpu-id {pci}{reset}`"
        case AnotherPolicy():
            set_it = f"vgpumgr scheduler set --on {shortage.view.snapshot.host} --gpu-id {pci} --policy {remedy.policy}"
            return f"on {pci} with the scheduler {remedy.policy}{granted}: `{set_it}`"
        case Uncordoned():
            options = () if remedy.gpu is None else ("--gpu-id", remedy.gpu)
            return f"on {pci} without its cordon{granted}: `{command('uncordon', shortage.view.snapshot.host, options=options)}`"
        case Without():
            whose = " and ".join(f"{one.type_name} of {one.vm}" for one in remedy.vgpus)
            commands = " and ".join(
                f"`{command('detach', one.vm, slot=None if one.alone else one.slot)}`" for one in remedy.vgpus
            )
            return f"on {pci} after {commands} (frees {whose}){granted}"


def find(shortage: Shortage) -> tuple[Remedy, ...]:
    """At most one way of each kind: the first GPU, in the order of `verdict`, and of vGPUs as few as possible."""
    view, request, verdict = shortage.view, shortage.request, shortage.verdict
    tried = partial(_tried, shortage)
    found: list[Remedy] = []
    if request.gpus is not None and (placed := _granted(tried, view, None)) is not None:
        found.append(AnotherGpu(placed=placed))
    reasons = {(pci, refusal.cause) for pci, _, refusal in verdict.reasons}
    causes = {pci: refusal.cause for pci, _, refusal in verdict.reasons if refusal.cause in _IN_THE_WAY}
    crowded = [gpu for gpu in view.snapshot.gpus if gpu.pci in causes and gpu.uuid is not None]
    # What fills a GPU in equal-size mode leaves no room in mixed-size mode, which takes no more of any size.
    other = [gpu for gpu in crowded if gpu.mode == MIXED_SIZE or causes[gpu.pci] is not Cause.FULL]
    sizes = (_other_mode(view, gpu, _OTHER_SIZES[gpu.mode], tried) for gpu in other if gpu.mode in _OTHER_SIZES)
    found += [way for way in sizes if way is not None][:1]
    undivided = [gpu for gpu in view.snapshot.gpus if (gpu.pci, Cause.NEEDS_MIG) in reasons and gpu.mig is not None]
    found += [way for gpu in undivided if (way := _other_mode(view, gpu, MIG, tried)) is not None][:1]
    unlike = {pci for pci, _, refusal in verdict.reasons if refusal.cause is Cause.OTHER_POLICY}
    policies = (_other_policy(view, gpu, request, tried) for gpu in view.snapshot.gpus if gpu.pci in unlike)
    found += [way for way in policies if way is not None][:1]
    kept_free = [gpu for gpu in view.snapshot.gpus if (gpu.pci, Cause.CORDONED) in reasons]
    found += [way for way in (_uncordoned(view, gpu, tried) for gpu in kept_free) if way is not None][:1]
    fewer = [_without(view, gpu, _groups(view, gpu, causes[gpu.pci], request), request, tried) for gpu in crowded]
    return (*found, *sorted((way for way in fewer if way is not None), key=lambda way: len(way.vgpus))[:1])


def _tried(shortage: Shortage, there: HostView, gpus: tuple[str, ...] | None) -> Placed | NoPlace:
    among = None if gpus is None else [gpu for gpu in there.snapshot.gpus if gpu.uuid in gpus]
    barred = sharing.barred_functions(there, but=(shortage.domain.uuid, shortage.request.slot))
    return placement.place(there.snapshot, shortage.ask, among=among, barred=barred)


def _granted(tried: Tried, view: HostView, gpus: tuple[str, ...] | None) -> Placed | None:
    verdict = tried(view, gpus)
    return verdict if isinstance(verdict, Placed) else None


def _other_mode(view: HostView, gpu: Gpu, other: Mode, tried: Tried) -> AnotherMode | None:
    try:
        plan = modes.plan_mode(view, mode_plan.ModeRequest(gpu_uuid=GpuUuid(str(gpu.uuid)), mode=other, reset=True))
        placed = _granted(tried, simulate.apply(view, plan.steps), (str(gpu.uuid),))
    except (VgpumgrError, simulate.ImpossibleStepError):
        return None
    if placed is None:
        return None
    resets = any(isinstance(step, steps.ResetGpu) for step in plan.steps)
    return AnotherMode(gpu=gpu.pci, mode=other, placed=placed, resets=resets)


def _other_policy(view: HostView, gpu: Gpu, request: AttachRequest, tried: Tried) -> AnotherPolicy | None:
    policy = request.conditions.compute
    assert policy is not None  # it is what no GPU has
    wanted = scheduler_plan.SchedulerRequest(gpu_uuid=GpuUuid(str(gpu.uuid)), wish=SchedulerWish(policy=policy))
    try:
        plan = scheduler_plan.plan_scheduler(view, wanted)
        placed = _granted(tried, simulate.apply(view, plan.steps), (str(gpu.uuid),))
    except (VgpumgrError, simulate.ImpossibleStepError):
        return None
    return None if placed is None else AnotherPolicy(gpu=gpu.pci, policy=policy, placed=placed)


def _uncordoned(view: HostView, gpu: Gpu, tried: Tried) -> Uncordoned | None:
    cordon = view.snapshot.cordon_on(gpu.uuid)
    others = tuple(one for one in view.snapshot.cordons if one != cordon)
    placed = _granted(tried, replace(view, snapshot=replace(view.snapshot, cordons=others)), (str(gpu.uuid),))
    return None if cordon is None or placed is None else Uncordoned(gpu=cordon.gpu, placed=placed)


def _without(
    view: HostView, gpu: Gpu, groups: Iterable[Sequence[LedgerEntry]], request: AttachRequest, tried: Tried
) -> Without | None:
    """The first of these groups of a GPU's vGPUs without which it can take the wish."""
    for group in groups:
        now = view
        try:
            for entry in group:
                leave = detach.DetachRequest(vm=entry.vgpu.vm, slots=(entry.vgpu.slot,), by=request.by, at=request.at)
                now = simulate.apply(now, detach.plan_detach(now, leave).steps)
            placed = _granted(tried, now, (str(gpu.uuid),))
        except (VgpumgrError, simulate.ImpossibleStepError):
            continue
        if placed is not None:
            return Without(vgpus=tuple(_in_the_way(view, entry) for entry in group), placed=placed)
    return None


def _groups(view: HostView, gpu: Gpu, cause: Cause, request: AttachRequest) -> Iterator[Sequence[LedgerEntry]]:
    """Groups of vGPUs to try without, the smallest first.

    Neighbours where each has its place; else all where another size is in the way, or any one where only room is missing.
    """
    at = {vgpu.device: vgpu.placement_id or 0 for vgpu in gpu.vgpus}
    on_gpu = (entry for entries in view.snapshot.entries.on(gpu.uuid).values() for entry in entries)
    ours = [entry for entry in on_gpu if _may_go(view, entry, request)]
    ours.sort(key=lambda entry: (at.get(entry.vgpu.device, 0), entry.vgpu.vm_name, entry.vgpu.slot))
    if gpu.mode == MIXED_SIZE:
        lengths: Iterable[int] = range(1, min(MOST_VGPUS, len(ours)) + 1)
    elif cause is Cause.OTHER_SIZE:
        whole = len(ours) == room.count_allocated(view.snapshot, gpu) and len(ours) <= MOST_VGPUS
        lengths = (len(ours),) if whole else ()
    else:
        lengths = (1,)
    for length in lengths:
        for first in range(len(ours) - length + 1):
            yield ours[first : first + length]


def _may_go(view: HostView, entry: LedgerEntry, request: AttachRequest) -> bool:
    """Whether a person can be told to detach it: not what is declared, which comes back, nor what is only planned."""
    domain = view.domain(entry.vgpu.vm)
    claim = domain.claim(entry.vgpu.slot) if domain is not None else None
    if claim is None or entry.vgpu.vm == request.vm or (entry.vgpu.vm, entry.vgpu.slot) in view.planned:
        return False
    return claim.origin == claims.ATTACH


def _in_the_way(view: HostView, entry: LedgerEntry) -> InTheWay:
    return InTheWay(
        vm=view.vm_name(entry.vgpu.vm),
        slot=entry.vgpu.slot,
        type_name=entry.vgpu.type_name,
        alone=_slots(view, entry.vgpu.vm) == {entry.vgpu.slot},
    )


def _slots(view: HostView, vm: VmUuid) -> set[Slot]:
    domain = view.domain(vm)
    claimed = domain.claims.claims if domain is not None and domain.claims is not None else ()
    return {claim.slot for claim in claimed} | {entry.vgpu.slot for entry in view.entries(vm)}
