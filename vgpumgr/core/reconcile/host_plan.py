"""What one host needs so that every VM has what was declared for it or once bound to it: (declared, observed) → plan.

Each task is planned on the state that the tasks before it will leave.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from vgpumgr import errors
from vgpumgr.core import simulate
from vgpumgr.core import step as plan_steps
from vgpumgr.core.commands import command
from vgpumgr.core.evidence import ownership
from vgpumgr.core.model.claims import LEAVING
from vgpumgr.core.model.view import Finding
from vgpumgr.core.reconcile import task_plan, tasks, undeclared
from vgpumgr.core.reconcile.planned import PlannedTasks
from vgpumgr.core.reconcile.queue import Queue
from vgpumgr.core.reconcile.tasks import OfGpu, PruneSlot
from vgpumgr.core.report import findings
from vgpumgr.core.slot import detach
from vgpumgr.core.slot import plan as plans
from vgpumgr.wording import joined, say

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from vgpumgr.core.inventory import HostDeclaration
    from vgpumgr.core.model.claims import Claim
    from vgpumgr.core.model.domain_xml import Domain
    from vgpumgr.core.model.view import HostView
    from vgpumgr.core.reconcile.drift import Drift
    from vgpumgr.core.reconcile.planned import PlannedTask
    from vgpumgr.core.reconcile.tasks import Task
    from vgpumgr.names import HostName, OwnerName


@dataclass(frozen=True, slots=True, kw_only=True)
class HostPlan:
    """All tasks of one host, in order. `ours`: how many vGPUs are ours now, for the guards.

    `allocated`: how many claims of this host are from this inventory. `vanished`: the parts of the inventory that
    declared a slot now to be freed, but no longer decide about this host's VMs. `nvml_silent`: for at least one GPU,
    NVML does not say what runs on it. `fits`, `owners`: as in PlannedHost, known if the plan is stored (recorded.py).
    """

    host: HostName
    tasks: tuple[PlannedTask, ...]
    findings: tuple[Finding, ...]
    fingerprint: str
    ours: int
    allocated: int = 0
    vanished: tuple[str, ...] = ()
    nvml_silent: bool = False
    fits: Mapping[str, int] = field(default_factory=dict)
    owners: Mapping[str, OwnerName] = field(default_factory=dict)

    @property
    def prunes(self) -> tuple[PlannedTask, ...]:
        """The tasks that free the claims of undeclared slots, refused ones included.

        Empty if none of them destroys a vGPU.
        """
        rows = tuple(row for row in self.tasks if isinstance(row.task, PruneSlot) and not row.task.wait)
        return rows if any(step.destroys for planned in rows for step in planned.steps) else ()

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
        return sum(step.destroys for step in self.steps)

    @property
    def drift(self) -> tuple[Drift, ...]:
        return tuple(row for planned in self.tasks for row in planned.drift)


def plan_host(view: HostView, declared: HostDeclaration, author: tasks.Author) -> HostPlan:
    """Plan every task of a host. Raises LedgerBroken; the refusal of a single task is in its PlannedTask."""
    detach.guard_ledger(view)
    return plan_reconcile(view, declared, tasks.of_host(view, declared), author)


def plan_reconcile(view: HostView, declared: HostDeclaration, todo: Iterable[Task], author: tasks.Author) -> HostPlan:
    """Plan these tasks of a host whose ledger can be read."""
    planned_tasks, _ = plan_tasks(view, declared, todo, author)
    claims = [(domain, claim) for domain in view.domains for claim in tasks.own_claims(view, domain)]
    return HostPlan(
        host=view.snapshot.host,
        tasks=planned_tasks,
        findings=(
            *_findings(view, planned_tasks),
            *_other_sites(view, declared, claims),
            *undeclared.findings(view.snapshot, declared),
        ),
        fingerprint=plans.digest(*plans.of_host(view), view.domains),
        ours=len(view.snapshot.ledger or ()) + len(ownership.proved(view)),
        allocated=sum(tasks.may_prune(declared, claim) and claim.state != LEAVING for _, claim in claims),
        vanished=tuple(
            dict.fromkeys(
                claim.declared
                for domain, claim in claims
                if claim.declared not in (None, declared.vms_from)
                and tasks.may_prune(declared, claim)
                and tasks.declaration(declared, domain.name, claim.slot) is None
            )
        ),
        nvml_silent=any(view.snapshot.why_silent(gpu.pci) is not None for gpu in view.snapshot.gpus),
    )


def plan_work(view: HostView, declared: HostDeclaration, todo: Iterable[Task], author: tasks.Author) -> HostPlan:
    """Plan the tasks that a user requests of a host."""
    planned_tasks, _ = plan_tasks(view, declared, todo, author)
    return HostPlan(
        host=view.snapshot.host,
        tasks=planned_tasks,
        findings=tuple(finding for planned in planned_tasks if planned.plan for finding in planned.plan.findings),
        fingerprint=plans.digest(*plans.of_host(view), view.domains),
        ours=len(view.snapshot.ledger or ()),
    )


def plan_tasks(
    view: HostView, declared: HostDeclaration, todo: Iterable[Task], author: tasks.Author
) -> tuple[tuple[PlannedTask, ...], HostView]:
    """Plan tasks in order, each on the state that those before it leave. Return also the host's state after them."""
    planned_tasks = PlannedTasks()
    after = view
    work = Queue(todo)
    for task in work:
        planned, after = plan_next(after, declared, task, author)
        planned_tasks.add(planned)
        work.tell(planned, changed=bool(planned.steps))
    for planned in work.notes:
        planned_tasks.add(planned)
        after = simulate.apply(after, planned.steps)
    return planned_tasks.in_order, after


def plan_next(
    view: HostView, declared: HostDeclaration, task: Task, author: tasks.Author
) -> tuple[PlannedTask, HostView]:
    """One task's plan, and the host's state after it; a plan that cannot be carried out counts as a refusal."""
    planned = task_plan.plan_task(view, declared, task, author)
    try:
        return planned, simulate.apply(view, planned.steps)
    except Exception as error:  # noqa: BLE001 -- what surprises one task is that task's own outcome
        return replace(planned, plan=None, refused=_impossible(view, task, error), drift=()), view


def _impossible(view: HostView, task: Task, error: Exception) -> errors.VgpumgrError:
    """The refusal of a task whose plan cannot be carried out on the host's state."""
    if not isinstance(error, simulate.ImpossibleStepError):
        return errors.Unexpected.of(error, about=task.subject)
    return errors.Unsure(
        say("{}: the state of {} does not fit its plan: {}", task.subject, view.snapshot.host, error),
        hint=say(
            "`{}` shows the state; what does not fit must be repaired by hand", command("list", view.snapshot.host)
        ),
    )


def _other_sites(view: HostView, declared: HostDeclaration, claims: Iterable[tuple[Domain, Claim]]) -> list[Finding]:
    """One finding for each other site whose inventory declared slots here, not one per slot: a shared host has many."""
    slots: dict[str, list[str]] = {}
    give = "" if declared.site is not None else ": give it a vgpumgr_site of its own"
    for domain, claim in claims:
        if claim.site is not None and tasks.is_of_other_site(declared, claim):
            slots.setdefault(claim.site, []).append(say("{} {}", domain.name, claim.slot))
    return [
        Finding(
            kind="other-site",
            host=view.snapshot.host,
            text=say(
                "the inventory of site {} declared {}: only an inventory of that site (vgpumgr_site) frees it, not {}{}",
                site,
                joined(", ", lines),
                tasks.site_text(declared),
                give,
            ),
        )
        for site, lines in sorted(slots.items())
    ]


def _findings(view: HostView, planned_tasks: Sequence[PlannedTask]) -> tuple[Finding, ...]:
    """The host's findings, except those that a task resolves anyway, plus those of its plans.

    Findings about slots that wait are left out: the tasks' results say what waits.
    """
    slots = {
        (planned.task.vm, planned.task.slot)
        for planned in planned_tasks
        if planned.plan and not isinstance(planned.task, OfGpu)
    }
    of_plans = (finding for planned in planned_tasks if planned.plan for finding in planned.plan.findings)
    of_host = (finding for finding in findings.of_host(view, served=slots) if finding.kind != "waiting")
    return tuple(dict.fromkeys((*of_host, *of_plans)))
