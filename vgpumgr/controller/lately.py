"""What this controller attached lately. From that, placing and `partition` learn what is asked for."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Final

from vgpumgr.errors import StoreError

if TYPE_CHECKING:
    from pathlib import Path

    from vgpumgr.controller.context import Context
    from vgpumgr.core.model.attached import History

WEEKS: Final = 4


def with_history(context: Context) -> Context:
    """The context with what was attached in the WEEKS before today (UTC). Every use case that places vGPUs takes it.

    What is attached today does not count, so one command does not change the answer of the next: `attach` takes the
    place that `place` named. Where the journal is missing or cannot be read, nothing counts, and placing goes on.
    """
    if context.store is None or context.history is not None:
        return context
    try:
        return replace(context, history=attached(context.store, f"{context.now()[:10]}T00:00:00Z", WEEKS))
    except StoreError:
        return context


def attached(store: Path, until: str, weeks: int) -> History:
    """What the attaches of the weeks before `until` made. `until`: RFC 3339 in UTC. Raises StoreError."""
    from vgpumgr.core.driver import profiles
    from vgpumgr.core.model.attached import History
    from vgpumgr.store.sql import journal

    since = f"{datetime.fromisoformat(until) - timedelta(weeks=weeks):%Y-%m-%dT%H:%M:%SZ}"
    found: dict[str, Counter[str]] = defaultdict(Counter)
    for host, types, count in journal.count_attached(store, since, until) if weeks else ():
        for name in map(profiles.read_type_name, types):
            if name is not None and name.series:
                found[host][name.short] += count
    return History(by_host=found)
