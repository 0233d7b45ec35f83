"""What the journal knows of what is asked for: the attaches of the last weeks, host by host."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

from vgpumgr.controller import partition
from vgpumgr.store.journal import Journal
from vgpumgr.store.journal_entry import Intent

if TYPE_CHECKING:
    from pathlib import Path

NOW = datetime(2026, 11, 29, tzinfo=UTC)


def test_attaches_of_the_last_weeks_that_were_done_count_by_host_and_profile(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "store.sqlite", warn=lambda _text: None)
    assert partition.attached_lately(journal, NOW, 4) == {}
    for verb, host, name, at, outcome in (
        ("attach", "kvm01", "A40-8Q", "2026-11-20", "done"),
        ("attach", "kvm01", "A40-8Q", "2026-11-21", "done"),
        ("attach", "kvm02", "A100-2-10C", "2026-11-20", "done"),
        ("attach", "kvm02", "odd", "2026-11-20", "done"),
        ("attach", "kvm01", "A40-4Q", "2026-10-20", "done"),
        ("attach", "kvm01", "A40-4Q", "2026-11-20", "failed"),
        ("reconcile", "kvm01", "A40-4Q", "2026-11-20", "done"),
    ):
        steps = ({"verb": "put_claim"}, {"verb": "create_vgpu", "type_name": name})
        intent = Intent(verb=verb, why="", host=host, steps=steps)
        journal.end(journal.begin(intent, by="anna@ctl1", at=f"{at}T12:00:00Z"), at=f"{at}T12:00:01Z", outcome=outcome)
    assert partition.attached_lately(journal, NOW, 4) == {"kvm01": {"8Q": 2}, "kvm02": {"2-10C": 1}}
    assert partition.attached_lately(journal, NOW, 0) == {}
