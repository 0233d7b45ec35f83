"""(declared, observed) → what one host needs so that every VM has what was declared or once bound to it.

Each job is planned on the state that the jobs before it will leave, by the same functions that attach and detach use.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from vgpumgr import errors, names
from vgpumgr.core.commands import command
from vgpumgr.core.driver import profiles
from vgpumgr.core.model import claims
from vgpumgr.core.model.observed import SERVED, Finding
from vgpumgr.core.plan import attaching, changes, detaching, gpu_choice, ownership, scheduling, simulate, targets
from vgpumgr.core.plan import plan as plans
from vgpumgr.core.plan.scheduling import GpuPlan
from vgpumgr.core.reconcile import adopting, jobs, wanted
from vgpumgr.core.reconcile import drift as drifts
from vgpumgr.core.reconcile.jobs import Adopt, Free, Give, Serve, Share, Take
from vgpumgr.core.reconcile.worklist import Worklist
from vgpumgr.core.report import findings

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from vgpumgr.core.inventory import HostDeclaration
    from vgpumgr.core.model.claims import Claim
    from vgpumgr.core.model.domain_xml import Domain
    from vgpumgr.core.model.observed import HostView
    from vgpumgr.core.plan.plan import Plan
    from vgpumgr.core.reconcile.adopting import AdoptPlan
    from vgpumgr.core.reconcile.drift import Drift
    from vgpumgr.core.reconcile.jobs import Job
    from vgpumgr.names import HostName

# A job refused with one of these may succeed after another job: one that frees the room, or the device's other definition.
_MAY_PASS = (errors.NoCapacity, errors.ConflictingClaim, errors.RefusedPlan)


@dataclass(frozen=True, slots=True, kw_only=True)
class Unit:
    """One job: its plan, or why it was refused. `drift` says why there are steps.

    Both are set if a declaration is refused but what the slot had before is kept intact.
    """

    job: Job
    plan: Plan | GpuPlan | AdoptPlan | None
    refused: errors.VgpumgrError | None
    drift: tuple[Drift, ...]

    @property
    def steps(self) -> tuple[changes.Step, ...]:
        return self.plan.steps if self.plan else ()

    @property
    def gpu(self) -> str | None:
        """The PCI address of the GPU it is about; None for a job about a VM, or if no GPU with the given UUID was found."""
        if isinstance(self.plan, GpuPlan):
            return self.plan.gpu.pci
        return self.job.gpu_id if isinstance(self.job, Share) and not self.job.gpu_id.startswith("GPU-") else None

    @property
    def may_pass(self) -> bool:
        """Whether it was refused for a reason that another job may still remove."""
        return isinstance(self.refused, _MAY_PASS)


@dataclass(frozen=True, slots=True, kw_only=True)
class HostPlan:
    """All jobs of one host, in order. `ours`: the number of vGPUs in its ledger now, for the guards.

    `given`: the number of slots that this inventory has served here; `vanished`: the parts of it that declared a slot which
    is to be freed, but that no longer decide about this host's VMs.
    """

    host: HostName
    units: tuple[Unit, ...]
    findings: tuple[Finding, ...]
    fingerprint: str
    ours: int
    given: int = 0
    vanished: tuple[str, ...] = ()

    @property
    def frees(self) -> tuple[Unit, ...]:
        """The slots that are no longer declared, including refused ones; empty if no vGPU is destroyed for them."""
        found = tuple(unit for unit in self.units if isinstance(unit.job, Free))
        return found if any(changes.destroys(step) for unit in found for step in unit.steps) else ()

    @property
    def steps(self) -> tuple[changes.Step, ...]:
        return tuple(step for unit in self.units for step in unit.steps)

    @property
    def changed(self) -> bool:
        return bool(self.steps)

    @property
    def takes_away(self) -> tuple[changes.Step, ...]:
        """The steps that need confirmation."""
        return tuple(step for unit in self.units if unit.plan for step in unit.plan.takes_away)

    @property
    def destroys(self) -> int:
        return sum(changes.destroys(step) for step in self.steps)

    @property
    def drift(self) -> tuple[Drift, ...]:
        return tuple(row for unit in self.units for row in unit.drift)


def plan_host(view: HostView, declared: HostDeclaration, run: jobs.Run) -> HostPlan:
    """Plan every job of a host. Raises LedgerBroken; the refusal of a single job is in its unit."""
    detaching.guard_ledger(view)
    units, _ = plan_jobs(view, declared, jobs.of_host(view, declared), run)
    given = [(domain, claim) for domain in view.domains for claim in jobs.own_claims(view, domain)]
    return HostPlan(
        host=view.snapshot.host,
        units=units,
        findings=(*_findings(view, units), *_other_sites(view, declared)),
        fingerprint=plans.digest(view.snapshot.gpus, view.snapshot.ledger, view.snapshot.stuck, view.domains),
        ours=len(view.snapshot.ledger or ()) + len(ownership.proved(view)),
        given=sum(jobs.may_free(declared, claim) for _, claim in given),
        vanished=tuple(
            dict.fromkeys(
                claim.declared
                for domain, claim in given
                if claim.declared not in (None, declared.vms_from)
                and jobs.may_free(declared, claim)
                and jobs.declaration(declared, domain.name, claim.slot) is None
            )
        ),
    )


def plan_jobs(
    view: HostView, declared: HostDeclaration, todo: Iterable[Job], run: jobs.Run
) -> tuple[tuple[Unit, ...], HostView]:
    """Plan jobs in order, each on the state that those before it will leave; return also the host's state after all of them."""
    units: list[Unit] = []
    after = view
    work = Worklist(todo)
    for job in work:
        unit, after = plan_next(after, declared, job, run)
        units = joined(units, unit)
        work.tell(job, may_pass=unit.may_pass, changed=bool(unit.steps))
    return tuple(units), after


def plan_next(view: HostView, declared: HostDeclaration, job: Job, run: jobs.Run) -> tuple[Unit, HostView]:
    """One job's plan, and the host's state after it; a plan that cannot be carried out counts as a refusal."""
    unit = plan_job(view, declared, job, run)
    try:
        return unit, simulate.apply(view, unit.steps)
    except Exception as error:  # noqa: BLE001 -- an oddity of one job's place is that job's own outcome
        return replace(unit, plan=None, refused=_impossible(view, job, error), drift=()), view


def joined(units: list[Unit], unit: Unit) -> list[Unit]:
    """The units plus one more; if its job was repeated, a plan replaces the first refusal, but a second refusal does not."""
    first = next((one for one in units if one.job == unit.job), None)
    if first is None:
        return [*units, unit]
    if unit.refused is not None and not unit.steps:
        return units
    kept = [replace(first, refused=None)] if first.steps else []
    return [*(row for one in units for row in (kept if one is first else [one])), unit]


def plan_job(view: HostView, declared: HostDeclaration, job: Job, run: jobs.Run) -> Unit:
    """Plan one job on a view. A refusal becomes part of the unit, so that the other jobs go on."""
    try:
        match job:
            case Serve():
                return _plan_serve(view, declared, job, run)
            case Free():
                return _plan_free(view, job, run)
            case Share():
                return _plan_share(view, declared, job)
            case Give():
                return Unit(job=job, plan=wanted.plan_give(view, declared, job, run), refused=None, drift=())
            case Take():
                return Unit(job=job, plan=wanted.plan_take(view, declared, job, run), refused=None, drift=())
            case Adopt():
                request = adopting.AdoptRequest(vgpus=job.vgpus, by=run.by, at=run.at, policy=declared.policy)
                return Unit(job=job, plan=adopting.plan_adopt(view, request), refused=None, drift=())
    except errors.VgpumgrError as error:
        return Unit(job=job, plan=None, refused=error, drift=())
    except Exception as error:  # noqa: BLE001 -- one odd VM must not block the others
        return Unit(job=job, plan=None, refused=errors.Unexpected.of(error, about=job.subject), drift=())


def _impossible(view: HostView, job: Job, error: Exception) -> errors.VgpumgrError:
    """The refusal of a job whose plan cannot be carried out on the host's state."""
    if not isinstance(error, simulate.ImpossibleStepError):
        return errors.Unexpected.of(error, about=job.subject)
    return errors.Unsure(
        f"{job.subject}: the state of {view.snapshot.host} does not fit its plan: {error}",
        hint=f"`{command('list', view.snapshot.host)}` shows the state; what does not fit must be repaired by hand",
    )


def _plan_serve(view: HostView, declared: HostDeclaration, job: Serve, run: jobs.Run) -> Unit:
    domain = next((item for item in view.domains if item.name == job.vm), None)
    if domain is None:
        where = f" ({job.declared.where})" if job.declared else ""
        near = names.nearest(job.vm, {item.name for item in view.domains})
        raise errors.UnknownVm(
            f"{view.snapshot.host} has no VM {job.vm!r}{where}",
            hint=f"did you mean {near}?" if near else "define it there, or remove it from the inventory",
        )
    try:
        request = _request(view, declared, domain, job, run)
        plan = _plan_request(view, domain, job, request)
    except errors.VgpumgrError as error:
        return _kept(view, declared, domain, job, error)
    drift = drifts.of_slot(view, domain, job.slot, request.wish, plan)
    return Unit(job=job, plan=plan, refused=None, drift=drift)


def _plan_request(view: HostView, domain: Domain, job: Serve, request: targets.AttachRequest) -> Plan:
    claim = domain.claim(job.slot)
    whole = claim is not None and claim.state == claims.BOUND and targets.serves(claim, request)
    if job.declared is None or (whole and domain.managed_save):
        return attaching.plan_mending(view, request)
    return attaching.plan_attach(view, request)


def _kept(view: HostView, declared: HostDeclaration, domain: Domain, job: Serve, refused: errors.VgpumgrError) -> Unit:
    """The declaration cannot be served: until it can, keep what the slot already got intact."""
    claim = domain.claim(job.slot)
    nothing = Unit(job=job, plan=None, refused=refused, drift=())
    if job.declared is None or claim is None or claim.state != claims.BOUND:
        return nothing
    if (
        claim not in jobs.own_claims(view, domain)
        or ownership.is_reverted(view, domain, claim)
        or not isinstance(claim.wish, profiles.ByProfile)
    ):
        return nothing
    request = _request_of(declared, domain, claim)
    try:
        plan = attaching.plan_mending(view, request)
    except errors.VgpumgrError:
        return nothing  # the first refusal is the one that counts
    return Unit(job=job, plan=plan, refused=refused, drift=drifts.of_slot(view, domain, job.slot, claim.wish, plan))


def _request(
    view: HostView, declared: HostDeclaration, domain: Domain, job: Serve, run: jobs.Run
) -> targets.AttachRequest:
    claim = domain.claim(job.slot)
    if job.declared is None:
        assert claim is not None
        return _request_of(declared, domain, claim)
    request = targets.AttachRequest(
        vm=domain.uuid,
        slot=job.slot,
        wish=job.declared.wish,
        origin=claims.INVENTORY,
        by=run.by,
        at=run.at,
        policy=job.declared.policy or declared.policy,
        gpus=gpu_choice.named(view.snapshot, job.declared.gpu_id),
        site=declared.site,
        declared=declared.vms_from,
    )
    if claim is not None and _is_ours_here(view, domain, claim) and jobs.is_of_other_site(declared, claim):
        return _of_other_site(declared, domain, claim, request)
    if claim is not None and claim.origin == claims.INVENTORY and domain.managed_save:
        # Only the claim's site and part would be rewritten, but an image forbids every change of the definition.
        request = replace(request, site=claim.site, declared=claim.declared)
    if claim is None or targets.serves(claim, request) or not _is_ours_here(view, domain, claim):
        return request
    if claim.origin == claims.INVENTORY:
        return replace(request, replace=True)
    raise errors.ConflictingClaim(
        f"{domain.name} slot {job.slot} has {claim.binding.type_name}, attached by {claim.by} as "
        f"{profiles.describe(claim.wish)}, but is declared with {profiles.describe(job.declared.wish)} ({job.declared.where})",
        hint=f"`{command('attach', domain.name, slot=job.slot, options=(*profiles.options(job.declared.wish), '--replace'))}` "
        "carries out the declaration; or change the inventory",
    )


def _of_other_site(
    declared: HostDeclaration, domain: Domain, claim: Claim, request: targets.AttachRequest
) -> targets.AttachRequest:
    """If both sites want the same, it is kept intact and stays the other's. Raises ConflictingClaim if they do not."""
    if targets.serves(claim, request):
        return replace(request, site=claim.site, declared=claim.declared)
    again = command("attach", domain.name, slot=claim.slot, options=(*profiles.options(request.wish), "--replace"))
    raise errors.ConflictingClaim(
        f"{domain.name} slot {claim.slot} has {claim.binding.type_name}, which the inventory of site {claim.site} declared, "
        f"but is declared with {profiles.describe(request.wish)} by {_site_text(declared)}",
        hint=f"remove it from one of the two inventories; `{again}` makes it this one's",
    )


def _site_text(declared: HostDeclaration) -> str:
    return "this one, which names no site" if declared.site is None else f"this one, of site {declared.site}"


def _other_sites(view: HostView, declared: HostDeclaration) -> list[Finding]:
    """One for each other site whose inventory declared slots here, not one per slot: a shared host has many."""
    slots: dict[str, list[str]] = {}
    for domain in view.domains:
        for claim in jobs.own_claims(view, domain):
            if claim.site is not None and jobs.is_of_other_site(declared, claim):
                slots.setdefault(claim.site, []).append(f"{domain.name} {claim.slot}")
    return [
        Finding(
            kind="other-site",
            host=view.snapshot.host,
            vm=None,
            slot=None,
            text=f"the inventory of site {site} declared {', '.join(having)}: only an inventory of that site (vgpumgr_site) "
            f"frees it, not {_site_text(declared)}",
        )
        for site, having in sorted(slots.items())
    ]


def _request_of(declared: HostDeclaration, domain: Domain, claim: Claim) -> targets.AttachRequest:
    """The attach that a claim came from."""
    return targets.AttachRequest(
        vm=domain.uuid,
        slot=claim.slot,
        wish=claim.wish,
        origin=claim.origin,
        by=claim.by,
        at=claim.at,
        policy=declared.policy,
        site=claim.site,
        declared=claim.declared,
    )


def _is_ours_here(view: HostView, domain: Domain, claim: Claim) -> bool:
    return not domain.copied and claim.binding.host == view.snapshot.machine


def _plan_free(view: HostView, job: Free, run: jobs.Run) -> Unit:
    request = detaching.DetachRequest(vm=job.uuid, slots=(job.slot,), by=run.by, at=run.at)
    plan = detaching.plan_detach(view, request)
    domain = plans.find_domain(view, job.uuid)
    claim = domain.claim(job.slot)
    drift = (drifts.of_undeclared(view, domain, claim),) if claim is not None else ()
    return Unit(job=job, plan=plan, refused=None, drift=drift)


def _plan_share(view: HostView, declared: HostDeclaration, job: Share) -> Unit:
    """Set a declared scheduler without re-creating lost vGPUs: each VM's own job does that later.

    Raises InventoryError for a GPU that is declared both by its address and by its UUID: every run would set it twice.
    """
    chosen = gpu_choice.named(view.snapshot, job.gpu_id)
    gpu = view.snapshot.gpu_by_uuid(names.parse_gpu_uuid(chosen[0])) if chosen else None
    assert gpu is not None
    assert gpu.uuid is not None
    request = scheduling.SchedulerRequest(gpu_uuid=gpu.uuid, wish=job.wish, again=job.where is None)
    if job.where is None:
        return Unit(job=job, plan=scheduling.plan_scheduler(view, request), refused=None, drift=())
    same = [item for item in declared.gpus if item.scheduler is not None and item.gpu_id in (gpu.pci, gpu.uuid)]
    if len(same) > 1:
        raise errors.InventoryError(
            f"the scheduler of GPU {gpu.pci} of {view.snapshot.host} is declared {len(same)} times",
            details=[f"{item.where}: {item.gpu_id}" for item in same],
            hint="keep one of them; vgpumgr_gpus takes a GPU's PCI address or its UUID",
        )
    plan = scheduling.plan_scheduler(view, request)
    return Unit(job=job, plan=plan, refused=None, drift=drifts.of_gpu(view, gpu, job.wish))


def _findings(view: HostView, units: Sequence[Unit]) -> tuple[Finding, ...]:
    """The host's findings, except those that a job resolves anyway, plus those of its plans."""
    served = {(unit.job.vm, unit.job.slot) for unit in units if unit.plan and not isinstance(unit.job, Share)}
    found = [
        finding
        for finding in findings.of_host(view)
        if finding.kind not in SERVED or (finding.vm, finding.slot) not in served
    ]
    found += [finding for unit in units if unit.plan for finding in unit.plan.findings]
    return tuple(dict.fromkeys(found))
