"""How many of a run's steps are done, counted over all of its hosts."""

from __future__ import annotations

import threading
from dataclasses import replace
from typing import TYPE_CHECKING

from vgpumgr.controller.context import Steps

if TYPE_CHECKING:
    from collections.abc import Callable

    from vgpumgr.controller.context import Progress


class StepCount:
    """`planned`: the steps that were agreed. Hosts add to it from their threads, and a watcher reads it meanwhile."""

    def __init__(self, planned: int, tell: Callable[[Progress], None]) -> None:
        self._planned = planned
        self._tell = tell
        self._done = 0
        self._turn = threading.Lock()

    def add(self, steps: int) -> None:
        """So many more are done."""
        with self._turn:
            self._done += steps

    def progress(self, progress: Progress) -> None:
        """Tell how far the hosts are, with the steps. A host that changed since it was planned may take more than were agreed."""
        with self._turn:
            done = min(self._done, self._planned)
        self._tell(replace(progress, steps=Steps(done, self._planned)))
