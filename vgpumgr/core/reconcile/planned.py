"""The result of planning a task: its plan, or why it was refused. PlannedTasks collects many in order."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from vgpumgr import errors
from vgpumgr.core.gpu.gpu_plan import GpuPlan
from vgpumgr.core.reconcile.tasks import RECONCILE, EnsureSlot, OfGpu
from vgpumgr.core.slot import waits

if TYPE_CHECKING:
    from vgpumgr.core import step as plan_steps
    from vgpumgr.core.gpu.cordon_plan import CordonPlan
    from vgpumgr.core.reconcile.adopt import AdoptPlan
    from vgpumgr.core.reconcile.drift import Drift
    from vgpumgr.core.reconcile.tasks import Task
    from vgpumgr.core.slot.plan import Plan
    from vgpumgr.core.slot.reserving import ReservationPlan

# A task refused with one of these may succeed after another task, which frees room or a device in another definition.
_MAY_PASS = (errors.NoCapacity, errors.ConflictingClaim, errors.RefusedPlan)


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedTask:
    """One task: its plan, or why it was refused. `drift` says why there are steps.

    It has both if a declaration is refused, wholly or in part: the plan keeps what there is, or does the rest.
    `unverified`: why nobody could check that the slot is as declared, if there is nothing to do. `note`: the plan that
    notes since when the slot waits, if the refusal's reason stays.
    """

    task: Task
    plan: Plan | GpuPlan | AdoptPlan | CordonPlan | ReservationPlan | None = None
    refused: errors.VgpumgrError | None = None
    drift: tuple[Drift, ...] = ()
    unverified: str | None = None
    note: Plan | None = None

    @property
    def noted(self) -> PlannedTask:
        """The task with its note as plan."""
        return replace(self, plan=self.note, drift=(), note=None)

    @property
    def steps(self) -> tuple[plan_steps.Step, ...]:
        return self.plan.steps if self.plan else ()

    @property
    def gpu(self) -> str | None:
        """The PCI address of the task's GPU; None for a task about a VM, or if no GPU with the given UUID was found."""
        if isinstance(self.plan, GpuPlan):
            return self.plan.gpu.pci
        if isinstance(self.task, OfGpu) and not self.task.gpu_id.startswith("GPU-"):
            return self.task.gpu_id
        return None

    @property
    def waits(self) -> str | None:
        """What the task waits for, as in "waits until …": the end of a use, or room. None if it does not wait."""
        if isinstance(self.task, EnsureSlot) and self.task.wait is not None and self.refused is not None:
            return "there is room" if waits.may_pass(self.refused) else None
        if self.task.verb != RECONCILE or not isinstance(self.refused, errors.InUse):
            return None
        return self.refused.until

    @property
    def may_pass(self) -> bool:
        """Whether the task was refused for a reason that another task may still remove."""
        return isinstance(self.refused, _MAY_PASS)


class PlannedTasks:
    """The planned tasks in order. If a task was refused and is tried again, its new plan replaces the refusal."""

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
