"""What use cases return: frozen values that hold no open resources.

Every command imports it before its first host is reached, so planning is imported only where it is used.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, TypeAlias, TypeVar

from vgpumgr.errors import Outcome, worst_exit
from vgpumgr.wording import say

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from vgpumgr.core.advice.advice import Advice, HostAdvice
    from vgpumgr.core.certify.beliefs import Answer, Belief
    from vgpumgr.core.gpu.mode_plan import ModePlan
    from vgpumgr.core.gpu.scheduler import SchedulerPlan
    from vgpumgr.core.inventory import Finding as InventoryFinding
    from vgpumgr.core.model.domain_xml import Domain
    from vgpumgr.core.model.installation import Installation
    from vgpumgr.core.model.reservation import Reservation
    from vgpumgr.core.model.snapshot import Cordon, HostSnapshot
    from vgpumgr.core.model.view import Finding, HostView
    from vgpumgr.core.reconcile.draining import DrainRow
    from vgpumgr.core.reconcile.host_plan import HostPlan
    from vgpumgr.core.reconcile.planned import PlannedTask
    from vgpumgr.core.reconcile.purging import PurgePlan
    from vgpumgr.core.reconcile.who_waits import WaitingSlot
    from vgpumgr.core.report.cards import Card
    from vgpumgr.core.report.listing import VgpuRow
    from vgpumgr.core.report.modes import ModeRow
    from vgpumgr.core.report.schedulers import SchedulerRow
    from vgpumgr.core.slot.kept import KeptPlan
    from vgpumgr.core.slot.plan import AnyPlan
    from vgpumgr.core.step import Step
    from vgpumgr.core.usage.by_owner import OwnerUse
    from vgpumgr.core.usage.usage_rows import UsageRow
    from vgpumgr.core.usage.usage_window import Window
    from vgpumgr.errors import Success, UnknownVm, VgpumgrError
    from vgpumgr.names import HostName, PciAddress
    from vgpumgr.store.sql.forgetting import Kind, Trace


Unread: TypeAlias = "tuple[HostName, VgpumgrError]"
PlanT = TypeVar("PlanT", bound="AnyPlan")
View = TypeVar("View")
Shown = TypeVar("Shown")


@dataclass(frozen=True, slots=True, kw_only=True)
class Planned(Generic[PlanT]):
    """A plan and its host, shown before anything is written. `requested`: the wish as options; None if there is none.

    `fingerprint`: of the state that the plan is based on.
    """

    host: HostName
    plan: PlanT
    fingerprint: str
    requested: str | None
    findings: tuple[Finding, ...]

    @property
    def changed(self) -> bool:
        return self.plan.changed

    @property
    def steps(self) -> tuple[Step, ...]:
        return self.plan.steps

    @property
    def takes_away(self) -> tuple[Step, ...]:
        return self.plan.takes_away

    @property
    def records(self) -> tuple[dict[str, object], ...]:
        """Every step in the form for documents."""
        return tuple(step.record() for step in self.steps)


@dataclass(frozen=True, slots=True, kw_only=True)
class Consent(Generic[Shown]):
    """How a use case shows its plan and asks. `show` prints; `ask` raises Declined or UsageError if the answer is no.

    The plan is that of one host, or the plans of a fleet. `check`: nothing may be changed anywhere. `kept`: only this
    plan may be carried out. `given`: the user has agreed in advance, so the hosts are not read first only to ask.
    """

    check: bool
    show: Callable[[Shown], None]
    ask: Callable[[Shown], None]
    kept: KeptPlan | None = None
    given: bool = False

    def reads_first(self, *, asks: bool) -> bool:
        """Whether the plan is shown before the host is locked. `asks`: the change needs a confirmation."""
        return self.check or (asks and not self.given)


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeResult(Generic[PlanT]):
    """How a change ended: done, unchanged or would_change. `view` is the last reading of its host.

    `rows`: the vGPUs that the command was about, afterwards. `unread`: hosts that could not be asked for the VM.
    """

    planned: Planned[PlanT]
    outcome: Success
    findings: tuple[Finding, ...]
    view: HostView
    rows: tuple[VgpuRow, ...] = ()
    unread: tuple[Unread, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class SchedulerHost:
    """How the GPUs of one host share their time."""

    host: HostName
    rows: tuple[SchedulerRow, ...]
    findings: tuple[Finding, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class SchedulerResult:
    """The result of setting a GPU's scheduler: done, unchanged or would_change. `row`: the GPU afterwards."""

    planned: Planned[SchedulerPlan]
    outcome: Success
    findings: tuple[Finding, ...]
    row: SchedulerRow


@dataclass(frozen=True, slots=True, kw_only=True)
class ModeHost:
    """The modes of one host's GPUs."""

    host: HostName
    rows: tuple[ModeRow, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ModeResult:
    """The result of setting a GPU's mode: done, unchanged or would_change. `row`: the GPU afterwards."""

    planned: Planned[ModePlan]
    outcome: Success
    findings: tuple[Finding, ...]
    row: ModeRow


@dataclass(frozen=True, slots=True, kw_only=True)
class Fleet(Generic[View]):
    """The readings of several hosts. `errors` has one row for each host that could not be read, or only partly.

    A host that was partly read is in `views`, too.
    """

    views: tuple[View, ...]
    errors: tuple[tuple[HostName, VgpumgrError], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Reserved:
    """A place that is reserved, or was until now. `declared`: by the inventory, and only as long as it says so."""

    host: HostName
    reservation: Reservation
    declared: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class HostVgpus:
    """What `list` keeps of a host. `vms`: names and UUIDs of its VMs; empty if the arguments name no VMs."""

    host: HostName
    rows: tuple[VgpuRow, ...]
    findings: tuple[Finding, ...]
    vms: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Advised:
    """The advice about the selected vGPUs, from the samples of `window`.

    `findings`: why the samples may be old, and why there is no advice about a vGPU. `unknown`: an error for each
    argument that names nothing.
    """

    fleet: Fleet[HostAdvice]
    window: Window
    findings: tuple[Finding, ...]
    unknown: tuple[UnknownVm, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class VgpuList:
    """The selected vGPUs. `named`: the arguments that mean VMs. `unknown`: an error for each that names nothing."""

    fleet: Fleet[HostVgpus]
    named: tuple[str, ...]
    unknown: tuple[UnknownVm, ...]

    @property
    def rows(self) -> tuple[VgpuRow, ...]:
        return tuple(row for host in self.fleet.views for row in host.rows)

    @property
    def findings(self) -> tuple[Finding, ...]:
        return tuple(finding for host in self.fleet.views for finding in host.findings)


@dataclass(frozen=True, slots=True, kw_only=True)
class HostReport:
    """What `report` keeps of a host."""

    cards: tuple[Card, ...]
    waiting: tuple[WaitingSlot, ...]
    advice: tuple[Advice, ...]
    findings: tuple[Finding, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class SiteReport:
    """The state of the hosts at `made_at` (RFC 3339, UTC), and what was used on them in the window.

    `owners`: the sums of what was used, by owner. `used` and `owners` are empty if nothing was ever collected.
    """

    fleet: Fleet[HostReport]
    made_at: str
    window: Window
    used: tuple[UsageRow, ...]
    owners: tuple[OwnerUse, ...]
    findings: tuple[Finding, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class HostInstallation:
    """What is installed on a host, after what the command did there."""

    installation: Installation
    outcome: Success


@dataclass(frozen=True, slots=True, kw_only=True)
class HostFacts:
    """A host's facts without its VMs. `libvirt_version` is None if libvirt does not answer.

    `shared`: findings about devices that several of its VMs cannot have at the same time.
    """

    snapshot: HostSnapshot
    libvirt_version: int | None
    shared: tuple[Finding, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class HostCordons:
    """A host's own cordon and those of its GPUs and functions, as many as there are."""

    host: HostName
    cordons: tuple[Cordon, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class VmReport:
    """One VM as its host reports it. `errors`: why parts were not read. `unread`: the hosts that could not be asked."""

    view: HostView
    domain: Domain
    rows: tuple[VgpuRow, ...]
    findings: tuple[Finding, ...]
    errors: tuple[VgpumgrError, ...] = ()
    unread: tuple[Unread, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetPlan:
    """The plans of all hosts that were read. `errors`: one row for each unread host; `findings`: the inventory's.

    `seconds`: how long the reading of each host took, even if it failed.
    """

    plans: tuple[HostPlan, ...]
    errors: tuple[tuple[HostName, VgpumgrError], ...]
    findings: tuple[InventoryFinding, ...]
    seconds: Mapping[HostName, float]

    @property
    def changed(self) -> bool:
        return any(plan.changed for plan in self.plans)

    @property
    def steps(self) -> tuple[Step, ...]:
        return tuple(step for plan in self.plans for step in plan.steps)

    @property
    def takes_away(self) -> tuple[Step, ...]:
        return tuple(step for plan in self.plans for step in plan.takes_away)

    @property
    def records(self) -> tuple[dict[str, object], ...]:
        """Every step in the form for documents, with its host."""
        return tuple({"host": plan.host, **step.record()} for plan in self.plans for step in plan.steps)

    @property
    def fingerprint(self) -> str:
        """A hash of the state that all plans are based on."""
        from vgpumgr.core.slot.plan import digest

        return digest(*(plan.fingerprint for plan in self.plans))


@dataclass(frozen=True, slots=True, kw_only=True)
class DrainResult:
    """The result of drain. `rows`: the vGPUs still there. `error`: what blocks the work or failed; None: nothing."""

    host: HostName
    gpu: PciAddress | None
    cordon: Cordon | None
    fleet: FleetPlan
    rows: tuple[DrainRow, ...]
    outcome: Success
    findings: tuple[Finding, ...]
    error: VgpumgrError | None


@dataclass(frozen=True, slots=True, kw_only=True)
class PurgeResult:
    """The result of purge. `files`: those removed, or to be removed.

    `errors`: why something could not be removed; empty if everything was.
    """

    plan: PurgePlan
    files: tuple[str, ...]
    outcome: Success
    findings: tuple[Finding, ...]
    errors: tuple[VgpumgrError, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class CertifyResult:
    """The result of certify. `answers`: each GPU's answer to each belief of `table`. `raw`: the capture, not scrubbed.

    `outcome`: unchanged if nothing was tried, would_change if it would be, else done. `failure`: a vGPU had to be
    left on the host, and no other GPU was tried after that.
    """

    host: HostName
    versions: Mapping[str, str | None]
    table: Mapping[str, Belief]
    answers: tuple[Answer, ...]
    raw: Mapping[str, object]
    outcome: Success
    failure: VgpumgrError | None
    findings: tuple[Finding, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ForgetPlan:
    """The records that the controller has stored about a VM or host, by file."""

    kind: Kind
    name: str
    traces: tuple[Trace, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ForgetResult:
    """The result of forget: what was stored, and whether it was deleted."""

    plan: ForgetPlan
    outcome: Success


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskResult:
    """The result of one task: done, unchanged, would_change, waiting, or the outcome of its error."""

    planned: PlannedTask
    outcome: Outcome
    error: VgpumgrError | None


@dataclass(frozen=True, slots=True, kw_only=True)
class HostResult:
    """One host's tasks, as far as they got. `error` ended or spoilt the host's whole run; None if nothing did.

    `seconds`: how long reading the host and carrying out its plan took together.
    """

    host: HostName
    tasks: tuple[TaskResult, ...]
    error: VgpumgrError | None
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetResult:
    """The result of a command for many hosts. `guard`: the refusal of the whole plan, after which nothing was changed.

    `findings`: the controller's own (a journal that cannot be written).
    """

    fleet: FleetPlan
    hosts: tuple[HostResult, ...]
    guard: VgpumgrError | None
    check: bool
    findings: tuple[Finding, ...] = ()

    @property
    def errors(self) -> tuple[tuple[HostName, VgpumgrError], ...]:
        """The errors of whole hosts, unread ones first."""
        return (*self.fleet.errors, *((host.host, host.error) for host in self.hosts if host.error is not None))

    @property
    def tasks(self) -> tuple[tuple[HostName, TaskResult], ...]:
        """Every task, with its host."""
        return tuple((host.host, one) for host in self.hosts for one in host.tasks)

    @property
    def failed(self) -> tuple[tuple[HostName, TaskResult], ...]:
        """The tasks that were refused or failed."""
        return tuple((host, one) for host, one in self.tasks if one.error is not None)

    @property
    def waiting(self) -> tuple[Finding, ...]:
        """A finding for each task that waits until something is idle."""
        from vgpumgr.core.model.view import Finding

        return tuple(
            Finding(
                kind="waiting",
                host=host,
                vm=one.planned.task.vm,
                slot=one.planned.task.slot,
                text=say(
                    "{}: {}, {}, waits until {}",
                    host,
                    one.planned.task.subject,
                    one.planned.task.why,
                    one.planned.waits,
                ),
            )
            for host, one in self.tasks
            if one.outcome == Outcome.WAITING
        )

    @property
    def outcomes(self) -> tuple[Outcome, ...]:
        """The outcomes that occurred, each once. Unchanged is among them only if there is no other."""
        found: list[Outcome] = [one.outcome for _, one in self.tasks if one.outcome != Outcome.UNCHANGED]
        found += [error.outcome for _, error in self.errors]
        found += [self.guard.outcome] if self.guard else []
        return tuple(dict.fromkeys(found)) or (Outcome.UNCHANGED,)

    @property
    def problems(self) -> tuple[VgpumgrError, ...]:
        """Every error, for the exit code."""
        guard = (self.guard,) if self.guard else ()
        failed = (one.error for _, one in self.tasks if one.error is not None)
        return (*guard, *(error for _, error in self.errors), *failed)

    @property
    def exit_code(self) -> int:
        """The code that the command ends with."""
        codes = [error.exit_code for error in self.problems]
        unread = any(one.outcome == Outcome.UNVERIFIED for _, one in self.tasks)
        return worst_exit([*codes, 3 if self.check and self.fleet.changed else 0, 4 if unread else 0])
