"""drain: cordon a host or a GPU, empty a GPU of idle vGPUs, and wait for those in use, or report them."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from vgpumgr import errors
from vgpumgr.controller.engine import journaling
from vgpumgr.controller.engine.host_run import HostRun, Work
from vgpumgr.controller.hosts.session import open_session
from vgpumgr.controller.results import DrainResult, FleetPlan
from vgpumgr.core import simulate
from vgpumgr.core.gpu import gpu_choice
from vgpumgr.core.reconcile import draining, tasks
from vgpumgr.core.step import SetCordon
from vgpumgr.errors import Outcome
from vgpumgr.wording import Option, say

if TYPE_CHECKING:
    from collections.abc import Callable

    from vgpumgr.controller.context import Context
    from vgpumgr.controller.hosts.session import Session
    from vgpumgr.controller.results import Consent
    from vgpumgr.core.model.view import HostView
    from vgpumgr.core.reconcile.draining import DrainRow
    from vgpumgr.core.reconcile.planned import PlannedTask
    from vgpumgr.names import GpuUuid, HostName, PciAddress


@dataclass(frozen=True, slots=True, kw_only=True)
class DrainOptions:
    """`host` is the inventory's name. `gpu_id` None: the whole host. `wait_s`: how long to wait for what runs."""

    host: str
    gpu_id: str | None
    reason: str
    wait_s: float = 0.0


def drain(
    context: Context,
    options: DrainOptions,
    consent: Consent[FleetPlan],
    *,
    rest: Callable[[float], None] = time.sleep,
    clock: Callable[[], float] = time.monotonic,
) -> DrainResult:
    """Drain a host or a GPU. The result has what still runs. Raises RequestError, Declined, HostError or ApplyError."""
    declaration = context.inventory.host(options.host)
    with open_session(context, declaration) as session:
        work = _Draining(session, options, consent)
        result = work.begin()
        until = clock() + options.wait_s
        while not consent.check and result.error is not None and draining.may_end(result.rows) and clock() < until:
            work.tell_waiting(result, until - clock())
            rest(min(context.timing.drain_poll_s, max(0.0, until - clock())))
            result = work.go_on()
        return result


@dataclass(slots=True)
class _Draining:
    session: Session
    options: DrainOptions
    consent: Consent[FleetPlan]
    _done: list[PlannedTask] = field(default_factory=list)
    _told: str = ""

    def begin(self) -> DrainResult:
        """Show the plan and ask for consent; then cordon, and move the idle vGPUs."""
        run, fleet = self._look()
        self.consent.show(fleet)
        if self.consent.check:
            outcome: errors.Success = Outcome.WOULD_CHANGE if fleet.changed else Outcome.UNCHANGED
            return self._as_planned(run, fleet, outcome)
        if fleet.takes_away:
            self.consent.ask(fleet)
        return self._carry_out(run, fleet)

    def go_on(self) -> DrainResult:
        """Read the host again, and move the vGPUs that have become idle since."""
        return self._carry_out(*self._look())

    def tell_waiting(self, result: DrainResult, left_s: float) -> None:
        names = ", ".join(
            dict.fromkeys(row.holder or row.vm or row.gpu or "?" for row in draining.may_end(result.rows))
        )
        if names != self._told:
            self.session.context.progress(f"{result.host}: waiting up to {left_s:.0f} s for {names}")
            self._told = names

    def _look(self) -> tuple[HostRun, FleetPlan]:
        run = self._run()
        run.look()
        plan = run.plan()
        return run, FleetPlan(plans=(plan,), errors=(), findings=(), seconds={plan.host: 0.0})

    def _carry_out(self, looked: HostRun, fleet: FleetPlan) -> DrainResult:
        if not fleet.changed:
            return self._as_planned(looked, fleet, Outcome.UNCHANGED)
        run = self._run()
        gpu = self._gpu(run.look(lock=True))
        after = run.go()
        failed = next((one.error for one in run.results if one.error is not None and one.planned.refused is None), None)
        refused = tuple(one.planned for one in run.results)
        self._done += [one.planned for one in run.results if one.outcome == Outcome.DONE]
        return self._result(fleet, Outcome.DONE, view=after, after=after, gpu=gpu, refused=refused, failed=failed)

    def _as_planned(self, looked: HostRun, fleet: FleetPlan, outcome: errors.Success) -> DrainResult:
        (plan,), view = fleet.plans, looked.view
        after = simulate.apply(view, plan.steps)
        return self._result(fleet, outcome, view=view, after=after, gpu=self._gpu(view), refused=plan.tasks)

    def _run(self) -> HostRun:
        context, options = self.session.context, self.options
        work = Work(what=f"drain {options.gpu_id or options.host}", todo=lambda view, _declared: self._todo(view))
        return HostRun(self.session, work, tasks.Author(by=context.by, at=context.now()))

    def _gpu(self, view: HostView) -> tuple[PciAddress, GpuUuid] | None:
        if self.options.gpu_id is None:
            return None
        gpu, uuid = gpu_choice.find(view.snapshot, self.options.gpu_id)
        return gpu.pci, uuid

    def _todo(self, view: HostView) -> tuple[tasks.Task, ...]:
        gpu = self._gpu(view)
        cordon = tasks.SetCordon(gpu_id=self.options.gpu_id, reason=self.options.reason, keep=True)
        return (cordon,) if gpu is None else (cordon, *draining.moves(view, *gpu))

    def _result(
        self,
        fleet: FleetPlan,
        outcome: errors.Success,
        *,
        view: HostView,
        after: HostView,
        gpu: tuple[PciAddress, GpuUuid] | None,
        refused: tuple[PlannedTask, ...],
        failed: errors.VgpumgrError | None = None,
    ) -> DrainResult:
        """The result. `view`: the reading whose vGPUs are reported. `after`: the host afterwards, or as it would be."""
        pci, uuid = gpu or (None, None)
        rows = draining.rows(view, pci, refused, moves=self.consent.check)
        return DrainResult(
            host=self.session.declaration.name,
            gpu=pci,
            cordon=after.snapshot.cordon_at(uuid),
            fleet=fleet,
            rows=rows,
            outcome=Outcome.DONE if self._done else outcome,
            findings=(*fleet.plans[0].findings, *journaling.findings(self.session.context)),
            error=failed
            or _not_drained(
                self.session.declaration.name,
                pci,
                rows,
                would_be=self.consent.check and any(isinstance(step, SetCordon) for step in fleet.plans[0].steps),
            ),
        )


def _not_drained(
    host: HostName, gpu: PciAddress | None, rows: tuple[DrainRow, ...], *, would_be: bool
) -> errors.NotDrained | None:
    left = draining.blocking(rows)
    if not left:
        return None
    where = host if gpu is None else say("GPU {} of {}", gpu, host)
    return errors.NotDrained(
        say(
            "{} {} cordoned, but not free: {} of {} vGPUs there {} in the way",
            where,
            "would be" if would_be else "is",
            len(left),
            len(rows),
            "would be" if would_be else "are",
        ),
        details=[say("{} {}: {}", row.vm or "?", row.slot or "-", row.why) for row in left],
        hint=say("drain waits for them with {}; or run it again once they are gone", Option("--wait", "10m")),
    )
