"""(declared, observed) → what one host needs so that every VM has what was declared or once bound to it.

Each task is planned on the state that the tasks before it will leave, by the same functions that attach and detach use.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

from vgpumgr import errors, names
from vgpumgr.core.commands import command
from vgpumgr.core.driver import profiles
from vgpumgr.core.inventory import settings
from vgpumgr.core.model import claims
from vgpumgr.core.model.view import Finding
from vgpumgr.core.plan import (
    attach,
    cached,
    cordons,
    detach,
    gpu_choice,
    layout,
    mode_plan,
    modes,
    ownership,
    simulate,
    targets,
)
from vgpumgr.core.plan import plan as plans
from vgpumgr.core.plan import scheduler as scheduler_plan
from vgpumgr.core.plan import step as plan_steps
from vgpumgr.core.plan.instance_plan import InstancePlan
from vgpumgr.core.plan.mode_plan import ModePlan
from vgpumgr.core.plan.scheduler import GpuPlan
from vgpumgr.core.reconcile import adopt, requests, tasks, waiting
from vgpumgr.core.reconcile import drift as drifts
from vgpumgr.core.reconcile.queue import Queue
from vgpumgr.core.reconcile.tasks import (
    RECONCILE,
    Adopt,
    AttachSlot,
    DetachSlot,
    EnsureSlot,
    FreeInstances,
    KeepInstances,
    MoveSlot,
    OfGpu,
    PruneSlot,
    SetCordon,
    SetGpuMode,
    SetGpuScheduler,
)
from vgpumgr.core.report import findings

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from vgpumgr.core.inventory import HostDeclaration
    from vgpumgr.core.model.claims import Claim
    from vgpumgr.core.model.domain_xml import Domain
    from vgpumgr.core.model.snapshot import Gpu
    from vgpumgr.core.model.view import HostView
    from vgpumgr.core.plan.cordons import CordonPlan
    from vgpumgr.core.plan.plan import Plan
    from vgpumgr.core.reconcile.adopt import AdoptPlan
    from vgpumgr.core.reconcile.drift import Drift
    from vgpumgr.core.reconcile.tasks import Task
    from vgpumgr.names import HostName

# A task refused with one of these may succeed after another task: one that frees the room, or the device's other definition.
_MAY_PASS = (errors.NoCapacity, errors.ConflictingClaim, errors.RefusedPlan)


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedTask:
    """One task: its plan, or why it was refused. `drift` says why there are steps.

    Both are set if a declaration is refused but what the slot had before is kept intact.
    """

    task: Task
    plan: Plan | GpuPlan | ModePlan | AdoptPlan | CordonPlan | InstancePlan | None = None
    refused: errors.VgpumgrError | None = None
    drift: tuple[Drift, ...] = ()

    @property
    def steps(self) -> tuple[plan_steps.Step, ...]:
        return self.plan.steps if self.plan else ()

    @property
    def gpu(self) -> str | None:
        """The PCI address of the GPU it is about; None for a task about a VM, or if no GPU with the given UUID was found."""
        if isinstance(self.plan, GpuPlan | ModePlan | InstancePlan):
            return self.plan.gpu.pci
        if isinstance(self.task, OfGpu | FreeInstances) and not self.task.gpu_id.startswith("GPU-"):
            return self.task.gpu_id
        return None

    @property
    def waits(self) -> str | None:
        """What it waits for, as in "waits until …", if only something in use keeps it from being done; else None."""
        if self.task.verb != RECONCILE or not isinstance(self.refused, errors.InUse):
            return None
        return self.refused.until

    @property
    def may_pass(self) -> bool:
        """Whether it was refused for a reason that another task may still remove."""
        return isinstance(self.refused, _MAY_PASS)


@dataclass(frozen=True, slots=True, kw_only=True)
class HostPlan:
    """All tasks of one host, in order. `ours`: the number of vGPUs in its ledger now, for the guards.

    `given`: the number of slots that this inventory has served here; `vanished`: the parts of it that declared a slot which
    is to be freed, but that no longer decide about this host's VMs. `nvml_silent`: NVML does not say what runs on some GPU.
    """

    host: HostName
    tasks: tuple[PlannedTask, ...]
    findings: tuple[Finding, ...]
    fingerprint: str
    ours: int
    allocated: int = 0
    vanished: tuple[str, ...] = ()
    nvml_silent: bool = False

    @property
    def prunes(self) -> tuple[PlannedTask, ...]:
        """The slots that are no longer declared, including refused ones; empty if no vGPU is destroyed for them."""
        found = tuple(planned for planned in self.tasks if isinstance(planned.task, PruneSlot))
        return found if any(plan_steps.destroys(step) for planned in found for step in planned.steps) else ()

    @property
    def steps(self) -> tuple[plan_steps.Step, ...]:
        return tuple(step for planned in self.tasks for step in planned.steps)

    @property
    def changed(self) -> bool:
        return bool(self.steps)

    @property
    def takes_away(self) -> tuple[plan_steps.Step, ...]:
        """The steps that need confirmation."""
        return tuple(step for planned in self.tasks if planned.plan for step in planned.plan.takes_away)

    @property
    def destroys(self) -> int:
        return sum(plan_steps.destroys(step) for step in self.steps)

    @property
    def drift(self) -> tuple[Drift, ...]:
        return tuple(row for planned in self.tasks for row in planned.drift)


def plan_host(view: HostView, declared: HostDeclaration, author: tasks.Author) -> HostPlan:
    """Plan every task of a host. Raises LedgerBroken; the refusal of a single task is in its PlannedTask."""
    detach.guard_ledger(view)
    planned_tasks, _ = plan_tasks(view, declared, tasks.of_host(view, declared), author)
    allocated = [(domain, claim) for domain in view.domains for claim in tasks.own_claims(view, domain)]
    return HostPlan(
        host=view.snapshot.host,
        tasks=planned_tasks,
        findings=(*_findings(view, planned_tasks), *_other_sites(view, declared, allocated)),
        fingerprint=plans.digest(*plans.of_host(view), view.domains),
        ours=len(view.snapshot.ledger or ()) + len(ownership.proved(view)),
        allocated=sum(tasks.may_prune(declared, claim) for _, claim in allocated),
        vanished=tuple(
            dict.fromkeys(
                claim.declared
                for domain, claim in allocated
                if claim.declared not in (None, declared.vms_from)
                and tasks.may_prune(declared, claim)
                and tasks.declaration(declared, domain.name, claim.slot) is None
            )
        ),
        nvml_silent=any(view.snapshot.why_silent(gpu.pci) is not None for gpu in view.snapshot.gpus),
    )


def plan_work(
    view: HostView, declared: HostDeclaration, todo: Iterable[Task], author: tasks.Author
) -> tuple[HostPlan, HostView]:
    """Plan the tasks that a user requests of a whole host, and return also the host's state after them."""
    planned_tasks, after = plan_tasks(view, declared, todo, author)
    plan = HostPlan(
        host=view.snapshot.host,
        tasks=planned_tasks,
        findings=tuple(finding for planned in planned_tasks if planned.plan for finding in planned.plan.findings),
        fingerprint=plans.digest(*plans.of_host(view), view.domains),
        ours=len(view.snapshot.ledger or ()),
    )
    return plan, after


def plan_tasks(
    view: HostView, declared: HostDeclaration, todo: Iterable[Task], author: tasks.Author
) -> tuple[tuple[PlannedTask, ...], HostView]:
    """Plan tasks in order, each on the state that those before it will leave; return also the host's state after all of them."""
    planned_tasks = PlannedTasks()
    after = view
    work = Queue(todo)
    for task in work:
        planned, after = plan_next(after, declared, task, author)
        planned_tasks.add(planned)
        work.tell(task, may_pass=planned.may_pass, changed=bool(planned.steps))
    return planned_tasks.in_order, after


def plan_next(
    view: HostView, declared: HostDeclaration, task: Task, author: tasks.Author
) -> tuple[PlannedTask, HostView]:
    """One task's plan, and the host's state after it; a plan that cannot be carried out counts as a refusal."""
    planned = plan_task(view, declared, task, author)
    try:
        return planned, simulate.apply(view, planned.steps)
    except Exception as error:  # noqa: BLE001 -- an oddity of one task's place is that task's own outcome
        return replace(planned, plan=None, refused=_impossible(view, task, error), drift=()), view


class PlannedTasks:
    """The planned tasks in order. If a task was repeated, a plan replaces the first refusal, but a second refusal does not."""

    def __init__(self) -> None:
        self._rows: dict[int, PlannedTask] = {}
        self._first: dict[Task, int] = {}
        self._added = 0

    def add(self, planned: PlannedTask) -> None:
        at = self._first.setdefault(planned.task, self._added)
        if at != self._added:
            if planned.refused is not None and not planned.steps:
                return
            first = self._rows.pop(at)
            if first.steps:
                self._rows[at] = replace(first, refused=None)
            else:
                self._first[planned.task] = self._added
        self._rows[self._added] = planned
        self._added += 1

    @property
    def in_order(self) -> tuple[PlannedTask, ...]:
        return tuple(planned for _, planned in sorted(self._rows.items(), key=lambda row: row[0]))


def plan_task(view: HostView, declared: HostDeclaration, task: Task, author: tasks.Author) -> PlannedTask:
    """Plan one task on a view. A refusal becomes part of it, so that the other tasks go on."""
    planned = _plan_task(view, declared, task, author)
    if planned.refused is not None:
        _tell_where(task, planned.refused)
    return planned


def _tell_where(task: Task, error: errors.VgpumgrError) -> None:
    """Add the line of the inventory to an error that only its correction ends. A host without room is no mistake there."""
    match task:
        case EnsureSlot(declared=declared) if declared is not None:
            where = str(declared.where)
        case SetGpuScheduler(where=str(where)) | SetGpuMode(where=str(where)) | KeepInstances(where=where):
            pass
        case _:
            return
    room_lacks = isinstance(error, errors.NoCapacity) and not isinstance(error, errors.ProfileNotHere)
    if not isinstance(error, errors.RequestError) or room_lacks or where in error.message:
        return
    error.message, error.what = f"{error.message} ({where})", f"{error.what} ({where})"
    if isinstance(error, errors.UnknownGpu) and error.details:
        error.hint = f"name one of these in {where}"


def _plan_task(view: HostView, declared: HostDeclaration, task: Task, author: tasks.Author) -> PlannedTask:
    try:
        match task:
            case EnsureSlot():
                return _plan_ensure(view, declared, task, author)
            case PruneSlot():
                return _plan_prune(view, task, author)
            case SetGpuScheduler():
                return _plan_gpu_scheduler(view, declared, task)
            case KeepInstances():
                return _plan_layout(view, declared, task)
            case SetGpuMode():
                return _plan_gpu_mode(view, declared, task)
            case AttachSlot():
                return PlannedTask(task=task, plan=requests.plan_attach_slots(view, declared, task, author))
            case DetachSlot():
                return PlannedTask(task=task, plan=requests.plan_detach_slot(view, declared, task, author))
            case Adopt():
                request = adopt.AdoptRequest(vgpus=task.vgpus, by=author.by, at=author.at, policy=declared.policy)
                return PlannedTask(task=task, plan=adopt.plan_adopt(view, request))
            case SetCordon():
                about = cordons.CordonRequest(
                    gpu_id=task.gpu_id, reason=task.reason, by=author.by, at=author.at, keep=task.keep
                )
                return PlannedTask(task=task, plan=cordons.plan_cordon(view, about))
            case FreeInstances():
                return PlannedTask(task=task, plan=cached.plan_giving_back(view, task.gpu_id))
            case MoveSlot():
                return PlannedTask(task=task, plan=requests.plan_move_slot(view, declared, task))
    except errors.VgpumgrError as error:
        return PlannedTask(task=task, refused=error)
    except Exception as error:  # noqa: BLE001 -- one odd VM must not block the others
        return PlannedTask(task=task, refused=errors.Unexpected.of(error, about=task.subject))


def _impossible(view: HostView, task: Task, error: Exception) -> errors.VgpumgrError:
    """The refusal of a task whose plan cannot be carried out on the host's state."""
    if not isinstance(error, simulate.ImpossibleStepError):
        return errors.Unexpected.of(error, about=task.subject)
    return errors.Unsure(
        f"{task.subject}: the state of {view.snapshot.host} does not fit its plan: {error}",
        hint=f"`{command('list', view.snapshot.host)}` shows the state; what does not fit must be repaired by hand",
    )


def _plan_ensure(view: HostView, declared: HostDeclaration, task: EnsureSlot, author: tasks.Author) -> PlannedTask:
    domain = view.vms.of_name(task.vm)
    if domain is None:
        where = f" ({task.declared.where})" if task.declared else ""
        near = names.nearest(task.vm, {item.name for item in view.domains})
        raise errors.DeclaredVmUnknown(
            f"{view.snapshot.host} has no VM {task.vm!r}{where}",
            hint=f"did you mean {near}?" if near else "define it there, or remove it from the inventory",
        )
    try:
        request = _request(view, declared, domain, task, author)
    except errors.VgpumgrError as error:
        return _kept(view, declared, domain, task, error)
    try:
        plan = _plan_request(view, domain, task, request)
    except errors.NoCapacity as error:
        return _kept(
            view,
            declared,
            domain,
            task,
            waiting.instead(view, declared, error, partial(_plan_request, domain=domain, task=task, request=request)),
        )
    except errors.VgpumgrError as error:
        return _kept(view, declared, domain, task, error)
    return PlannedTask(task=task, plan=plan, drift=drifts.of_slot(view, domain, task.slot, request.wish, plan))


def _plan_request(view: HostView, domain: Domain, task: EnsureSlot, request: targets.AttachRequest) -> Plan:
    claim = domain.claim(task.slot)
    whole = claim is not None and claim.state == claims.BOUND and targets.serves(view, claim, request)
    if task.declared is None or (whole and domain.managed_save):
        return attach.plan_mending(view, request)
    return attach.plan_attach(view, request)


def _kept(
    view: HostView, declared: HostDeclaration, domain: Domain, task: EnsureSlot, refused: errors.VgpumgrError
) -> PlannedTask:
    """The declaration cannot be served: until it can, keep what the slot already got intact."""
    claim = domain.claim(task.slot)
    nothing = PlannedTask(task=task, refused=refused)
    if task.declared is None or claim is None or claim.state != claims.BOUND:
        return nothing
    if (
        claim not in tasks.own_claims(view, domain)
        or ownership.is_reverted(view, domain, claim)
        or not profiles.is_served(claim.wish)
    ):
        return nothing
    request = targets.request_of(domain, claim, policy=declared.policy)
    try:
        plan = attach.plan_mending(view, request)
    except errors.VgpumgrError:
        return nothing  # the first refusal is the one that counts
    return PlannedTask(
        task=task, plan=plan, refused=refused, drift=drifts.of_slot(view, domain, task.slot, claim.wish, plan)
    )


def _request(
    view: HostView, declared: HostDeclaration, domain: Domain, task: EnsureSlot, author: tasks.Author
) -> targets.AttachRequest:
    claim = domain.claim(task.slot)
    if task.declared is None:
        assert claim is not None
        return targets.request_of(domain, claim, policy=declared.policy)
    request = targets.AttachRequest(
        vm=domain.uuid,
        slot=task.slot,
        wish=task.declared.wish,
        origin=claims.INVENTORY,
        by=author.by,
        at=author.at,
        policy=task.declared.policy or declared.policy,
        gpus=gpu_choice.named(view.snapshot, task.declared.gpu_id),
        site=declared.site,
        declared=declared.vms_from,
        conditions=task.declared.conditions,
    )
    if claim is not None and _is_ours_here(view, domain, claim) and tasks.is_of_other_site(declared, claim):
        return _of_other_site(view, declared, domain, claim, request)
    if claim is not None and claim.origin == claims.INVENTORY and domain.managed_save:
        # Only what the claim says would be rewritten, but an image forbids every change of the definition.
        kept = claim.conditions if targets.serves(view, claim, request) else request.conditions
        request = replace(request, site=claim.site, declared=claim.declared, conditions=kept)
    if claim is None or targets.serves(view, claim, request) or not _is_ours_here(view, domain, claim):
        return request
    if claim.origin == claims.INVENTORY:
        return replace(request, replace=True)
    targets.guard_offered(view, domain, request)
    raise errors.ConflictingClaim(
        f"{domain.name} slot {task.slot} has {claim.binding.type_name}, attached by {claim.by} as "
        f"{claim.asked}, but is declared with {task.declared.asked} ({task.declared.where})",
        hint=f"`{command('attach', domain.name, slot=task.slot, options=(*request.options, '--replace'))}` "
        "carries out the declaration; or change the inventory",
    )


def _of_other_site(
    view: HostView, declared: HostDeclaration, domain: Domain, claim: Claim, request: targets.AttachRequest
) -> targets.AttachRequest:
    """If both sites want the same, it is kept intact and stays the other's. Raises ConflictingClaim if they do not."""
    if targets.serves(view, claim, request):
        return replace(request, site=claim.site, declared=claim.declared, conditions=claim.conditions)
    targets.guard_offered(view, domain, request)
    again = command("attach", domain.name, slot=claim.slot, options=(*request.options, "--replace"))
    raise errors.ConflictingClaim(
        f"{domain.name} slot {claim.slot} has {claim.binding.type_name}, which the inventory of site {claim.site} declared, "
        f"but is declared with {' '.join(request.options)} by {_site_text(declared)}",
        hint=f"remove it from one of the two inventories; `{again}` makes it this one's",
    )


def _site_text(declared: HostDeclaration) -> str:
    return "this one, which names no site" if declared.site is None else f"this one, of site {declared.site}"


def _other_sites(view: HostView, declared: HostDeclaration, allocated: Iterable[tuple[Domain, Claim]]) -> list[Finding]:
    """One for each other site whose inventory declared slots here, not one per slot: a shared host has many."""
    slots: dict[str, list[str]] = {}
    for domain, claim in allocated:
        if claim.site is not None and tasks.is_of_other_site(declared, claim):
            slots.setdefault(claim.site, []).append(f"{domain.name} {claim.slot}")
    return [
        Finding(
            kind="other-site",
            host=view.snapshot.host,
            text=f"the inventory of site {site} declared {', '.join(having)}: only an inventory of that site (vgpumgr_site) "
            f"frees it, not {_site_text(declared)}",
        )
        for site, having in sorted(slots.items())
    ]


def _is_ours_here(view: HostView, domain: Domain, claim: Claim) -> bool:
    return not domain.copied and claim.binding.host == view.snapshot.machine


def _plan_prune(view: HostView, task: PruneSlot, author: tasks.Author) -> PlannedTask:
    request = detach.DetachRequest(vm=task.uuid, slots=(task.slot,), by=author.by, at=author.at)
    plan = detach.plan_detach(view, request)
    domain = plans.find_domain(view, task.uuid)
    claim = domain.claim(task.slot)
    drift = (drifts.of_undeclared(view, domain, claim),) if claim is not None else ()
    return PlannedTask(task=task, plan=plan, drift=drift)


def _plan_gpu_scheduler(view: HostView, declared: HostDeclaration, task: SetGpuScheduler) -> PlannedTask:
    """Set a declared scheduler without re-creating lost vGPUs: each VM's own task does that later.

    Raises InventoryError for a GPU that is declared both by its address and by its UUID: every run would set it twice.
    """
    gpu, gpu_uuid = gpu_choice.find(view.snapshot, task.gpu_id)
    request = scheduler_plan.SchedulerRequest(gpu_uuid=gpu_uuid, wish=task.wish, again=task.where is None)
    if task.where is None:
        return PlannedTask(task=task, plan=scheduler_plan.plan_scheduler(view, request))
    _guard_once(view, gpu, "scheduler", declared)
    plan = scheduler_plan.plan_scheduler(view, request)
    return PlannedTask(task=task, plan=plan, drift=drifts.of_gpu(view, gpu, task.wish) if plan.changed else ())


def _plan_gpu_mode(view: HostView, declared: HostDeclaration, task: SetGpuMode) -> PlannedTask:
    """Set a mode; in a reconcile without re-creating lost vGPUs, as for a scheduler. Raises InventoryError as for that."""
    gpu, gpu_uuid = gpu_choice.find(view.snapshot, task.gpu_id)
    if task.where is not None:
        _guard_once(view, gpu, "mode", declared)
    by_user = task.verb != RECONCILE
    # What needed the mode may have been freed by a task before this one.
    still = task.mode if not task.kept or gpu.mode is None else modes.ended(view, gpu)
    mode = still or gpu.mode or task.mode
    request = mode_plan.ModeRequest(gpu_uuid=gpu_uuid, mode=mode, again=by_user, reset=task.reset)
    plan = modes.plan_mode(view, request)
    differs = plan.changed and not by_user
    return PlannedTask(task=task, plan=plan, drift=drifts.of_mode(view, gpu, task.mode) if differs else ())


def _plan_layout(view: HostView, declared: HostDeclaration, task: KeepInstances) -> PlannedTask:
    """Raises InventoryError as for a scheduler."""
    plan = layout.plan_layout(view, task.gpu_id, task.profiles)
    _guard_once(view, plan.gpu, "instances", declared)
    return PlannedTask(task=task, plan=plan, drift=drifts.of_layout(view, plan) if plan.changed else ())


def _guard_once(view: HostView, gpu: Gpu, setting: settings.Setting, declared: HostDeclaration) -> None:
    same = settings.all_deciding(gpu, declared.of_gpus, setting)
    if len(same) > 1:
        raise errors.InventoryError(
            f"the {setting} of GPU {gpu.pci} of {view.snapshot.host} is declared {len(same)} times",
            details=[f"{item.where}: {item.name}" for item in same],
            hint="keep one of them; vgpumgr_gpus takes a GPU's PCI address or its UUID, vgpumgr_boards a board's code or its name",
        )


def _findings(view: HostView, planned_tasks: Sequence[PlannedTask]) -> tuple[Finding, ...]:
    """The host's findings, except those that a task resolves anyway, plus those of its plans."""
    served = {
        (planned.task.vm, planned.task.slot)
        for planned in planned_tasks
        if planned.plan and not isinstance(planned.task, OfGpu)
    }
    of_plans = (finding for planned in planned_tasks if planned.plan for finding in planned.plan.findings)
    return tuple(dict.fromkeys((*findings.of_host(view, served=served), *of_plans)))
