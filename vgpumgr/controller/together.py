"""Several VMs in one command: one look at each host, one plan, one question, one result. All are served or none.

That is decided over all hosts, inside their locks, before anything is changed. What fails after that is its VM's own outcome, or its
host's: what was done stays, and the same command goes on from there.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from vgpumgr import errors
from vgpumgr.controller.engine.step_count import StepCount
from vgpumgr.controller.hosts.fan_out import Outcome as Ended
from vgpumgr.controller.requests import Serving
from vgpumgr.controller.results import FleetPlan
from vgpumgr.errors import Outcome

if TYPE_CHECKING:
    from collections.abc import Sequence

    from vgpumgr.controller.context import Context
    from vgpumgr.controller.engine.host_work import HostEnd
    from vgpumgr.controller.requests import RequestsResult, SlotResult
    from vgpumgr.controller.results import Consent
    from vgpumgr.core.inventory import Finding
    from vgpumgr.core.reconcile.host_plan import HostPlan
    from vgpumgr.core.slot.request import SlotRequest
    from vgpumgr.names import HostName


@dataclass(frozen=True, slots=True, kw_only=True)
class TogetherOptions:
    """`partial`: serve those that can be. `asks`: the command needs confirmation whatever its plan is.

    `findings`: of the file that named the requests.
    """

    requests: Sequence[SlotRequest]
    partial: bool = False
    asks: bool = False
    findings: tuple[Finding, ...] = ()


def serve_together(context: Context, options: TogetherOptions, consent: Consent[FleetPlan]) -> RequestsResult:
    """Bring the slots of several VMs to their requested state. Raises UsageError, Declined, PlanOutdated or InventoryError.

    The refusal or failure of one VM or host is in the result, never raised; without `partial` a refusal holds back all others
    (HeldBack). Serving is in the order of the VMs' names, so the order of the requests decides nothing.
    """
    with Serving(context, options.requests, nowhere_is_free=False, in_order=True) as serving:
        return _Together(context, options, consent, serving).go()


class _Together:
    def __init__(
        self, context: Context, options: TogetherOptions, consent: Consent[FleetPlan], serving: Serving
    ) -> None:
        self._context = context
        self._options = options
        self._consent = consent
        self._serving = serving
        self._ends: dict[HostName, Ended[HostPlan]] = {}

    def go(self) -> RequestsResult:
        shown: FleetPlan | None = None
        reads_first = self._consent.reads_first(asks=self._options.asks)
        fleet = self._plan(lock=not (reads_first or self._is_refused()))
        if reads_first and not self._is_refused():
            self._consent.show(fleet)
            if self._consent.check or not fleet.changed:
                return self._result(fleet, Outcome.WOULD_CHANGE, {})
            self._consent.ask(fleet)
            shown, fleet = fleet, self._plan(lock=True)
        while not self._is_refused() and not self._is_agreed(fleet, shown):
            # No host is locked while the user decides.
            self._serving.each(lambda work: work.unlock(), self._readable)
            self._consent.show(fleet)
            self._consent.ask(fleet)
            shown, fleet = fleet, self._plan(lock=True)
        if self._is_refused():
            return self._held_back(fleet)
        if shown is None:
            self._consent.show(fleet)
        elif fleet.records != shown.records:
            self._context.progress("the hosts changed in between; the plan is now:")
            self._consent.show(fleet)
        return self._carry_out(fleet)

    def _plan(self, *, lock: bool) -> FleetPlan:
        """Look at every host that could be read so far, once, and plan all its tasks. Raises PlanOutdated."""
        todo = self._readable if self._ends else None
        self._ends |= self._serving.each(lambda work: work.plan(lock=lock), todo, self._context.reading)
        fleet = FleetPlan(
            plans=tuple(end.value for end in self._ends.values() if end.value is not None),
            errors=tuple((end.host, end.error) for end in self._ends.values() if end.error is not None),
            findings=self._options.findings,
            seconds={end.host: end.seconds for end in self._ends.values()},
        )
        if self._consent.kept is not None and not self._is_refused():
            self._consent.kept.guard(fleet.fingerprint, fleet.records)
        return fleet

    @property
    def _readable(self) -> tuple[HostName, ...]:
        return tuple(end.host for end in self._ends.values() if end.value is not None)

    def _is_refused(self) -> bool:
        """Whether one that cannot be served holds back the others."""
        if self._options.partial:
            return False
        return self._serving.misplaced or any(
            end.value is None or any(planned.refused is not None for planned in end.value.tasks)
            for end in self._ends.values()
        )

    def _is_agreed(self, now: FleetPlan, shown: FleetPlan | None) -> bool:
        agreed = shown.takes_away if shown is not None else ()
        return self._consent.given or all(step in agreed for step in now.takes_away)

    def _carry_out(self, fleet: FleetPlan) -> RequestsResult:
        changed = {plan.host: plan for plan in fleet.plans if plan.changed}
        count = StepCount(changed.values(), self._context)
        done = self._serving.each(
            lambda work: work.carry_out_plan(None if self._consent.given else changed[work.host].takes_away, count.add),
            changed,
            count.progress,
        )
        return self._result(fleet, Outcome.UNCHANGED, done)

    def _result(
        self, fleet: FleetPlan, outcome: errors.Success, done: dict[HostName, Ended[HostEnd]]
    ) -> RequestsResult:
        """`outcome`: of what is planned on hosts that were not changed."""
        ends: dict[HostName, Ended[HostEnd]] = {
            host: Ended(
                host=host,
                value=None if end.value is None else self._serving.hosts[host].planned_end(outcome),
                error=end.error,
                seconds=end.seconds,
            )
            for host, end in self._ends.items()
            if host not in done
        }
        return self._serving.result({**ends, **done}, fleet)

    def _held_back(self, fleet: FleetPlan) -> RequestsResult:
        """Nothing was done: what could have been is refused, too."""
        result = self._result(fleet, Outcome.WOULD_CHANGE, {})
        return replace(result, slots=tuple(map(_held_back, result.slots)), is_held_back=True)


def _held_back(slot: SlotResult) -> SlotResult:
    if slot.error is not None or slot.outcome == Outcome.UNCHANGED:
        return slot
    error = errors.HeldBack(f"{slot.vm}: others of this command cannot be served, so this VM was left as it is")
    return replace(slot, error=error, outcome=error.outcome, changed=False, after=slot.before, rows=())
