"""history-1.json: the journal's runs."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from vgpumgr.store.journal_entry import JournalEntry

SCHEMA = "vgpumgr.history/1"


def document(store: Path, runs: Iterable[JournalEntry]) -> dict[str, object]:
    return {"schema": SCHEMA, "store": str(store), "runs": [run(one) for one in runs]}


def run(one: JournalEntry) -> dict[str, object]:
    """`outcome` is null if the run never ended."""
    entry = one.intent
    return {
        "id": one.id,
        "at": one.at,
        "by": one.by,
        "verb": entry.verb,
        "why": entry.why,
        "host": entry.host,
        "vm": entry.vm,
        "vm_uuid": entry.vm_uuid,
        "slot": entry.slot,
        "gpu": entry.gpu,
        "steps": [dict(step) for step in entry.steps],
        "ended_at": one.ended_at,
        "outcome": one.outcome,
        "error": one.error,
        "message": one.message,
    }
