"""The work on a host as tasks: one for each slot to serve or to free, and for each setting of a GPU.

reconcile finds EnsureSlot, PruneSlot, FinishDetach and StartVm. SetGpuScheduler, SetGpuMode and KeepInstances are found
or requested; all other tasks are requested by a user. Undeclared slots are freed first, which makes room. Then come
modes and schedulers: an empty GPU takes one without moving anything. Then come vGPUs, those with a place before new.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, TypeAlias

from vgpumgr import names
from vgpumgr.core.driver import profiles
from vgpumgr.core.driver.scheduler import describe_wish
from vgpumgr.core.evidence import ownership
from vgpumgr.core.gpu import modes
from vgpumgr.core.inventory import settings
from vgpumgr.core.model import claims
from vgpumgr.core.reconcile import drift as drifts
from vgpumgr.core.slot.request import Replace
from vgpumgr.wording import Option, joined, say

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from vgpumgr.core.driver.modes import Mode
    from vgpumgr.core.driver.scheduler import SchedulerWish
    from vgpumgr.core.inventory import HostDeclaration, OfGpus, SlotDeclaration
    from vgpumgr.core.model.claims import Claim, Wait
    from vgpumgr.core.model.domain_xml import Domain
    from vgpumgr.core.model.vgpu import ExactPlace
    from vgpumgr.core.model.view import HostView
    from vgpumgr.core.slot.request import SlotRequest
    from vgpumgr.core.slot.reserving import ReserveRequest
    from vgpumgr.errors import VgpumgrError
    from vgpumgr.names import GpuUuid, MdevUuid, PciAddress, Slot, VmName, VmUuid

RECONCILE = "reconcile"


@dataclass(frozen=True, slots=True, kw_only=True)
class Author:
    """Who works on tasks (`by`: user@controller) and when (`at`: RFC 3339, UTC). The claims written record both."""

    by: str
    at: str


@dataclass(frozen=True, slots=True, kw_only=True)
class OfSlot:
    vm: VmName
    slot: Slot

    @property
    def subject(self) -> str:
        return say("{} {}", self.vm, self.slot)


@dataclass(frozen=True, slots=True, kw_only=True)
class EnsureSlot(OfSlot):
    """Give a slot what was declared for it, what its claim once got, or what waits for room in it since an attach.

    `declared`: None if the inventory does not declare the slot. `wait`: what waits, if anything does.
    """

    declared: SlotDeclaration | None
    wait: Wait | None = None

    verb = RECONCILE

    @property
    def why(self) -> str:
        if self.wait is not None:
            return say("requested {} at {}", self.wait.asked, self.wait.at)
        if self.declared is None:
            return "attached before"
        return say("declared {} ({})", self.declared.asked, self.declared.where)


@dataclass(frozen=True, slots=True, kw_only=True)
class PruneSlot(OfSlot):
    """Free a slot whose declaration is gone. `wait`: it has no claim, its wish only waits for room."""

    uuid: VmUuid
    wait: bool = False

    verb = RECONCILE
    why = drifts.Cause.UNDECLARED.value


@dataclass(frozen=True, slots=True, kw_only=True)
class FinishDetach(OfSlot):
    """Finish a detach that was killed: whoever began it had decided to free the slot."""

    uuid: VmUuid

    verb = RECONCILE
    why = drifts.Cause.HALF_FREED.value


@dataclass(frozen=True, slots=True, kw_only=True)
class StartVm:
    """Start a VM that is to start with the host, and could not."""

    vm: VmName
    uuid: VmUuid

    slot = None
    verb = RECONCILE
    why = "starts with its host, and its last start failed"

    @property
    def subject(self) -> str:
        return self.vm


@dataclass(frozen=True, slots=True, kw_only=True)
class OfGpu:
    """A task about a GPU. `gpu_id`: its PCI address or UUID."""

    gpu_id: str

    vm = slot = None

    @property
    def subject(self) -> str:
        return f"GPU {self.gpu_id}"


@dataclass(frozen=True, slots=True, kw_only=True)
class SetGpuScheduler(OfGpu):
    """Set a GPU's scheduler. `where`: the declaring line of the inventory; None: a user requests it."""

    wish: SchedulerWish
    where: str | None = None

    @property
    def verb(self) -> str:
        return "scheduler" if self.where is None else RECONCILE

    @property
    def why(self) -> str:
        if self.where is None:
            return f"requested {describe_wish(self.wish)}"
        return say("declared {} ({})", self.wish.policy, self.where)


@dataclass(frozen=True, slots=True, kw_only=True)
class SetGpuMode(OfGpu):
    """Set a GPU's mode. `where`: the declaring line of the inventory; None: nothing declares the mode.

    `kept`: nobody requests the mode now, but missing vGPUs were made in it, and the inventory declares no other.
    `reset`: the GPU may be reset if MIG needs that.
    """

    mode: Mode
    where: str | None = None
    kept: bool = False
    reset: bool = False

    @property
    def verb(self) -> str:
        return "mode" if self.where is None and not self.kept else RECONCILE

    @property
    def why(self) -> str:
        if self.kept:
            return f"its vGPUs were made in {self.mode} mode"
        return f"requested {self.mode}" if self.where is None else say("declared {} ({})", self.mode, self.where)


@dataclass(frozen=True, slots=True, kw_only=True)
class ServeSlot:
    """What a user requests of a slot. `vm`, `uuid`: the VM; a detach may be for a VM that only the ledger names."""

    vm: VmName
    uuid: VmUuid
    request: SlotRequest

    @property
    def slot(self) -> Slot | None:
        return self.request.slot

    @property
    def verb(self) -> str:
        return "detach" if self.request.wish is None else "attach"

    @property
    def subject(self) -> str:
        return say("{} {}", self.vm, self.slot) if self.slot else self.vm

    @property
    def why(self) -> str:
        request = self.request
        if request.wish is None:
            flags = {"--all": request.every, "--live": request.live, "--force-live-detach": request.live}
            return joined(" ", ["detach", *(Option(name) for name, is_given in flags.items() if is_given)])
        flags = {"--replace": request.replace is Replace.ALWAYS, "--live": request.live}
        how = (Option(name) for name, is_given in flags.items() if is_given)
        return joined(" ", ["requested", request.asked, *how])

    @property
    def each(self) -> tuple[ServeSlot, ...]:
        """The same request, divided into one for each slot."""
        if self.request.count == 1:
            return (self,)
        slots = (names.parse_slot(f"vgpu{at}") for at in range(self.request.count))
        return tuple(replace(self, request=replace(self.request, slot=slot, count=1)) for slot in slots)


@dataclass(frozen=True, slots=True, kw_only=True)
class Adopt:
    """The user wants existing vGPUs entered into the ledger; if none is named, all whose owner is proved."""

    vgpus: tuple[MdevUuid | PciAddress, ...] = ()

    vm = slot = None
    verb = "adopt"
    subject = "adopt"

    @property
    def why(self) -> str:
        return f"requested adoption of {', '.join(self.vgpus) or 'what is proved'}"


@dataclass(frozen=True, slots=True, kw_only=True)
class SetCordon:
    """The user keeps new vGPUs off a host, or only a GPU or `vf` (a virtual function's address).

    `reason` None: the cordon is lifted. `keep`: an existing cordon stays as it is, even with another reason.
    """

    gpu_id: str | None
    vf: str | None = None
    reason: str | None
    keep: bool = False

    vm = slot = None

    @property
    def verb(self) -> str:
        return "uncordon" if self.reason is None else "cordon"

    @property
    def subject(self) -> str:
        if self.vf is not None:
            return f"virtual function {self.vf}"
        return "host" if self.gpu_id is None else f"GPU {self.gpu_id}"

    @property
    def why(self) -> str:
        return "requested" if self.reason is None else f"requested: {self.reason}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Reserve:
    """The user wants places on the host kept for VMs that are to come."""

    request: ReserveRequest

    vm = slot = None
    verb = "reserve"

    @property
    def subject(self) -> str:
        return f"reservation {self.request.name}"

    @property
    def why(self) -> str:
        return "requested" if self.request.owner is None else f"requested for {self.request.owner}"


@dataclass(frozen=True, slots=True, kw_only=True)
class CancelReservation:
    """The user gives up the host's places of a reservation."""

    name: str

    vm = slot = None
    verb = "reserve cancel"
    why = "requested"

    @property
    def subject(self) -> str:
        return f"reservation {self.name}"


@dataclass(frozen=True, slots=True, kw_only=True)
class MoveSlot(OfSlot):
    """The user empties a GPU, or makes room: the slot gets what its claim says at another place of the host.

    `to`: the exact place. None: any GPU except the emptied one, whose UUID is `away_from`.
    """

    uuid: VmUuid
    away_from: GpuUuid | None = None
    to: ExactPlace | None = None

    @property
    def verb(self) -> str:
        return "drain" if self.to is None else "defrag"

    @property
    def why(self) -> str:
        return "its GPU is drained" if self.to is None else "moves to make room"


@dataclass(frozen=True, slots=True, kw_only=True)
class ConvertSlot(OfSlot):
    """The user wants what a GPU had before its framework was changed: the slot gets the same again on that GPU.

    A slot that no claim wants is freed. `why` says which of the two. `blocked`: the error that refuses the task; None
    if nothing does.
    """

    uuid: VmUuid
    gpu_uuid: GpuUuid
    why: str
    blocked: VgpumgrError | None = field(default=None, compare=False)

    verb = "migrate-framework"


@dataclass(frozen=True, slots=True, kw_only=True)
class FreeInstances(OfGpu):
    """The user wants the cached (idle) GPU instances of ours removed from a GPU."""

    verb = "gc"
    why = "requested"

    @property
    def subject(self) -> str:
        return f"GPU instances of {self.gpu_id}"


@dataclass(frozen=True, slots=True, kw_only=True)
class KeepInstances(OfGpu):
    """Make the GPU instances that are declared for a GPU (`where`: the line) or requested by a user (`where` None)."""

    profiles: tuple[str, ...]
    where: str | None = None

    @property
    def verb(self) -> str:
        return "partition" if self.where is None else RECONCILE

    @property
    def subject(self) -> str:
        return f"GPU instances of {self.gpu_id}"

    @property
    def why(self) -> str:
        names = ", ".join(self.profiles)
        return f"requested {names}" if self.where is None else say("declared {} ({})", names, self.where)


Task: TypeAlias = (
    EnsureSlot
    | PruneSlot
    | FinishDetach
    | StartVm
    | SetGpuScheduler
    | SetGpuMode
    | KeepInstances
    | ServeSlot
    | Adopt
    | SetCordon
    | Reserve
    | CancelReservation
    | FreeInstances
    | MoveSlot
    | ConvertSlot
)


def of_host(view: HostView, declared: HostDeclaration) -> tuple[Task, ...]:
    """All tasks of a host, in order of execution."""
    shares = [
        SetGpuScheduler(gpu_id=gpu_id, wish=entry.scheduler.wish, where=entry.origin)
        for gpu_id, entry in _declared(view, declared, "scheduler")
        if entry.scheduler is not None
    ]
    layouts = [
        KeepInstances(gpu_id=gpu_id, profiles=entry.instances, where=entry.origin)
        for gpu_id, entry in _declared(view, declared, "instances")
        if entry.instances
    ]
    return (
        *_unfinished(view, declared),
        *_prunes(view, declared),
        *of_modes(view, declared),
        *shares,
        *layouts,
        *_ensures(view, declared),
    )


def of_modes(view: HostView, declared: HostDeclaration) -> Iterator[SetGpuMode]:
    """The modes that are declared, and those that GPUs lost although their vGPUs were made in them."""
    for gpu_id, entry in _declared(view, declared, "mode"):
        if entry.mode is not None:
            yield SetGpuMode(gpu_id=gpu_id, mode=entry.mode, where=entry.origin)
    yield from _kept_modes(view, declared)


def _declared(view: HostView, declared: HostDeclaration, setting: settings.Setting) -> Iterator[tuple[str, OfGpus]]:
    """Each GPU that has an entry of its own, even if the GPU is missing; then each whose board declares the setting."""
    yield from ((gpu.gpu_id, gpu) for gpu in declared.gpus)
    for gpu in sorted(view.snapshot.gpus, key=lambda item: item.pci):
        board = settings.of_board(gpu, declared.of_gpus, setting)
        if board is not None:
            yield gpu.pci, board


def _kept_modes(view: HostView, declared: HostDeclaration) -> Iterator[SetGpuMode]:
    """The modes that a reboot ended and that nothing declares: reconcile restores them for the vGPUs made in them."""
    for gpu in sorted(view.snapshot.gpus, key=lambda item: item.pci):
        entry = settings.deciding(gpu, declared.of_gpus, "mode")
        mode = modes.ended(view, gpu) if entry is None else None
        if mode is not None:
            yield SetGpuMode(gpu_id=gpu.pci, mode=mode, kept=True)


def _unfinished(view: HostView, declared: HostDeclaration) -> Iterator[FinishDetach]:
    """The detaches that were begun but not finished.

    An old definition, once restored, may show such a detach although its slot has a later vGPU. Then it counts only if
    the slot is declared.
    """
    for domain in sorted(view.domains, key=lambda item: item.name):
        for claim in own_claims(view, domain):
            if claim.state != claims.LEAVING or is_of_other_site(declared, claim):
                continue
            if declaration(declared, domain.name, claim.slot) or not ownership.is_behind(view, domain, claim):
                yield FinishDetach(vm=domain.name, uuid=domain.uuid, slot=claim.slot)


def _prunes(view: HostView, declared: HostDeclaration) -> Iterator[PruneSlot]:
    """The slots that are no longer declared.

    A claim in a restored old definition does not count: nobody knows who asked for the later vGPU of its slot.
    """
    for domain in sorted(view.domains, key=lambda item: item.name):
        for claim in own_claims(view, domain):
            if claim.state == claims.LEAVING or not may_prune(declared, claim):
                continue
            if not declaration(declared, domain.name, claim.slot) and not ownership.is_behind(view, domain, claim):
                yield PruneSlot(vm=domain.name, uuid=domain.uuid, slot=claim.slot)
        for wait in domain.waits:
            if (
                domain.claim(wait.slot) is None
                and may_prune(declared, wait)
                and not declaration(declared, domain.name, wait.slot)
            ):
                yield PruneSlot(vm=domain.name, uuid=domain.uuid, slot=wait.slot, wait=True)


def _ensures(view: HostView, declared: HostDeclaration) -> tuple[EnsureSlot, ...]:
    ensures = [
        EnsureSlot(vm=vm.name, slot=slot.slot, declared=slot)
        for vm in declared.vms.values()
        for slot in vm.slots.values()
    ]
    for domain in view.domains:
        for claim in own_claims(view, domain):
            # Leave a claim with another way to ask, from a later version, as it is: findings.of_host reports it.
            once_bound = (
                claim.state == claims.BOUND
                and claim.origin == claims.ATTACH
                and profiles.is_served(claim.wish)
                and not ownership.is_reverted(view, domain, claim)
                and not ownership.lacks_entry(view, domain, claim)
            )
            if once_bound and declaration(declared, domain.name, claim.slot) is None:
                wait = domain.wait(claim.slot)
                ensures.append(EnsureSlot(vm=domain.name, slot=claim.slot, declared=None, wait=wait))
    ensures += [
        EnsureSlot(vm=domain.name, slot=wait.slot, declared=None, wait=wait)
        for domain, wait in waiting_attaches(view, declared)
    ]
    return _in_order(view, ensures)


def waiting_attaches(view: HostView, declared: HostDeclaration) -> tuple[tuple[Domain, Wait], ...]:
    """The waits that an attach noted, in slots without claim or declaration. Wishes of a later version are left out."""
    return tuple(
        (domain, wait)
        for domain in sorted(view.domains, key=lambda item: item.name)
        for wait in domain.waits
        if wait.origin == claims.ATTACH
        and profiles.is_served(wait.wish)
        and declaration(declared, domain.name, wait.slot) is None
        and domain.claim(wait.slot) is None
    )


def _in_order(view: HostView, ensures: Iterable[EnsureSlot]) -> tuple[EnsureSlot, ...]:
    """The slots that have a place first; then by priority, the highest first; then those that have waited longest."""
    places, since = placed(view), {(vm.name, wait.slot): wait.at for vm in view.domains for wait in vm.waits}

    def rank(task: EnsureSlot) -> tuple[object, ...]:
        slot, priority = (task.vm, task.slot), 0 if task.declared is None else task.declared.priority
        waits = (slot not in since, since.get(slot, ""))
        return (slot not in places, -priority, *waits, task.vm, names.slot_order(task.slot))

    return tuple(sorted(ensures, key=rank))


def own_claims(view: HostView, domain: Domain) -> tuple[Claim, ...]:
    """The claims that belong to this VM and this host: no copies, none of a VM that moved, none that are unreadable."""
    if domain.problem or domain.claim_problem or domain.copied or domain.claims is None:
        return ()
    return tuple(claim for claim in domain.claims.claims if claim.binding.host == view.snapshot.machine)


def is_of_other_site(declared: HostDeclaration, claim: Claim | Wait) -> bool:
    """Whether another site's inventory declared the claim, and decides about it. False for a claim without a site."""
    return claim.origin == claims.INVENTORY and claim.site is not None and claim.site != declared.site


def site_text(declared: HostDeclaration) -> str:
    """How a message calls the present inventory where it names another site's, too."""
    return "this one, which names no site" if declared.site is None else f"this one, of site {declared.site}"


def may_prune(declared: HostDeclaration, claim: Claim | Wait) -> bool:
    """Whether this inventory removes the claim or wait once it no longer declares the slot."""
    return claim.origin == claims.INVENTORY and not is_of_other_site(declared, claim)


def declaration(declared: HostDeclaration, vm: VmName, slot: Slot) -> SlotDeclaration | None:
    """The inventory's declaration of a slot of a host's VM; None if it has none."""
    entry = declared.vms.get(vm)
    return entry.slots.get(slot) if entry else None


def placed(view: HostView) -> frozenset[tuple[VmName, Slot]]:
    """The defined VMs' slots that have a place: in the ledger, by the VM's UUID, or proved by existing hardware."""
    vgpus = (*(entry.vgpu for entry in view.snapshot.ledger or ()), *ownership.proved(view))
    return frozenset((vm.name, vgpu.slot) for vgpu in vgpus if (vm := view.domain(vgpu.vm)) is not None)


def needs_saved(task: Task) -> bool:
    """Whether a task's plan may need the managed-save images and snapshots, which could bring a device back."""
    return not isinstance(task, SetGpuScheduler) or task.verb == RECONCILE
