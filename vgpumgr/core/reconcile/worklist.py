"""A host's jobs in their order, where one that was refused comes again once others have changed something.

What another job does late can end what a job before it was refused for: it frees a vGPU of another size, or takes a device out
of a definition that only one VM may name. Without another try the next night would do what this one could have done.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from vgpumgr.core.reconcile.jobs import Job


class Worklist:
    """Iterate over it, and `tell` what came of each job before the next one is asked for. It ends: a round that changes nothing is the last."""

    def __init__(self, work: Iterable[Job]) -> None:
        self._queue = list(work)
        self._again: list[Job] = []
        self._changed = False

    def __iter__(self) -> Iterator[Job]:
        while self._queue:
            yield self._queue.pop(0)
            if not self._queue and self._changed:
                self._queue, self._again, self._changed = self._again, [], False

    def tell(self, job: Job, *, may_pass: bool, changed: bool) -> None:
        self._changed = self._changed or changed
        if may_pass:
            self._again.append(job)
