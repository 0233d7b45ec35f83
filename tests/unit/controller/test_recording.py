"""What is kept of a plan or reconcile for `export`: drift, what waits and what was refused, host by host."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.model.fleet import Fleet
from tests.model.wiring import Trouble
from vgpumgr import errors
from vgpumgr.controller.recording import Recording
from vgpumgr.controller.results import FleetResult
from vgpumgr.core.usage.runs import NO_RUNS, LastRuns
from vgpumgr.names import DEFAULT_SLOT
from vgpumgr.store.sql import runs

if TYPE_CHECKING:
    from pathlib import Path

    from tests.model.pool import Pool
    from vgpumgr.core.usage.runs import Kind


@pytest.fixture(autouse=True)
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("VGPUMGR_STORE", str(tmp_path / "store.sqlite"))
    return tmp_path / "samples.db"


def kept(fleet: Fleet, kind: Kind, store: Path, *, trouble: Trouble | None = None) -> LastRuns:
    with Recording(kind, whole=True).begun() as recording:
        result = fleet.reconcile(check=kind == "plan", trouble=trouble, confirms=True, record=True).result
    assert isinstance(result, FleetResult)
    assert recording.keep(result) is None
    return runs.last(store)


def test_drift_is_counted_by_a_plan_and_gone_after_a_reconcile_and_what_waits_is_counted_apart(
    pool: Pool, store: Path
) -> None:
    fleet = Fleet.install(
        {name: pool.machine(name, "mdev-vf") for name in ("kvm01", "kvm02")}, {"kvm01": 2, "kvm02": 1}
    )
    for vm in fleet.vms("kvm01"):
        fleet.declared["kvm01", vm.name] = {DEFAULT_SLOT: "4Q"}
    found = kept(fleet, "plan", store)
    assert [(run.kind, run.exit_code) for run in found.runs] == [("plan", 3)]
    assert [(host.host, host.reached, host.drift) for host in found.hosts] == [("kvm01", True, 2), ("kvm02", True, 0)]

    found = kept(fleet, "reconcile", store)
    assert [(run.kind, run.exit_code) for run in found.runs] == [("plan", 3), ("reconcile", 0)]
    assert [host.drift for host in found.hosts] == [0, 0]

    running, _ = fleet.vms("kvm01")
    assert fleet.start("kvm01", running)
    del fleet.declared["kvm01", running.name]
    fleet.declared["kvm01", "nosuch"] = {DEFAULT_SLOT: "4Q"}
    found = kept(fleet, "reconcile", store, trouble=Trouble("kvm02", at=0))
    first, second = found.hosts
    assert (first.drift, first.waiting, first.refused) == (1, 1, {"DeclaredVmUnknown": 1})
    assert (second.host, second.reached, second.drift) == ("kvm02", False, 0)
    assert found.runs[-1].exit_code == 4


def test_slots_that_wait_for_room_are_counted_by_what_they_ask_for(pool: Pool, store: Path) -> None:
    fleet = Fleet.install({"kvm01": pool.machine("kvm01", "mdev-vf")}, {"kvm01": 4})
    for vm in fleet.vms("kvm01"):
        fleet.declared["kvm01", vm.name] = {DEFAULT_SLOT: "16Q"}
    (before,) = kept(fleet, "plan", store).hosts
    (after,) = kept(fleet, "reconcile", store).hosts
    assert [one.without_room for one in (before, after)] == [{"--profile 16Q": 2}] * 2
    assert before.fits == after.fits == dict.fromkeys(("A40-4Q", "A40-8C", "A40-8Q", "A40-16Q"), 0)
    assert after.refused == {"NoCapacity": 2}


def test_an_inventory_that_cannot_be_read_counts_as_a_run_and_a_second_run_at_once_does_not(store: Path) -> None:
    with pytest.raises(errors.InventoryError), Recording("reconcile", whole=True).begun():
        raise errors.InventoryError("hosts.yml has 1 problem")
    (run,) = runs.last(store).runs
    assert (run.kind, run.exit_code) == ("reconcile", 2)
    with pytest.raises(errors.AlreadyRunning), Recording("reconcile", whole=True).begun():
        raise errors.AlreadyRunning("another run is under way")
    assert runs.last(store).runs == (run,)


def test_a_plan_that_is_not_to_be_recorded_writes_nothing(pool: Pool, store: Path) -> None:
    fleet = Fleet.install({"kvm01": pool.machine("kvm01", "mdev-vf")}, {"kvm01": 1})
    result = fleet.reconcile(check=True).result
    assert isinstance(result, FleetResult)
    with Recording(None, whole=True).begun() as recording:
        assert recording.keep(result) is None
    assert runs.last(store) == NO_RUNS
    assert not store.exists()


def test_a_store_that_cannot_be_written_costs_the_metrics_alone(pool: Pool, store: Path) -> None:
    fleet = Fleet.install({"kvm01": pool.machine("kvm01", "mdev-vf")}, {"kvm01": 1})
    result = fleet.reconcile(check=True).result
    assert isinstance(result, FleetResult)
    store.write_bytes(b"somebody else's file" * 100)
    said = Recording("plan", whole=True).keep(result)
    assert said is not None
    assert said.startswith("this run is not in the metrics: ")
