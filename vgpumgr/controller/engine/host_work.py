"""One host of a command about many slots: read or locked, planned, and changed, in one call or in several with others between them.

Ansible's lists do each host in one call; a command that makes all or none plans every host before the first is changed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from vgpumgr import errors
from vgpumgr.controller.engine.host_run import HostRun, task_result
from vgpumgr.core.reconcile import host_plan, tasks, together
from vgpumgr.core.report import listing

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from vgpumgr.controller.hosts.session import Session
    from vgpumgr.controller.results import TaskResult
    from vgpumgr.core.model.view import HostView
    from vgpumgr.core.reconcile.host_plan import HostPlan
    from vgpumgr.core.reconcile.planned import PlannedTask
    from vgpumgr.core.step import Step
    from vgpumgr.names import HostName, Slot, VmUuid


@dataclass(frozen=True, slots=True, kw_only=True)
class HostEnd:
    """A host's state before and after, or as it would be. `rows`: of each VM the newest of each slot, which `list` has last."""

    before: HostView
    after: HostView
    rows: Mapping[VmUuid | None, Mapping[Slot | None, listing.VgpuRow]]

    @classmethod
    def of(cls, before: HostView, after: HostView) -> HostEnd:
        found: dict[VmUuid | None, dict[Slot | None, listing.VgpuRow]] = {}
        for row in listing.rows(after):
            found.setdefault(row.vm_uuid, {})[row.slot] = row
        return cls(before=before, after=after, rows=found)

    def of_slots(self, vm: VmUuid, asked: tasks.ServeSlot) -> tuple[listing.VgpuRow, ...]:
        """The rows of the VM's slots that a task is about."""
        rows = self.rows.get(vm, {})
        slots: tuple[Slot | None, ...]
        if asked.request.wish is not None:
            slots = tuple(one.slot for one in asked.each)
        else:
            slots = tuple(rows) if asked.slot is None else (asked.slot,)
        return tuple(rows[slot] for slot in slots if slot in rows)


class HostWork:
    """One host of a command: its open session, and the tasks there. `results` grows as tasks end, so that a host that fails
    half way has them too.
    """

    def __init__(
        self,
        session: Session,
        todo: Sequence[tasks.ServeSlot],
        author: tasks.Author,
        stopped: Callable[[], bool],
    ) -> None:
        self.session = session
        self.host = session.declaration.name
        self.results: list[TaskResult] = []
        self.before: HostView | None = None
        self._todo = todo
        self._author = author
        self._stopped = stopped
        self._plan: HostPlan | None = None
        self._planned_end: HostView | None = None

    def foretell(self) -> HostEnd:
        """What the tasks would do. Changes nothing."""
        with self.session:
            view = self.before = HostRun(self.session, self._author).read(self._todo)
            planned_tasks, after = host_plan.plan_tasks(view, self.session.declaration, self._todo, self._author)
            self.results = [task_result(planned, errors.Outcome.WOULD_CHANGE) for planned in planned_tasks]
            return HostEnd.of(view, after)

    def carry_out(self) -> HostEnd:
        """Lock the host and do the tasks. An error that ends them early is raised."""
        with self.session:
            run = HostRun(self.session, self._author)
            self.results = run.results
            view = self.before = run.lock(self._what, self._todo)
            return HostEnd.of(view, run.go(view, self._todo, stopped=self._stopped))

    def plan(self, *, lock: bool) -> HostPlan:
        """Read the host, with its lock if that is wanted, which is kept, and plan all tasks together."""
        run = HostRun(self.session, self._author)
        view = self.before = run.lock(self._what, self._todo) if lock else run.read(self._todo)
        self._plan, self._planned_end = together.plan_together(view, self.session.declaration, self._todo, self._author)
        return self._plan

    def unlock(self) -> None:
        """Give the lock back, since somebody has to be asked."""
        if self.before is not None:
            self.session.unlock(self.before)

    def carry_out_plan(
        self, agreed: Sequence[Step] | None, stepped: Callable[[HostName, PlannedTask], None]
    ) -> HostEnd:
        """Do what was planned inside the lock. `agreed` and `stepped`: see HostRun."""
        assert self._plan is not None
        assert self.before is not None
        with self.session:
            run = HostRun(self.session, self._author, agreed, stepped=stepped)
            self.results = run.results
            order = [planned.task for planned in self._plan.tasks]
            return HostEnd.of(self.before, run.go(self.before, order, stopped=self._stopped))

    def planned_end(self, outcome: errors.Success) -> HostEnd:
        """The host as the plan would leave it; `outcome`: of the tasks that have steps."""
        assert self._plan is not None
        assert self.before is not None
        assert self._planned_end is not None
        self.results = [task_result(planned, outcome) for planned in self._plan.tasks]
        return HostEnd.of(self.before, self._planned_end)

    @property
    def _what(self) -> str:
        first = self._todo[0]
        return f"{first.verb} {first.subject if len(self._todo) == 1 else f'{len(self._todo)} slots'}"
