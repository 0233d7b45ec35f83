"""What the journal knows of what is asked for, and that every use case which places a vGPU weighs it."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import pytest

from tests.model.fleet import HOSTS, SLOTS, Fleet
from tests.unit import stored_shapes
from tests.unit.core import builders
from vgpumgr.controller import lately, partition, report
from vgpumgr.controller.attach import attach
from vgpumgr.controller.defrag import DefragOptions, defrag
from vgpumgr.controller.reconcile import ReconcileOptions, reconcile
from vgpumgr.controller.requests import apply_requests
from vgpumgr.controller.results import Consent
from vgpumgr.controller.together import TogetherOptions, serve_together
from vgpumgr.core.driver.asking import NO_CONDITIONS
from vgpumgr.core.model.attached import History
from vgpumgr.core.report import explained
from vgpumgr.core.report.capacity import Question
from vgpumgr.core.slot.request import SlotRequest
from vgpumgr.errors import StoreError
from vgpumgr.host.protocol.gpu import VENDOR_VFIO
from vgpumgr.store.journal import Journal
from vgpumgr.store.journal_entry import Intent

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path
    from typing import Any

    from tests.model.pool import Pool
    from vgpumgr.controller.context import Context
    from vgpumgr.core.policies.policy import Candidate
    from vgpumgr.core.policies.policy import Fleet as Usual

NOW = "2026-11-29T20:00:00Z"
HOST, OTHER = HOSTS
EIGHT = 8 * 1024  # MiB


@pytest.fixture
def store(tmp_path: Path) -> Path:
    return tmp_path / "store.sqlite"


def record(
    store: Path,
    host: str,
    *names: str,
    on: str = "2026-11-20",
    verb: str = "attach",
    outcome: str = "done",
) -> None:
    """A line of a run that made vGPUs of these types."""
    journal = Journal(store, warn=pytest.fail)
    steps = ({"verb": "put_claim"}, *({"verb": "create_vgpu", "type_name": name} for name in names))
    number = journal.begin(Intent(verb=verb, why="", host=host, steps=steps), by="anna@ctl1", at=f"{on}T12:00:00Z")
    journal.end(number, at=f"{on}T12:00:01Z", outcome=outcome)


def attached(store: Path, weeks: int = 4) -> Mapping[str, Mapping[str, int]]:
    return lately.attached(store, NOW, weeks).by_host


def test_attaches_of_the_last_weeks_that_were_done_count_by_host_and_profile(store: Path) -> None:
    assert attached(store) == {}
    assert not store.exists()
    record(store, "kvm01", "A40-8Q")
    record(store, "kvm01", "A40-8Q", "A40-8Q", "A40-4Q", on="2026-11-21")
    record(store, "kvm02", "A100-2-10C", on="2026-11-28")
    record(store, "kvm02", "odd")
    record(store, "kvm02")
    record(store, "kvm01", "A40-1Q", on="2026-10-20")
    record(store, "kvm01", "A40-1Q", on="2026-11-30")
    record(store, "kvm01", "A40-1Q", outcome="failed")
    record(store, "kvm01", "A40-1Q", verb="reconcile")
    assert attached(store) == {"kvm01": {"8Q": 3, "4Q": 1}, "kvm02": {"2-10C": 1}}
    assert lately.attached(store, "2026-11-20T12:00:00Z", 0) == History()
    assert attached(store, 6)["kvm01"]["1Q"] == 1


def test_a_line_that_never_ended_counts_nothing_and_one_that_was_damaged_hides_no_other(store: Path) -> None:
    record(store, "kvm01", "A40-8Q")
    record(store, "kvm02", "A40-8Q")
    record(store, "kvm03", "A40-8Q")
    with closing(sqlite3.connect(store)) as connection, connection:
        connection.execute("UPDATE run SET outcome = NULL WHERE host = 'kvm02'")
        connection.execute("UPDATE run SET made = CAST(x'ff' AS TEXT) WHERE host = 'kvm03'")
    assert attached(store) == {"kvm01": {"8Q": 1}}


def test_the_lines_are_counted_within_an_index(store: Path) -> None:
    """The table itself has all their steps: 100 MB."""
    record(store, "kvm01", "A40-8Q")
    seen: list[str] = []
    with pytest.MonkeyPatch.context() as patch:
        connect = sqlite3.connect

        def traced(*of: Any, **options: Any) -> sqlite3.Connection:
            connection: sqlite3.Connection = connect(*of, **options)
            connection.set_trace_callback(seen.append)
            return connection

        patch.setattr(sqlite3, "connect", traced)
        attached(store)
    (query,) = (one for one in seen if "made" in one)
    with closing(sqlite3.connect(store)) as connection:
        plan = [row[3] for row in connection.execute(f"EXPLAIN QUERY PLAN {query}")]
    assert len(plan) == 1
    assert "USING COVERING INDEX run_made (verb=? AND outcome=?" in plan[0]


def test_a_journal_of_an_earlier_version_counts_nothing(store: Path) -> None:
    store.write_bytes((stored_shapes.STORED / "journal-1.db").read_bytes())
    assert attached(store, 520) == {}
    record(store, "kvm01", "A40-8Q")
    assert attached(store, 520) == {"kvm01": {"8Q": 1}}


# What places


@dataclass(slots=True)
class Watching:
    """A policy that notes what is usual at a site whenever it is asked."""

    name: str = "watching"
    usual: list[Mapping[int, int]] = field(default_factory=list)

    def order(self, candidates: Sequence[Candidate], fleet: Usual) -> Sequence[Candidate]:
        self.usual.append(fleet.usual)
        return candidates

    def why(self, _candidate: Candidate) -> str:
        return "it is there"


def unasked() -> Consent[Any]:
    return Consent(check=True, show=lambda _planned: None, ask=lambda _planned: None)


def explain(context: Context) -> object:
    asked = explained.Asked(wish=builders.wish("4Q"), conditions=NO_CONDITIONS, gpu_id=None, policy=None)
    return report.look_for_room(context, (), lambda view: explained.of_host(view, asked))


def request() -> SlotRequest:
    return SlotRequest(vm="1vm01", wish=builders.wish("4Q"), slot=SLOTS[0])


PLACING: dict[str, Callable[[Context], object]] = {
    "attach": lambda context: attach(context, request(), unasked()),
    "the collection": lambda context: apply_requests(context, [request()], check=True),
    "several": lambda context: serve_together(context, TogetherOptions(requests=[request()]), unasked()),
    "explain, place, capacity": explain,
    "reconcile": lambda context: reconcile(context, ReconcileOptions(), unasked()),
    "waiting": lambda context: report.waiting_for_room(context, ()),
    "restarts": lambda context: report.waiting_for_restart(context, ()),
    "partition advise": lambda context: partition.advise(context, (), History(), reset=False),
    "partition apply": lambda context: partition.apply(context, (), History(), unasked(), reset=False),
    "defrag": lambda context: defrag(
        context, DefragOptions(question=Question(wish=builders.wish("16Q"), conditions=NO_CONDITIONS)), unasked()
    ),
}


@pytest.fixture
def fleet(pool: Pool) -> Fleet:
    """A VM that waits for room that is there by now."""
    found = Fleet.install({HOST: pool.machine(HOST, VENDOR_VFIO)}, {HOST: 2})
    for slot in SLOTS:
        assert found.attach(HOST, "1vm01", slot, "16Q").word == "done"
    assert found.attach(HOST, "1vm02", SLOTS[0], "4Q", wait=True).word == "done"
    assert found.detach(HOST, "1vm01").word == "done"
    return found


def weighed(fleet: Fleet, store: Path, use: Callable[[Context], object]) -> list[int]:
    """How often 8 GiB are asked for, by the policy of the host, each time that it is asked."""
    policy, context = Watching(), fleet.context()
    inventory = context.inventory
    hosts = {name: replace(one, policy=policy) for name, one in inventory.hosts.items()}
    use(replace(context, inventory=replace(inventory, hosts=hosts), store=store, now=lambda: NOW))
    return [one[EIGHT] for one in policy.usual]


@pytest.mark.parametrize("name", PLACING)
def test_who_places_weighs_what_was_attached_before_today(fleet: Fleet, store: Path, name: str) -> None:
    for _ in range(7):
        record(store, OTHER, "L40S-8Q")
    record(store, OTHER, "L40S-8Q", on=NOW[:10])
    if name == "defrag":  # what it moves is placed
        fleet.detach(HOST, "1vm02", SLOTS[0])
        for vm, gpu in (("1vm01", "0000:41:00.0"), ("1vm02", "0000:81:00.0")):
            attach(fleet.context(), replace(request(), vm=vm, gpu_id=gpu), replace(unasked(), check=False))
    assert set(weighed(fleet, store, PLACING[name])) == {1 + 7}


@pytest.mark.parametrize("broken", [False, True])
def test_where_the_journal_is_missing_or_cannot_be_read_the_vgpu_is_placed_all_the_same(
    fleet: Fleet, store: Path, *, broken: bool
) -> None:
    if broken:
        store.write_text("no database")
        with pytest.raises(StoreError):
            attached(store)
    assert set(weighed(fleet, store, PLACING["attach"])) == {1}


def test_what_is_declared_comes_before_the_journal(fleet: Fleet, store: Path) -> None:
    record(store, HOST, "L40S-8Q")
    fleet.declared[HOST, "1vm02"] = {SLOTS[1]: "16Q"}
    assert set(weighed(fleet, store, PLACING["attach"])) == {1}


def test_one_command_reads_the_journal_once(fleet: Fleet, store: Path) -> None:
    context = lately.with_history(replace(fleet.context(), store=store))
    record(store, HOST, "L40S-8Q")
    assert lately.with_history(context) is context
