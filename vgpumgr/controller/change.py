"""The one path of every change: plan, show, ask; lock, plan again, apply, look again. See design section 5."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic

from vgpumgr import errors
from vgpumgr.controller import journaling
from vgpumgr.controller.apply import apply
from vgpumgr.controller.results import Planned, PlanT
from vgpumgr.controller.stale import judged

if TYPE_CHECKING:
    from collections.abc import Callable

    from vgpumgr.controller.results import Consent
    from vgpumgr.controller.session import Session
    from vgpumgr.core.model.observed import Finding, HostView
    from vgpumgr.names import VmName, VmUuid


@dataclass(frozen=True, slots=True, kw_only=True)
class Change(Generic[PlanT]):
    """A change of one host that somebody asked for.

    `plan` decides, without side effects, each time afresh; `evidence` adds to a view what the plan needs beside it. `asks`:
    a person has to say yes. `why` is for the journal, `look` the command that shows what came of it. `name`: whom it is
    about, as the host's lock and messages say it.
    """

    session: Session
    consent: Consent[PlanT]
    plan: Callable[[HostView], PlanT]
    evidence: Callable[[HostView], HostView]
    asks: bool
    asked: str
    verb: str
    why: str
    name: str
    look: str
    vm: VmName | None = None
    vm_uuid: VmUuid | None = None
    findings: tuple[Finding, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Changed(Generic[PlanT]):
    """How a change ended: done, unchanged or would_change; `view` is the host as it was last seen."""

    planned: Planned[PlanT]
    outcome: str
    findings: tuple[Finding, ...]
    view: HostView


def carry_out(change: Change[PlanT]) -> Changed[PlanT]:
    """Make the change. Raises what the plan raises, Declined, HostError or ApplyError."""
    session, consent = change.session, change.consent
    shown: Planned[PlanT] | None = None
    if consent.check or change.asks:
        view = change.evidence(session.observe())
        shown = _planned(change, view)
        consent.show(shown)
        if consent.check or not shown.plan.changed:
            return _ended(change, shown, "would_change" if shown.plan.changed else "unchanged", view)
        consent.ask(shown)
    view = _locked(change)
    now = _planned(change, view)
    while not _is_agreed(now, shown):
        # Nobody keeps a host locked while a person thinks.
        session.unlock(view, ())
        consent.show(now)
        consent.ask(now)
        shown = now
        view = _locked(change)
        now = _planned(change, view)
    if shown is None:
        consent.show(now)
    elif now.plan.steps != shown.plan.steps:
        session.context.progress("the host changed in between; the plan is now:")
        consent.show(now)
    if not now.plan.changed:
        return _ended(change, now, "unchanged", view)
    return _ended(change, now, "done", _apply(change, now, view))


def _locked(change: Change[PlanT]) -> HostView:
    return change.evidence(change.session.lock(f"{change.verb} {change.name}"))


def _planned(change: Change[PlanT], view: HostView) -> Planned[PlanT]:
    made = change.plan(view)
    host = change.session.declaration.name
    return Planned(host=host, plan=made, asked=change.asked, findings=change.findings + made.findings)


def _apply(change: Change[PlanT], planned: Planned[PlanT], view: HostView) -> HostView:
    """Do the steps, give the lock back, and look whether nothing is left to do."""
    session, plan = change.session, planned.plan
    entry = journaling.entry_of(
        plan.steps, verb=change.verb, why=change.why, host=planned.host, vm=change.vm, vm_uuid=change.vm_uuid
    )
    with journaling.recorded(session.context, entry):
        try:
            apply(session, plan)
        except errors.StalePlan as error:
            raise judged(error, planned.host, plan.steps, lambda: _look_again(change).steps) from error
        try:
            after = session.unlock(view, plan.gpus)
            residual = change.plan(after)
        except errors.VgpumgrError:
            raise
        except Exception as error:
            about = f"{planned.host}: all steps were done, and then the last look at it"
            raise errors.Unexpected.of(error, about=about) from error
        if residual.changed:
            raise errors.NotConverged(
                f"{planned.host}: all steps were done, and {plan.about} is not as planned",
                details=[f"still to do: {step.verb}" for step in residual.steps],
                hint=f"`{change.look}`; somebody else may be changing it",
            )
    return after


def _look_again(change: Change[PlanT]) -> PlanT:
    return change.plan(change.evidence(change.session.observe()))


def _ended(change: Change[PlanT], planned: Planned[PlanT], outcome: str, view: HostView) -> Changed[PlanT]:
    findings = planned.findings + journaling.findings(change.session.context)
    return Changed(planned=planned, outcome=outcome, findings=findings, view=view)


def _is_agreed(now: Planned[PlanT], shown: Planned[PlanT] | None) -> bool:
    """Whether all that the plan takes away was in the one that a person said yes to."""
    agreed = shown.plan.takes_away if shown is not None else ()
    return all(step in agreed for step in now.plan.takes_away)
