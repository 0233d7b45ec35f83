"""How many of a run's steps are done, counted over all of its hosts, and which task was done last."""

from __future__ import annotations

import threading
from dataclasses import replace
from typing import TYPE_CHECKING

from vgpumgr.controller.context import Done, Steps

if TYPE_CHECKING:
    from collections.abc import Collection

    from vgpumgr.controller.context import Context, Progress
    from vgpumgr.core.reconcile.host_plan import HostPlan
    from vgpumgr.core.reconcile.planned import PlannedTask
    from vgpumgr.names import HostName


class StepCount:
    """Counts the finished steps of the agreed `plans`. The hosts' threads add to it while a watcher reads it."""

    def __init__(self, plans: Collection[HostPlan], context: Context) -> None:
        self._planned = sum(len(plan.steps) for plan in plans)
        self._context = context
        self._is_one_change = sum(bool(planned.steps) for plan in plans for planned in plan.tasks) == 1
        self._done = 0
        self._turn = threading.Lock()

    def add(self, host: HostName, planned: PlannedTask) -> None:
        """Count a finished task, and tell the user, unless it is the only one: then the command's end says so."""
        with self._turn:
            self._done += len(planned.steps)
            if not self._is_one_change:
                self._context.done(Done(host, planned.task.subject, self._steps()))

    def progress(self, progress: Progress) -> None:
        """Report the progress of the hosts, with the steps."""
        with self._turn:
            steps = self._steps()
        self._context.reading(replace(progress, steps=steps))

    def _steps(self) -> Steps:
        """The steps done, limited to those planned: a host that has changed since may need more."""
        return Steps(min(self._done, self._planned), self._planned)
