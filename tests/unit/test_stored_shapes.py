"""A file of each stored shape, kept as it was written: what is there today is read, and a new number brings a new file."""

from __future__ import annotations

import json
import shutil
import xml.etree.ElementTree as ET
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from tests.unit import stored_shapes as stored
from tests.unit.store.samples_of import PCI, SECOND, T0
from vgpumgr.core.model import claims
from vgpumgr.core.model.mig import MigPlace
from vgpumgr.core.model.vgpu import Mdev, Vf
from vgpumgr.core.usage.readings import VgpuKey
from vgpumgr.core.usage.runs import NO_RUNS, LastRuns
from vgpumgr.core.usage.usage_window import window
from vgpumgr.host.ledger.ledger import facts_of, parse_ledger
from vgpumgr.host.protocol.ledger import (
    LEDGER_VERSION,
    LEDGER_VERSION_WITHOUT_CORDONED_VFS,
    LEDGER_VERSION_WITHOUT_CORDONS,
    LEDGER_VERSION_WITHOUT_INSTANCES,
    LEDGER_VERSION_WITHOUT_LAZIES,
    LEDGER_VERSION_WITHOUT_RESERVATIONS,
    LedgerEntry,
)
from vgpumgr.link.values.snapshot_facts import parse_entry
from vgpumgr.names import HostName
from vgpumgr.store.journal import Journal
from vgpumgr.store.journal_entry import Question
from vgpumgr.store.sql import runs
from vgpumgr.store.sql.samples import Samples

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize(
    ("path", "version", "cordons", "instances", "reservations"),
    [
        (
            stored.LEDGER,
            LEDGER_VERSION,
            (stored.CORDON, stored.VF_CORDON),
            (stored.INSTANCE,),
            (stored.RESERVATION,),
        ),
        (
            stored.LEDGER_WITHOUT_LAZIES,
            LEDGER_VERSION_WITHOUT_LAZIES,
            (stored.CORDON, stored.VF_CORDON),
            (stored.INSTANCE,),
            (stored.RESERVATION,),
        ),
        (
            stored.LEDGER_WITHOUT_CORDONED_VFS,
            LEDGER_VERSION_WITHOUT_CORDONED_VFS,
            (stored.CORDON,),
            (stored.INSTANCE,),
            (stored.RESERVATION,),
        ),
        (
            stored.LEDGER_WITHOUT_RESERVATIONS,
            LEDGER_VERSION_WITHOUT_RESERVATIONS,
            (stored.CORDON,),
            (stored.INSTANCE,),
            (),
        ),
        (stored.LEDGER_WITHOUT_INSTANCES, LEDGER_VERSION_WITHOUT_INSTANCES, (stored.CORDON,), (), ()),
        (stored.LEDGER_WITHOUT_CORDONS, LEDGER_VERSION_WITHOUT_CORDONS, (), (), ()),
    ],
)
def test_the_ledger_is_read_whole_and_its_entries_name_an_mdev_and_a_vf(
    path: Path,
    version: int,
    cordons: tuple[dict[str, Any], ...],
    instances: tuple[dict[str, Any], ...],
    reservations: tuple[dict[str, Any], ...],
) -> None:
    """A ledger without lazy vGPUs, cordons of functions, reservations, instances or cordons keeps the number from before them: the programs that know none go on with it."""
    ledger = parse_ledger(path.read_bytes())
    assert ledger.document["version"] == version
    assert (ledger.cordons, ledger.instances, ledger.reservations) == (cordons, instances, reservations)
    lazies = [stored.LAZY_ENTRY] if version == LEDGER_VERSION else []
    entries = (*stored.ENTRIES, *([stored.MIG_ENTRY] if instances else []), *lazies)
    assert (ledger.entries, ledger.blocked_writes, ledger.freed) == (entries, (stored.BLOCKED_WRITE,), (stored.FREED,))
    mdev, vf, *others = (parse_entry(fact) for fact in facts_of(ledger.entries, LedgerEntry))
    assert [entry.vgpu.slot for entry in others if entry.lazy] == [row["slot"] for row in lazies]
    in_instance = [entry for entry in others if not entry.lazy]
    assert [entry.vgpu.mig for entry in in_instance] == [MigPlace(profile="2g.10gb", profile_id=14, start=2)] * len(
        instances
    )
    assert (mdev.vgpu.device, mdev.state) == (Mdev(stored.ENTRIES[0]["uuid"]), "made")
    assert (vf.vgpu.device, vf.state) == (Vf(stored.ENTRIES[1]["parent"]), "leaving")


def test_the_claims_are_read_whole() -> None:
    domain = ET.fromstring(f"<domain><metadata>{stored.CLAIM.read_text()}</metadata></domain>")
    assert claims.read(domain) == stored.CLAIMS


@pytest.mark.parametrize("file", [stored.JOURNAL, stored.STORED / "journal-1.db"])
def test_the_journal_is_read_whole(tmp_path: Path, file: Path) -> None:
    shutil.copyfile(file, tmp_path / "store.db")
    (run,) = Journal(tmp_path / "store.db", warn=pytest.fail).runs(Question(limit=9))
    assert (run.intent, run.by, run.at) == (stored.ENTRY, stored.BY, stored.AT)
    assert (run.ended_at, run.outcome) == (stored.ENDED_AT, "done")


def test_the_samples_are_read_whole(tmp_path: Path) -> None:
    shutil.copyfile(stored.SAMPLES, tmp_path / "samples.db")
    samples = Samples(tmp_path / "samples.db")
    (host,) = samples.latest()
    assert host.last == stored.ROUND
    assert samples.every_s() == 10
    measured = {series.key: series.total().observed_us for series in samples.usage(window(T0, T0 + 60 * SECOND))}
    assert measured[VgpuKey(HostName("kvm01"), PCI, "vm1", "vgpu0")] == 10 * SECOND


def test_what_runs_left_is_read_whole_and_a_file_from_before_it_has_none_until_one_is_stored(tmp_path: Path) -> None:
    shutil.copyfile(stored.SAMPLES, tmp_path / "samples.db")
    assert runs.last(tmp_path / "samples.db") == LastRuns(runs=(stored.RUN,), hosts=stored.PLANNED)
    shutil.copyfile(stored.STORED / "samples-5.db", tmp_path / "samples-5.db")
    assert runs.last(tmp_path / "samples-5.db").hosts[0] == replace(stored.PLANNED[0], fits={}, owners={})
    old = tmp_path / "old.db"
    shutil.copyfile(stored.STORED / "samples-1.db", old)
    assert runs.last(old) == NO_RUNS
    runs.put(old, stored.RUN, stored.PLANNED, fleet=None)
    assert runs.last(old) == LastRuns(runs=(stored.RUN,), hosts=stored.PLANNED)
    (host,) = Samples(old).latest()
    assert host.last == stored.ROUND


def test_what_the_product_writes_today_is_what_is_kept(tmp_path: Path) -> None:
    """A new version of a stored shape: `python -m tests.unit.stored_shapes` writes its file."""
    assert stored.JOURNAL.is_file()
    assert stored.SAMPLES.is_file()
    stored.write(tmp_path)
    for ledger in stored.LEDGERS:
        assert json.loads((tmp_path / ledger.name).read_text()) == json.loads(ledger.read_text())
    assert (tmp_path / stored.CLAIM.name).read_text() == stored.CLAIM.read_text()
