"""A full disk under the store, a real one of half a megabyte."""

from __future__ import annotations

import shutil
import subprocess
from typing import TYPE_CHECKING

import pytest

from vgpumgr.errors import StoreError
from vgpumgr.store.journal import Journal
from vgpumgr.store.journal_entry import Intent, Question

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.lab

ENTRY = Intent(verb="attach", why="requested --profile 4Q", host="kvm01", vm="vm01")


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    folder = tmp_path / "disk"
    folder.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=512k", "tmpfs", str(folder)], check=True)
    try:
        yield folder
    finally:
        subprocess.run(["umount", str(folder)], check=True)


def test_a_full_disk_is_said_to_be_one_and_what_was_written_before_stays(small_disk: Path) -> None:
    warned: list[str] = []
    journal = Journal(small_disk / "store.db", warn=warned.append)
    number = journal.begin(ENTRY, by="anna@ctl1", at="2026-11-21T12:00:00Z")
    journal.end(number, at="2026-11-21T12:00:01Z", outcome="done")
    free = shutil.disk_usage(small_disk).free
    (small_disk / "filler").write_bytes(bytes(free))
    assert journal.begin(ENTRY, by="anna@ctl1", at="2026-11-21T12:01:00Z") is None
    [line] = warned
    assert f"df {small_disk}" in line
    with pytest.raises(StoreError) as refused:
        Journal(small_disk / "store.db", warn=warned.append).runs(Question(limit=9))
    assert f"df {small_disk}" in (refused.value.hint or "")
    (small_disk / "filler").unlink()
    [run] = Journal(small_disk / "store.db", warn=warned.append).runs(Question(limit=9))
    assert run.outcome == "done"
