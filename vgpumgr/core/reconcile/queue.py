"""A host's tasks in order; one that was refused is retried after others have changed something.

A later task can remove the reason for a refusal: it frees a vGPU of another size, or removes a device, which only one
VM may name, from a definition. Without a retry, that would have to wait for the next night.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from vgpumgr.core.reconcile.planned import PlannedTask
    from vgpumgr.core.reconcile.tasks import Task


class Queue:
    """An iterator over tasks: report each one's outcome with `tell` before taking the next.

    Refused tasks come again, until a round changes nothing. `notes`: after the end, the tasks that are still refused
    and wait, each with the plan that notes since when.
    """

    def __init__(self, work: Iterable[Task]) -> None:
        self._queue = deque(work)
        self._again: list[Task] = []
        self._changed = False
        self._notes: dict[Task, PlannedTask] = {}

    def __iter__(self) -> Iterator[Task]:
        while self._queue:
            yield self._queue.popleft()
            if not self._queue and self._changed:
                self._queue, self._again, self._changed = deque(self._again), [], False

    def put_first(self, task: Task) -> None:
        """Make this the next task, so that the rest of it is planned again."""
        self._queue.appendleft(task)

    def tell(self, planned: PlannedTask, *, changed: bool) -> None:
        self._changed = self._changed or changed
        if planned.may_pass:
            self._again.append(planned.task)
        self._notes.pop(planned.task, None)
        if planned.note is not None:
            self._notes[planned.task] = planned.noted

    @property
    def notes(self) -> tuple[PlannedTask, ...]:
        return tuple(self._notes.values())
