"""The files of a lab directory, with no lab in it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vgpumgr.lab.layout import LabRecord, Layout
from vgpumgr.store import only_one, place

if TYPE_CHECKING:
    from pathlib import Path


def test_what_the_program_kept_beside_the_store_goes_with_the_lab(tmp_path: Path) -> None:
    """Else the next lab there shows what the VMs of this one used."""
    layout = Layout(folder=tmp_path / "lab")
    layout.folder.mkdir()
    layout.write(LabRecord(spec="default", hosts=()))
    for database in (layout.store, place.samples_beside(layout.store)):
        for end in ("", "-wal", "-shm"):
            database.with_name(database.name + end).touch()
    for lock in (only_one.NAME, only_one.COLLECTOR):
        layout.store.with_name(lock).touch()
    layout.wipe()
    assert not layout.folder.exists()
