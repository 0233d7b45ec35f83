"""If no GPU can take a wish: what could be changed on the host so that one can.

Each remedy is planned as its command would be, with the same guards, and tried on the simulated result
(core/simulate.py). So nothing is offered that would be refused or would not help.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, Protocol

from vgpumgr.core import simulate
from vgpumgr.core import step as steps
from vgpumgr.core.commands import command
from vgpumgr.core.driver import modes as driver_modes
from vgpumgr.core.driver import profiles
from vgpumgr.core.driver.modes import MIG
from vgpumgr.core.driver.scheduler import SchedulerWish
from vgpumgr.core.evidence import sharing
from vgpumgr.core.gpu import mode_plan, modes
from vgpumgr.core.gpu import scheduler as scheduler_plan
from vgpumgr.core.model.claims import ATTACH, INVENTORY
from vgpumgr.core.model.view import GoneVm
from vgpumgr.core.placing import placement, resolve, room
from vgpumgr.core.placing.no_place import Cause
from vgpumgr.core.placing.placement import Placed
from vgpumgr.core.slot import detach, how_many
from vgpumgr.core.slot.no_room import Shortage
from vgpumgr.core.slot.request import AttachRequest
from vgpumgr.errors import NoCapacity, VgpumgrError
from vgpumgr.names import DEFAULT_SLOT, GpuUuid, VmName, VmUuid
from vgpumgr.wording import Command, joined, say

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from typing import Self

    from vgpumgr.core.driver.asking import Conditions
    from vgpumgr.core.driver.modes import Mode
    from vgpumgr.core.driver.profiles import Wish
    from vgpumgr.core.driver.scheduler import Policy
    from vgpumgr.core.model.snapshot import Gpu
    from vgpumgr.core.model.vgpu import LedgerEntry
    from vgpumgr.core.model.view import HostView

MOST_VGPUS: Final = 4
"""The most vGPUs that a remedy removes."""

_TO_COME: Final = GoneVm(name=VmName("a VM to come"), uuid=VmUuid("00000000-0000-0000-0000-000000000000"))
_CROWDED = frozenset({Cause.OTHER_SIZE, Cause.FULL, Cause.ALL_TAKEN, Cause.NOT_OFFERED})


class Remedy(Protocol):
    """One kind of change after which a GPU can take the wish."""

    @classmethod
    def find(cls, shortage: Shortage) -> Self | None:
        """The change for the first GPU that can then take the wish, or the one that needs least; None if none can."""

    def in_words(self, shortage: Shortage) -> str:
        """The GPU and the command that makes the change, in words."""


def explained(error: VgpumgrError) -> VgpumgrError:
    """The error; if no GPU of a host can take a wish, its hint also says what would help."""
    if not isinstance(error, NoCapacity) or not isinstance(error.shortage, Shortage):
        return error
    try:
        remedies = joined("; or ", (remedy.in_words(error.shortage) for remedy in find(error.shortage)))
    except Exception:  # noqa: BLE001 -- the refusal itself is right, whatever an odd host makes of the search for a remedy
        return error
    full = error.shortage.error(remedies)
    full.message = error.message  # for several slots it also says how many could get one
    return full


def of_one_more(view: HostView, wish: Wish, conditions: Conditions, *, by: str, at: str) -> str:
    """Which changes of the host would make room for one more vGPU of a wish than fits now, in words.

    Empty if nothing is known that would help. `by` and `at`: who asks and when, for the changes that are tried.
    """
    ask = resolve.Ask.at_host(view, wish, conditions)
    request = AttachRequest(
        vm=_TO_COME.uuid,
        slot=DEFAULT_SLOT,
        wish=wish,
        conditions=conditions,
        origin=ATTACH,
        by=by,
        at=at,
        policy=view.policy,
    )
    try:
        full = _filled(view, ask)
        verdict = placement.place(full.snapshot, ask, barred=sharing.barred_functions(full))
        if not isinstance(verdict, placement.NoPlace):  # a place that attach would refuse every VM
            return ""
        shortage = Shortage(view=full, domain=_TO_COME, request=request, ask=ask, verdict=verdict)
        return joined("; or ", (remedy.in_words(shortage) for remedy in find(shortage)))
    except Exception:  # noqa: BLE001 -- as above
        return ""


def _filled(view: HostView, ask: resolve.Ask) -> HostView:
    """The host as it would be after attaches of this ask, until one is refused."""
    for number in itertools.count(1):
        barred = sharing.barred_functions(view)
        spot = next(iter(placement.consider(view.snapshot, ask, barred=barred).candidates), None)
        if spot is None or how_many.shut_to_every_vm(view, spot.gpu, spot.parent) is not None:
            break
        view = simulate.apply(view, how_many.steps_of(view, spot, number))
    return view


def find(shortage: Shortage) -> tuple[Remedy, ...]:
    """At most one remedy of each kind."""
    return tuple(remedy for kind in KINDS if (remedy := kind.find(shortage)) is not None)


@dataclass(frozen=True, slots=True, kw_only=True)
class AnotherGpu:
    """A GPU that the request or the policy leaves out can take the wish: where one is named, no policy is asked."""

    placed: Placed

    @classmethod
    def find(cls, shortage: Shortage) -> Self | None:
        left_out = [gpu for gpu, _ in _refused(shortage, {Cause.LEFT_OUT})]
        if shortage.domain is _TO_COME or (shortage.request.gpus is None and not left_out):
            return None
        placed = _granted(shortage, shortage.view, left_out[0] if left_out else None)
        return None if placed is None else cls(placed=placed)

    def in_words(self, shortage: Shortage) -> str:
        request, pci = shortage.request, self.placed.gpu.pci
        if request.origin == INVENTORY:
            return f"on {pci}{_granted_as(shortage, self.placed)} (in the inventory, gpu_id: {pci!r})"
        options = (*request.options, "--gpu-id", pci)
        slot = None if request.slot == DEFAULT_SLOT else request.slot
        attach = command("attach", shortage.domain.name, slot=slot, options=options)
        return say("on {}{}: `{}`", pci, _granted_as(shortage, self.placed), attach)


@dataclass(frozen=True, slots=True, kw_only=True)
class _AnotherMode:
    """A GPU can take the wish in another mode. `resets`: the change of the mode needs a reset."""

    mode: Mode
    placed: Placed
    resets: bool

    @classmethod
    def _on(cls, shortage: Shortage, gpu: Gpu, mode: Mode) -> Self | None:
        request = mode_plan.ModeRequest(gpu_uuid=GpuUuid(str(gpu.uuid)), mode=mode, reset=True)
        try:
            plan = modes.plan_mode(shortage.view, request)
            placed = _granted(shortage, simulate.apply(shortage.view, plan.steps), gpu)
        except (VgpumgrError, simulate.ImpossibleStepError):
            return None
        if placed is None:
            return None
        return cls(mode=mode, placed=placed, resets=any(isinstance(step, steps.ResetGpu) for step in plan.steps))

    def in_words(self, shortage: Shortage) -> str:
        pci, name = self.placed.gpu.pci, driver_modes.of(self.mode).words
        options = ("--on", shortage.view.snapshot.host, "--gpu-id", pci, *(["--allow-reset"] if self.resets else []))
        set_it = Command("vgpumgr", "mode", "set", self.mode, *options)
        return say("on {} in {} mode{}: `{}`", pci, name, _granted_as(shortage, self.placed), set_it)


class AnotherSizeMode(_AnotherMode):
    """Mixed-size mode in place of equal-size mode, or the reverse."""

    @classmethod
    def find(cls, shortage: Shortage) -> Self | None:
        # What fills a GPU in equal-size mode leaves no room in mixed-size mode, which takes no more of any size.
        gpus = [gpu for gpu, cause in _refused(shortage, _CROWDED) if gpu.rules.has_places or cause is not Cause.FULL]
        remedies = (cls._on(shortage, gpu, mode) for gpu in gpus if (mode := gpu.rules.other_sizes))
        return next((remedy for remedy in remedies if remedy is not None), None)


class MigMode(_AnotherMode):
    """MIG mode, which the wish needs."""

    @classmethod
    def find(cls, shortage: Shortage) -> Self | None:
        gpus = [gpu for gpu, _ in _refused(shortage, {Cause.NEEDS_MIG}) if gpu.mig]
        remedies = (cls._on(shortage, gpu, MIG) for gpu in gpus)
        return next((remedy for remedy in remedies if remedy is not None), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class AnotherPolicy:
    """A GPU can take the wish once its scheduler has the policy that was asked for.

    `vms`: those with a vGPU on it, whose share of time the policy changes, too. `running`: those that have to be shut
    off before the driver takes the policy.
    """

    policy: Policy
    placed: Placed
    vms: tuple[VmName, ...]
    running: tuple[VmName, ...]

    @classmethod
    def find(cls, shortage: Shortage) -> Self | None:
        policy = shortage.request.conditions.compute
        if policy is None:
            return None
        ways = (cls._on(shortage, gpu, policy) for gpu, _ in _refused(shortage, {Cause.OTHER_POLICY}))
        return min((way for way in ways if way is not None), key=lambda way: (way.running, way.vms), default=None)

    @classmethod
    def _on(cls, shortage: Shortage, gpu: Gpu, policy: Policy) -> Self | None:
        view, uuid = shortage.view, GpuUuid(str(gpu.uuid))
        entries = [entry.vgpu for entry in view.snapshot.ledger or () if entry.vgpu.gpu_uuid == uuid]
        vms = tuple(dict.fromkeys(vgpu.vm_name for vgpu in entries))
        domains = [domain for domain in map(view.domain, {vgpu.vm for vgpu in entries}) if domain is not None]
        running = {domain.uuid: domain.name for domain in domains if domain.active}
        if any(view.snapshot.entry_of(gpu, vgpu) is None for vgpu in gpu.vgpus):
            return None  # whose it is, and what was promised to them, is not known
        request = scheduler_plan.SchedulerRequest(gpu_uuid=uuid, wish=SchedulerWish(policy=policy))
        try:
            after = simulate.shut_down(view, running)
            after = simulate.apply(after, scheduler_plan.plan_scheduler(after, request).steps)
            placed = _granted(shortage, after, gpu)
        except (VgpumgrError, simulate.ImpossibleStepError):
            return None
        return (
            None
            if placed is None
            else cls(policy=policy, placed=placed, vms=vms, running=tuple(sorted(running.values())))
        )

    def in_words(self, shortage: Shortage) -> str:
        pci, off = self.placed.gpu.pci, joined(" and ", self.running)
        options = ("--on", shortage.view.snapshot.host, "--gpu-id", pci, "--policy", self.policy)
        set_it = Command("vgpumgr", "scheduler", "set", *options)
        once = say(", once {} {} shut off", off, "is" if len(self.running) == 1 else "are") if self.running else ""
        too = say(", which is then the scheduler of {}, too", joined(" and ", self.vms)) if self.vms else ""
        granted = _granted_as(shortage, self.placed)
        return say("on {} with the scheduler {}{}{}: `{}`{}", pci, self.policy, granted, once, set_it, too)


@dataclass(frozen=True, slots=True, kw_only=True)
class Uncordoned:
    """A GPU can take the wish once a cordon is lifted: that of `gpu`, or (None) of the host."""

    gpu: str | None
    placed: Placed

    @classmethod
    def find(cls, shortage: Shortage) -> Self | None:
        facts = shortage.view.snapshot
        for gpu, _ in _refused(shortage, {Cause.CORDONED}):
            cordon = facts.cordon_on(gpu.uuid)
            others = tuple(other for other in facts.cordons if other != cordon)
            view = replace(shortage.view, snapshot=replace(facts, cordons=others))
            placed = _granted(shortage, view, gpu)
            if cordon is not None and placed is not None:
                return cls(gpu=cordon.gpu, placed=placed)
        return None

    def in_words(self, shortage: Shortage) -> str:
        options = () if self.gpu is None else ("--gpu-id", self.gpu)
        lift = command("uncordon", shortage.view.snapshot.host, options=options)
        return say("on {} without its cordon{}: `{}`", self.placed.gpu.pci, _granted_as(shortage, self.placed), lift)


@dataclass(frozen=True, slots=True, kw_only=True)
class Without:
    """A GPU can take the wish once these vGPUs of ours, as few as possible, are freed."""

    entries: tuple[LedgerEntry, ...]
    placed: Placed

    @classmethod
    def find(cls, shortage: Shortage) -> Self | None:
        ways = (cls._on(shortage, gpu, cause) for gpu, cause in _refused(shortage, _CROWDED))
        return min((way for way in ways if way is not None), key=lambda way: len(way.entries), default=None)

    @classmethod
    def _on(cls, shortage: Shortage, gpu: Gpu, cause: Cause) -> Self | None:
        for group in _groups(shortage, gpu, cause):
            try:
                placed = _granted(shortage, _freed(shortage, group), gpu)
            except (VgpumgrError, simulate.ImpossibleStepError):
                continue
            if placed is not None:
                return cls(entries=tuple(group), placed=placed)
        return None

    def in_words(self, shortage: Shortage) -> str:
        view, commands, vgpus = shortage.view, list[str](), list[str]()
        for entry in self.entries:
            vm, slot = view.vm_name(entry.vgpu.vm), entry.vgpu.slot
            alone = _slots(view, entry) == {slot}
            commands.append(say("`{}`", command("detach", vm, slot=None if alone else slot)))
            vgpus.append(say("{} of {}", entry.vgpu.type_name, vm))
        return say(
            "on {} after {} (frees {}){}",
            self.placed.gpu.pci,
            joined(" and ", commands),
            joined(" and ", vgpus),
            _granted_as(shortage, self.placed),
        )


KINDS: Final[tuple[type[Remedy], ...]] = (AnotherGpu, AnotherSizeMode, MigMode, AnotherPolicy, Uncordoned, Without)


def _granted_as(shortage: Shortage, placed: Placed) -> str:
    """The type in words, if the wish does not name one."""
    return "" if isinstance(shortage.request.wish, profiles.ByProfile) else f", as {placed.type.short}"


def _refused(shortage: Shortage, causes: Iterable[Cause]) -> list[tuple[Gpu, Cause]]:
    """The GPUs that were refused for one of these causes, each with its cause."""
    why = {pci: refusal.cause for pci, _, refusal in shortage.verdict.reasons if refusal.cause in causes}
    return [(gpu, why[gpu.pci]) for gpu in shortage.view.snapshot.gpus if gpu.pci in why and gpu.uuid is not None]


def _granted(shortage: Shortage, view: HostView, gpu: Gpu | None) -> Placed | None:
    """The place for the wish on the changed host, on that GPU or (None) on any; None if there is none."""
    among = None if gpu is None else [other for other in view.snapshot.gpus if other.uuid == gpu.uuid]
    barred = sharing.barred_functions(view, but=(shortage.domain.uuid, shortage.request.slot))
    verdict = placement.place(view.snapshot, shortage.ask, among=among, barred=barred)
    return verdict if isinstance(verdict, Placed) else None


def _freed(shortage: Shortage, entries: Iterable[LedgerEntry]) -> HostView:
    """The host without these vGPUs. Raises what their detach would raise."""
    view, request = shortage.view, shortage.request
    for entry in entries:
        leave = detach.DetachRequest(vm=entry.vgpu.vm, slots=(entry.vgpu.slot,), by=request.by, at=request.at)
        view = simulate.apply(view, detach.plan_detach(view, leave).steps)
    return view


def _groups(shortage: Shortage, gpu: Gpu, cause: Cause) -> Iterator[Sequence[LedgerEntry]]:
    """Groups of vGPUs whose removal is tried, the smallest first.

    On a GPU with placement ids, neighbours are a group. On another GPU, all vGPUs are one group if another size blocks
    the wish; else each is a group of its own.
    """
    facts = shortage.view.snapshot
    at = {vgpu.device: vgpu.placement_id or 0 for vgpu in gpu.vgpus}
    on_gpu = (entry for entries in facts.entries.on(gpu.uuid).values() for entry in entries)
    ours = [entry for entry in on_gpu if _may_go(shortage, entry)]
    ours.sort(key=lambda entry: (at.get(entry.vgpu.device, 0), entry.vgpu.vm_name, entry.vgpu.slot))
    if gpu.rules.has_places:
        lengths: Iterable[int] = range(1, min(MOST_VGPUS, len(ours)) + 1)
    elif cause is Cause.OTHER_SIZE:
        whole = len(ours) == room.count_allocated(facts, gpu) and len(ours) <= MOST_VGPUS
        lengths = (len(ours),) if whole else ()
    else:
        lengths = (1,)
    for length in lengths:
        for first in range(len(ours) - length + 1):
            yield ours[first : first + length]


def _may_go(shortage: Shortage, entry: LedgerEntry) -> bool:
    """Whether a user may be advised to detach an entry's vGPU, which must be another VM's.

    A declared vGPU would come back, and a planned one does not exist yet.
    """
    view = shortage.view
    domain = view.domain(entry.vgpu.vm)
    claim = domain.claim(entry.vgpu.slot) if domain is not None else None
    if claim is None or entry.vgpu.vm == shortage.request.vm or (entry.vgpu.vm, entry.vgpu.slot) in view.planned:
        return False
    return claim.origin == ATTACH


def _slots(view: HostView, entry: LedgerEntry) -> set[str]:
    """The slots of an entry's VM."""
    domain = view.domain(entry.vgpu.vm)
    claims = domain.claims.claims if domain is not None and domain.claims is not None else ()
    return {claim.slot for claim in claims} | {other.vgpu.slot for other in view.entries(entry.vgpu.vm)}
