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
    return {"schema": SCHEMA, **common.frame(), "store": str(store), "runs": [run(one) for one in runs]}


def run(one: JournalEntry) -> dict[str, object]:
    """`outcome` is null if the run never ended."""
    intent = one.intent
    return {
        **common.pick(one, "at", "by"),
        **common.pick(intent, "verb", "vm", "host"),
        "outcome": one.outcome,
        "why": intent.why,
        "id": one.id,
        **common.pick(intent, "vm_uuid", "slot", "gpu"),
        "verbs": [str(step.get("verb")) for step in intent.steps],
        **common.pick(one, "ended_at", "error", "message"),
        "steps": common.plain(intent.steps),
    }
