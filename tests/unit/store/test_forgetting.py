"""What the controller's files say of a VM, host or run: replaced by the next one, told, removed, and of nobody else."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from tests.unit.store.samples_of import SECOND, T0, load, measured_round, vgpu
from vgpumgr import errors
from vgpumgr.core.usage.runs import NO_RUNS, LastRun, PlannedHost
from vgpumgr.store import place
from vgpumgr.store.journal import Journal
from vgpumgr.store.journal_entry import Intent, Question
from vgpumgr.store.sql import file, forgetting, runs
from vgpumgr.store.sql.sample_tables import SCHEMA
from vgpumgr.store.sql.samples import Samples

if TYPE_CHECKING:
    from pathlib import Path

    from vgpumgr.core.usage.readings import Load
    from vgpumgr.store.sql.forgetting import Kind


UUID = "11111111-0000-4000-8000-000000000001"


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """Two VMs on two hosts, in the journal and in the samples."""
    path = tmp_path / "store.sqlite"
    journal = Journal(path, warn=pytest.fail)
    for vm, host in (("vm01", "kvm01"), ("vm02", "kvm02")):
        uuid = UUID if vm == "vm01" else None
        number = journal.begin(
            Intent(verb="attach", why="requested", host=host, vm=vm, vm_uuid=uuid),
            by="a@ctl1",
            at="2026-11-23T16:00:00Z",
        )
        assert number is not None
    with file.transaction(place.samples_beside(path), SCHEMA) as connection:
        for number, (vm, host, uuid) in enumerate((("vm01", "kvm01", UUID), ("vm02", "kvm02", None)), 1):
            connection.execute(
                "INSERT INTO series VALUES (?, ?, 'g', ?, 'vgpu0', ?, 'A40-4Q', 'ours', 1, 1, 0, 0, 0, 0)",
                (number, host, vm, uuid),
            )
            connection.execute(
                "INSERT INTO bucket VALUES (?, ?, 1, 1, 1, 0, x'', 1, 0, x'', 1, 0, x'', 1, 0, x'', 1, 0, NULL, NULL, NULL, 1)",
                (number, number),
            )
            connection.execute("INSERT INTO host VALUES (?, 1.0, '{}', '{}')", (host,))
            connection.execute("INSERT INTO host_run VALUES (?, '{}')", (host,))
    return path


def known(store: Path, kind: Kind, name: str) -> dict[str, int]:
    return {one.what: one.rows for one in forgetting.traces(store, place.samples_beside(store), kind, name)}


OF_VM = {"runs in the history": 1, "measured quarters of an hour": 1, "series of measures": 1}
OF_HOST = OF_VM | {"last readings": 1, "states after a plan or reconcile": 1}


@pytest.mark.parametrize(
    ("kind", "name", "there"), [("vm", "vm01", OF_VM), ("vm", UUID, OF_VM), ("host", "kvm01", OF_HOST)]
)
def test_what_is_told_is_removed_and_nobody_elses(store: Path, kind: Kind, name: str, there: dict[str, int]) -> None:
    others = known(store, "host", "kvm02")
    assert known(store, kind, name) == there
    gone = forgetting.forget(store, place.samples_beside(store), kind, name)
    assert {one.what: one.rows for one in gone} == there
    assert known(store, kind, name) == {}
    assert known(store, "host", "kvm02") == others == OF_HOST
    assert [entry.intent.vm for entry in Journal(store, warn=pytest.fail).runs(Question(limit=9))] == ["vm02"]


def test_neither_a_round_nor_a_run_nor_what_was_off_names_a_vm_that_is_forgotten(tmp_path: Path) -> None:
    """By its name or UUID, whether it was ever measured; the round stays as it was of all others."""
    store = tmp_path / "store.sqlite"
    samples = Samples(place.samples_beside(store))
    loads: dict[str | None, Load | None] = {
        "vm01": load(50),
        "vm02": load(20),
        "vm03": None,
        "vm04": None,
        "vm05": None,
    }
    samples.add([measured_round(loads, since_us=T0, until_us=T0 + SECOND)], every_s=60)
    owned = PlannedHost(host="kvm01", at=1, reached=True, owners={vm: "team-a" for vm in loads if vm})
    runs.put(samples.path, None, [owned], fleet=None)
    forgotten = ["vm01", vgpu("vm03", None, at_us=None).vm_uuid, "vm05"]
    for name in forgotten:
        assert name is not None
        assert known(store, "vm", name)["last readings of a host"] == 1
        gone = forgetting.forget(store, samples.path, "vm", name)
        assert ("vGPUs that were off" in {one.what for one in gone}) == (name != "vm01")
        assert known(store, "vm", name) == {}
    with file.reading(samples.path, SCHEMA) as connection:
        assert connection is not None
        stored = "".join(connection.iterdump())
    assert [vm for vm in loads if re.search(rf"\b{vm}\b", stored)] == ["vm02", "vm04"]
    assert [*runs.last(samples.path).hosts[0].owners] == ["vm02", "vm04"]
    (host,) = samples.latest()
    assert host.last.reading is not None
    assert [one.vm for one in host.last.reading.gpus[0].vgpus] == ["vm02", "vm04"]
    assert [one.vgpu.vm for one in host.last.measured] == ["vm02"]
    assert [key.vm for key in host.off] == ["vm04"]


def test_where_there_is_no_file_none_is_made(tmp_path: Path) -> None:
    store = tmp_path / "store.sqlite"
    assert known(store, "vm", "vm01") == {}
    assert forgetting.forget(store, place.samples_beside(store), "vm", "vm01") == ()
    assert [*tmp_path.iterdir()] == []


def host(name: str, at: float, drift: int = 0) -> PlannedHost:
    return PlannedHost(host=name, at=at, reached=True, drift=drift, refused={"NoCapacity": drift} if drift else {})


def test_a_run_over_some_hosts_renews_those_and_one_over_all_forgets_who_left(tmp_path: Path) -> None:
    path = tmp_path / "samples.db"
    assert runs.last(path) == NO_RUNS
    assert not path.exists()
    first = LastRun(kind="reconcile", at=1.0, seconds=2.0, exit_code=5)
    runs.put(path, first, [host("kvm01", 1, 3), host("kvm02", 1)], fleet={"kvm01", "kvm02"})
    runs.put(path, None, [host("kvm01", 2)], fleet=None)
    assert runs.last(path).runs == (first,)
    assert runs.last(path).hosts == (host("kvm01", 2), host("kvm02", 1))
    second = LastRun(kind="reconcile", at=3.0, seconds=1.0, exit_code=0)
    planned = LastRun(kind="plan", at=4.0, seconds=1.0, exit_code=3)
    runs.put(path, second, [host("kvm02", 3)], fleet={"kvm02"})
    runs.put(path, planned, [], fleet=None)
    assert runs.last(path).runs == (planned, second)
    assert runs.last(path).hosts == (host("kvm02", 3),)


def test_a_file_that_is_not_ours_is_an_error_and_no_end_of_a_run(tmp_path: Path) -> None:
    path = tmp_path / "samples.db"
    path.write_bytes(b"not a database, but long enough to look at" * 40)
    with pytest.raises(errors.SamplesCorrupt):
        runs.last(path)
    with pytest.raises(errors.StoreError):
        runs.put(path, None, [host("kvm01", 1)], fleet=None)
