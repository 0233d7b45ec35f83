"""The journal on real SQLite files: what is written is read again, by several processes at once, and no trouble stops work."""

from __future__ import annotations

import json
import os
import shutil
import signal
import sqlite3
import stat
import subprocess
import sys
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests import descriptors
from vgpumgr import errors
from vgpumgr.documents import offline
from vgpumgr.errors import StoreError
from vgpumgr.store import place
from vgpumgr.store.journal import Journal
from vgpumgr.store.journal_entry import Intent, Question
from vgpumgr.store.sql import file
from vgpumgr.store.sql import journal as table
from vgpumgr.store.sql.names import Known, known

if TYPE_CHECKING:
    from collections.abc import Iterator


AT = "2026-11-21T12:00:00Z"
LATER = "2026-11-21T12:00:09Z"
BY = "anna@ctl1"
ENTRY = Intent(
    verb="attach",
    why="requested --profile 4Q",
    host="kvm01",
    vm="vm01",
    vm_uuid="6a1f0000-0000-4000-8000-000000000001",
    slot="vgpu0",
    gpu="0000:41:00.0",
    steps=({"verb": "create_vgpu", "type_id": 560, "uuid": None},),
)
ALL = Question(limit=1000)
# What another process runs; the arguments are the path, a name for its lines and how many.
_WRITER = """
import sys
from pathlib import Path
from vgpumgr.store.journal import Journal
from vgpumgr.store.journal_entry import Intent as Entry
def warn(text): sys.exit(text)
journal = Journal(Path(sys.argv[1]), warn=warn)
for number in range(int(sys.argv[3])):
    row = journal.begin(Entry(verb="attach", why=str(number), host=sys.argv[2]), by="x@y", at="2026-11-21T12:00:00Z")
    journal.end(row, at="2026-11-21T12:00:01Z", outcome="done")
"""


@pytest.fixture
def told() -> list[str]:
    return []


@pytest.fixture
def journal(tmp_path: Path, told: list[str]) -> Journal:
    return Journal(tmp_path / "state" / "store.sqlite", warn=told.append)


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(file, "BUSY_S", 0.05)


def writer(path: Path, name: str, count: int) -> subprocess.Popen[str]:
    return subprocess.Popen([sys.executable, "-c", _WRITER, path, name, str(count)], stderr=subprocess.PIPE, text=True)


def opened(path: Path) -> list[str]:
    """The descriptors of this process for the file, and for what SQLite puts next to it."""
    return [found for found in descriptors.opened() if str(path) in found]


def test_what_was_begun_and_ended_is_read_again(journal: Journal, told: list[str]) -> None:
    number = journal.begin(ENTRY, by=BY, at=AT)
    assert [(run.outcome, run.ended_at) for run in journal.runs(ALL)] == [(None, None)]
    journal.end(number, at=LATER, outcome="failed", error="SysfsRefused", message="no")
    (run,) = journal.runs(ALL)
    assert (run.intent, run.by, run.at, run.ended_at) == (ENTRY, BY, AT, LATER)
    assert (run.outcome, run.error, run.message) == ("failed", "SysfsRefused", "no")
    assert told == []


def test_the_file_is_the_owners_alone(journal: Journal) -> None:
    """0700 for the folder that is made, 0600 for the file, whatever the umask is."""
    before = os.umask(0)
    try:
        journal.begin(ENTRY, by=BY, at=AT)
    finally:
        os.umask(before)
    assert stat.S_IMODE(journal.path.parent.stat().st_mode) == 0o700
    assert stat.S_IMODE(journal.path.stat().st_mode) == 0o600
    assert [file.name for file in journal.path.parent.iterdir()] == ["store.sqlite"]


def test_reading_makes_no_file(journal: Journal) -> None:
    assert journal.runs(ALL) == ()
    assert not journal.path.parent.exists()
    journal.begin(ENTRY, by=BY, at=AT)
    assert len(journal.runs(ALL)) == 1


def test_processes_that_write_at_once_lose_nothing(journal: Journal) -> None:
    """Four processes find no file, and each writes eight runs; all of them are there, each of them ended."""
    writers = [writer(journal.path, f"kvm{number}", 8) for number in range(4)]
    assert [process.communicate(timeout=120)[1] for process in writers] == [""] * 4
    runs = journal.runs(ALL)
    assert {run.outcome for run in runs} == {"done"}
    assert sorted((run.intent.host, int(run.intent.why)) for run in runs) == [
        (f"kvm{number}", line) for number in range(4) for line in range(8)
    ]
    assert [file.name for file in journal.path.parent.iterdir()] == ["store.sqlite"]


def test_a_killed_writer_leaves_a_journal_that_goes_on(journal: Journal) -> None:
    process = writer(journal.path, "kvm01", 10_000)
    while not known(journal.path).hosts:
        assert process.poll() is None
    process.send_signal(signal.SIGKILL)
    process.communicate()
    before = len(journal.runs(Question(limit=100_000)))
    journal.end(journal.begin(ENTRY, by=BY, at=AT), at=LATER, outcome="done")
    runs = journal.runs(Question(limit=100_000))
    assert len(runs) == before + 1
    assert (runs[0].intent, runs[0].outcome) == (ENTRY, "done")


def test_the_newest_come_first_and_no_more_than_asked_for(journal: Journal) -> None:
    for number in range(5):
        journal.begin(replace(ENTRY, why=str(number)), by=BY, at=f"2026-11-2{number}T00:00:00Z")
    assert [run.intent.why for run in journal.runs(Question(limit=3))] == ["4", "3", "2"]
    assert [run.intent.why for run in journal.runs(Question(limit=9, since="2026-11-22T00:00:00Z"))] == ["4", "3", "2"]


def test_only_so_many_of_the_newest_are_kept(journal: Journal, monkeypatch: pytest.MonkeyPatch) -> None:
    """By their numbers: a clock that jumps ahead takes none away."""
    monkeypatch.setattr(table, "KEEP_RUNS", 3)
    for number in range(5):
        journal.begin(replace(ENTRY, why=f"run {number}"), by="anna@ctl1", at="2099-01-01T00:00:00Z")
    assert [run.intent.why for run in journal.runs(Question(limit=10))] == ["run 4", "run 3", "run 2"]


def test_a_renamed_vm_is_found_by_either_name_and_by_its_uuid(journal: Journal) -> None:
    assert ENTRY.vm_uuid is not None
    journal.begin(ENTRY, by=BY, at=AT)
    journal.begin(replace(ENTRY, vm="web01"), by=BY, at=AT)
    journal.begin(replace(ENTRY, vm="vm02", vm_uuid="6a1f0000-0000-4000-8000-000000000002"), by=BY, at=AT)
    journal.begin(replace(ENTRY, vm=None, vm_uuid=None), by=BY, at=AT)
    for question in (
        Question(limit=9, name="vm01"),
        Question(limit=9, name="web01"),
        Question(limit=9, vm_uuid=ENTRY.vm_uuid),
    ):
        assert [run.intent.vm for run in journal.runs(question)] == ["web01", "vm01"]
    assert len(journal.runs(Question(limit=9, name="kvm01"))) == 4
    assert journal.runs(Question(limit=9, name="kvm02")) == ()


def test_a_damaged_file_is_told_once_with_how_to_move_it_away(journal: Journal, told: list[str]) -> None:
    """Nothing is raised while something is changed; who reads it is told too, and the bytes stay as they are."""
    journal.path.parent.mkdir()
    journal.path.write_bytes(b"not a database, but long enough to be looked at\n" * 40)
    before = journal.path.read_bytes()
    journal.end(journal.begin(ENTRY, by=BY, at=AT), at=LATER, outcome="done")
    journal.begin(ENTRY, by=BY, at=AT)
    assert len(told) == 1
    assert journal.problem == told[0]
    assert f"mv {journal.path} {journal.path}.broken" in told[0]
    with pytest.raises(errors.JournalCorrupt, match="damaged"):
        journal.runs(ALL)
    assert journal.path.read_bytes() == before


@pytest.mark.parametrize("column", ["at", "by", "verb", "why", "vm", "steps", "message"])
@pytest.mark.parametrize("value", ["x'ff00'", "CAST(x'ff41' AS TEXT)", "'[1]'", "'{'", "'" + "[" * 3000 + "'"])
def test_a_bad_row_hides_only_itself(journal: Journal, column: str, value: str) -> None:
    for _ in range(3):
        journal.end(journal.begin(ENTRY, by=BY, at=AT), at=LATER, outcome="done")
    with sqlite3.connect(journal.path) as connection:
        connection.execute(f"UPDATE run SET {column} = {value} WHERE id = 2")
    connection.close()
    newest, bad, oldest = journal.runs(ALL)
    assert newest.intent == oldest.intent == ENTRY
    (document,) = json.loads(json.dumps(offline.history(journal.path, [bad])))["runs"]
    assert (document["id"], document["host"]) == (2, ENTRY.host)
    unread = "the steps of this row cannot be read"
    assert (document["steps"], document["message"]) == ([], unread) if column == "steps" else document["steps"]


def test_another_programs_database_is_not_written_to(journal: Journal, told: list[str]) -> None:
    journal.path.parent.mkdir()
    with sqlite3.connect(journal.path) as other:
        other.execute("CREATE TABLE run (id INTEGER)")
    other.close()
    before = journal.path.read_bytes()
    assert journal.begin(ENTRY, by=BY, at=AT) is None
    assert "another program's database" in told[0]
    with pytest.raises(errors.JournalCorrupt, match="another program's"):
        journal.runs(ALL)
    assert journal.path.read_bytes() == before


def test_a_newer_schema_is_left_alone(journal: Journal, told: list[str]) -> None:
    journal.begin(ENTRY, by=BY, at=AT)
    with sqlite3.connect(journal.path) as newer:
        newer.execute("INSERT INTO migration VALUES (?, ?)", (table.SCHEMA.version + 1, AT))
    newer.close()
    assert journal.begin(ENTRY, by=BY, at=AT) is None
    assert "a newer vgpumgr made the journal" in told[0]
    with pytest.raises(errors.NewerSchema):
        journal.runs(ALL)


def test_an_older_schema_is_brought_forward_and_keeps_its_lines(
    journal: Journal, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A later version of this program, played by one migration more, adds to the file that this one made."""
    journal.begin(ENTRY, by=BY, at=AT)
    later = replace(table.SCHEMA, migrations=(*table.SCHEMA.migrations, ("ALTER TABLE run ADD COLUMN note TEXT",)))
    monkeypatch.setattr(table, "SCHEMA", later)
    journal.begin(ENTRY, by=BY, at=AT)
    assert [run.intent for run in journal.runs(ALL)] == [ENTRY, ENTRY]
    with sqlite3.connect(journal.path) as file:
        assert [row[0] for row in file.execute("SELECT version FROM migration")] == [1, 2, 3]
        assert "note" in [row[1] for row in file.execute("PRAGMA table_info(run)")]
    file.close()


def test_the_migrations_make_the_tables_that_the_program_asks(journal: Journal) -> None:
    journal.begin(ENTRY, by=BY, at=AT)
    with closing(sqlite3.connect(journal.path)) as file:
        for name, asked_for in (("run", (*table.RUN, "made")), ("migration", ("version", "at"))):
            made = [row[1] for row in file.execute("SELECT * FROM pragma_table_info(?)", (name,))]
            assert sorted(made) == sorted(asked_for)


def test_nothing_leaves_the_file_open(journal: Journal) -> None:
    """Neither a call that succeeds nor one that fails, even while somebody still holds its error."""
    journal.end(journal.begin(ENTRY, by=BY, at=AT), at=LATER, outcome="done")
    assert (len(journal.runs(ALL)), opened(journal.path)) == (1, [])
    with closing(sqlite3.connect(journal.path)) as file, file:
        file.execute("ALTER TABLE run RENAME COLUMN why TO reason")
    with pytest.raises(StoreError, match="no such column") as held:
        journal.runs(ALL)
    assert (held.value.args != (), opened(journal.path)) == (True, [])


@pytest.mark.usefixtures("impatient")
def test_a_locked_file_is_told_and_no_further_line_waits_for_it(journal: Journal, told: list[str]) -> None:
    journal.begin(ENTRY, by=BY, at=AT)
    holder = sqlite3.connect(journal.path, isolation_level=None)
    holder.execute("BEGIN IMMEDIATE")
    assert journal.begin(ENTRY, by=BY, at=AT) is None
    assert "locked by another process" in told[0]
    assert len(journal.runs(ALL)) == 1, "reading goes on while somebody writes"
    holder.execute("ROLLBACK")
    holder.close()
    assert journal.begin(ENTRY, by=BY, at=AT) is None
    assert len(told) == 1


def test_a_place_that_cannot_be_written_is_told(tmp_path: Path, told: list[str]) -> None:
    """A folder that cannot be made, here below a file, is one line, and the change goes on without a journal."""
    (tmp_path / "file").touch()
    journal = Journal(tmp_path / "file" / "store.sqlite", warn=told.append)
    assert journal.begin(ENTRY, by=BY, at=AT) is None
    assert str(journal.path) in told[0]
    assert "VGPUMGR_STORE" in told[0]


@pytest.mark.skipif(os.geteuid() != 0, reason="takes root")
def test_a_journal_that_is_somebody_elses_is_told_and_not_read(journal: Journal, told: list[str]) -> None:
    journal.begin(ENTRY, by=BY, at=AT)
    os.seteuid(65534)
    try:
        with pytest.raises(StoreError, match=r"store.sqlite cannot be read: Permission denied"):
            journal.runs(ALL)
        assert journal.begin(ENTRY, by=BY, at=AT) is None
    finally:
        os.seteuid(0)
    assert "cannot be written: Permission denied" in told[0]


def test_its_names_are_known_without_the_code_that_writes_it(journal: Journal) -> None:
    journal.begin(ENTRY, by=BY, at=AT)
    journal.begin(replace(ENTRY, vm="vm00", host="kvm02"), by=BY, at=AT)
    program = (
        "import sys; from pathlib import Path; from vgpumgr.store.sql.names import known\n"
        "print(known(Path(sys.argv[1]))); print('vgpumgr.store.sql.file' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", program, journal.path], capture_output=True, text=True, check=True)
    expected = Known(vms=("vm00", "vm01"), hosts=("kvm01", "kvm02"), uuids=(ENTRY.vm_uuid or "",))
    assert done.stdout.splitlines() == [repr(expected), "False"]


@pytest.mark.parametrize("content", [None, b"", b"no database at all" * 99])
def test_nothing_is_known_where_there_is_no_journal(tmp_path: Path, content: bytes | None) -> None:
    path = tmp_path / "store.sqlite"
    if content is not None:
        path.write_bytes(content)
    assert known(path) == Known()
    assert path.exists() == (content is not None)


def test_an_empty_file_becomes_a_journal(journal: Journal) -> None:
    """What `touch` made is nobody's."""
    journal.path.parent.mkdir()
    journal.path.touch()
    assert journal.begin(ENTRY, by=BY, at=AT) == 1
    assert len(journal.runs(ALL)) == 1


HOME = Path("/home/anna")


@pytest.mark.parametrize(
    ("environ", "root", "path"),
    [
        ({"VGPUMGR_STORE": "/x/y.db"}, True, "/x/y.db"),
        ({}, True, "/var/lib/vgpumgr/store.sqlite"),
        ({"XDG_STATE_HOME": "/s"}, True, "/var/lib/vgpumgr/store.sqlite"),
        ({"XDG_STATE_HOME": "/s"}, False, "/s/vgpumgr/store.sqlite"),
        ({"XDG_STATE_HOME": "relative"}, False, "/home/anna/.local/state/vgpumgr/store.sqlite"),
        ({"VGPUMGR_STORE": ""}, False, "/home/anna/.local/state/vgpumgr/store.sqlite"),
    ],
)
def test_where_the_journal_is(environ: dict[str, str], root: bool, path: str) -> None:
    """VGPUMGR_STORE names it; root's is under /var/lib, everybody else's where XDG has state."""
    assert place.store_path(environ, root=root, home=HOME) == Path(path)


@pytest.fixture(autouse=True, scope="module")
def _closed() -> Iterator[None]:
    """A connection that was left open warns when it is collected, and warnings are errors here."""
    import gc

    yield
    gc.collect()


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    folder = tmp_path / "disk"
    folder.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=512k", "tmpfs", str(folder)], check=True)
    try:
        yield folder
    finally:
        subprocess.run(["umount", str(folder)], check=True)


@pytest.mark.lab
def test_a_read_only_disk_can_be_read_and_is_not_written(small_disk: Path, told: list[str]) -> None:
    journal = Journal(small_disk / "store.db", warn=told.append)
    journal.begin(ENTRY, by=BY, at=AT)
    subprocess.run(["mount", "-o", "remount,ro", str(small_disk)], check=True)
    assert len(journal.runs(ALL)) == 1
    assert journal.begin(ENTRY, by=BY, at=AT) is None
    assert "cannot be written" in told[0]


@pytest.mark.lab
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
