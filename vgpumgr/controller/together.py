"""Several VMs in one command: one reading of each host, one plan, one question, one result. All are served or none.

Whether all can be served is decided over all hosts, inside their locks, before anything is changed. A later failure
is the outcome of its own VM or host: what was done stays, and the same command continues from there.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from vgpumgr import errors
from vgpumgr.controller.engine.agreement import agree
from vgpumgr.controller.engine.run import fleet_plan
from vgpumgr.controller.engine.step_count import StepCount
from vgpumgr.controller.hosts.fan_out import Outcome as Ended
from vgpumgr.controller.requests import HostEnd, Serving
from vgpumgr.errors import Outcome
from vgpumgr.wording import say

if TYPE_CHECKING:
    from collections.abc import Sequence

    from vgpumgr.controller.context import Context
    from vgpumgr.controller.engine.host_run import HostRun
    from vgpumgr.controller.requests import RequestsResult, SlotResult
    from vgpumgr.controller.results import Consent, FleetPlan
    from vgpumgr.core.inventory import Finding
    from vgpumgr.core.reconcile.host_plan import HostPlan
    from vgpumgr.core.slot.request import SlotRequest
    from vgpumgr.names import HostName


@dataclass(frozen=True, slots=True, kw_only=True)
class TogetherOptions:
    """`partial`: serve the VMs that can be served. `asks`: the command needs confirmation whatever its plan is.

    `findings`: those of the file that named the requests.
    """

    requests: Sequence[SlotRequest]
    partial: bool = False
    asks: bool = False
    findings: tuple[Finding, ...] = ()


def serve_together(context: Context, options: TogetherOptions, consent: Consent[FleetPlan]) -> RequestsResult:
    """Bring slots of several VMs to their requested state. Raises UsageError, Declined, PlanOutdated or InventoryError.

    The refusal or failure of one VM or host is in the result, never raised; without `partial` a refusal holds back all
    others (HeldBack). VMs are served in the order of their names, so the order of the requests decides nothing.
    """
    with Serving(context, options.requests, together=True) as serving, serving.allotment:
        together = _Together(context, options, consent, serving)
        try:
            agreement = agree(context, consent, together, asks=options.asks, whose="the hosts")
        except _NotAllError as refused:
            return together.held_back(refused.fleet)
        if agreement.outcome is not None:
            return together.result(agreement.plan, agreement.outcome, {})
        return together.carry_out(agreement.plan)


class _NotAllError(Exception):
    """Some VMs cannot be served, so none is served."""

    def __init__(self, fleet: FleetPlan) -> None:
        super().__init__()
        self.fleet = fleet


class _Together:
    def __init__(
        self, context: Context, options: TogetherOptions, consent: Consent[FleetPlan], serving: Serving
    ) -> None:
        self._context = context
        self._options = options
        self._consent = consent
        self._serving = serving
        self._ends: dict[HostName, Ended[HostPlan]] = {}

    def plan(self, *, lock: bool) -> FleetPlan:
        """Read every host again, except those that could not be read, and plan all its tasks. Raises _NotAllError."""

        def plan(run: HostRun) -> HostPlan:
            run.look(lock=locks)
            return self._serving.plan_read(run)

        locks = lock and not self._is_refused()
        todo = self._readable if self._ends else None

        def look() -> dict[HostName, Ended[HostPlan]]:
            ends = self._serving.each(plan, todo, self._context.reading)
            self._ends |= ends
            return ends

        self._ends |= self._serving.within_quotas(self._serving.allotment.look(look, self.unlock) if locks else look())
        fleet = fleet_plan(self._ends.values(), self._options.findings)
        if self._is_refused():
            raise _NotAllError(fleet)
        return fleet

    def unlock(self) -> None:
        self._serving.each(lambda run: run.unlock(), self._readable)
        self._serving.allotment.end_turn()

    def carry_out(self, fleet: FleetPlan) -> RequestsResult:
        changed = {plan.host: plan for plan in fleet.plans if plan.changed}
        count = StepCount(changed.values(), self._context)

        def go(run: HostRun) -> HostEnd:
            plan = changed[run.session.declaration.name]
            with run.session:
                agreed = None if self._consent.given else plan.takes_away
                return HostEnd.of(run.go([planned.task for planned in plan.tasks], agreed=agreed, stepped=count.add))

        return self.result(fleet, Outcome.UNCHANGED, self._serving.each(go, changed, count.progress))

    def result(self, fleet: FleetPlan, outcome: errors.Success, done: dict[HostName, Ended[HostEnd]]) -> RequestsResult:
        """The result. On hosts that are not in `done`, nothing was changed, and tasks with steps get `outcome`."""
        ends: dict[HostName, Ended[HostEnd]] = {
            host: Ended(
                host=host,
                value=None if end.value is None else HostEnd.of(self._serving.hosts[host].foretell(end.value, outcome)),
                error=end.error,
                seconds=end.seconds,
            )
            for host, end in self._ends.items()
            if host not in done
        }
        return self._serving.result({**ends, **done}, fleet)

    def held_back(self, fleet: FleetPlan) -> RequestsResult:
        """The result when nothing was done: VMs that could have been served are refused, too."""
        result = self.result(fleet, Outcome.WOULD_CHANGE, {})
        return replace(result, slots=tuple(map(_held_back, result.slots)), is_held_back=True)

    @property
    def _readable(self) -> tuple[HostName, ...]:
        return tuple(end.host for end in self._ends.values() if end.value is not None)

    def _is_refused(self) -> bool:
        """Whether a VM that cannot be served holds back the others."""
        if self._options.partial:
            return False
        return self._serving.misplaced or any(
            end.value is None or any(planned.refused is not None for planned in end.value.tasks)
            for end in self._ends.values()
        )


def _held_back(slot: SlotResult) -> SlotResult:
    if slot.error is not None or slot.outcome == Outcome.UNCHANGED:
        return slot
    error = errors.HeldBack(say("{}: others of this command cannot be served, so this VM was left as it is", slot.vm))
    return replace(slot, error=error, outcome=error.outcome, changed=False, after=slot.before, rows=())
