"""history-1.json: the journal's runs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vgpumgr.documents import common

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from vgpumgr.store.journal_entry import JournalEntry

SCHEMA = "vgpumgr.history/1"


def document(store: Path, runs: Iterable[JournalEntry]) -> dict[str, object]:
    return {"schema": SCHEMA, "store": str(store), "runs": [run(one) for one in runs]}


def run(one: JournalEntry) -> dict[str, object]:
    """`outcome` is null if the run never ended."""
    return {
        **common.pick(one, "id", "at", "by"),
        **common.plain(one.intent),
        **common.pick(one, "ended_at", "outcome", "error", "message"),
    }
