"""A plan that was kept is carried out as it is, or not at all."""

from __future__ import annotations

import dataclasses
import json
from typing import TYPE_CHECKING, Any

import pytest

from tests.model import promises
from tests.model.fleet import Fleet
from tests.model.machine import GPUS
from vgpumgr import errors
from vgpumgr.cli.params import plan_files
from vgpumgr.controller.attach import attach
from vgpumgr.controller.reconcile import ReconcileOptions, reconcile
from vgpumgr.controller.results import Consent
from vgpumgr.core.driver.profiles import ByProfile, parse_profile
from vgpumgr.core.slot.kept import KeptPlan
from vgpumgr.core.slot.request import Replace, SlotRequest
from vgpumgr.names import DEFAULT_SLOT
from vgpumgr.store.only_one import only_one

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.model.pool import Pool
    from vgpumgr.controller.results import ChangeResult, FleetPlan, FleetResult
    from vgpumgr.core.slot.plan import Plan

HOST, VM = "kvm01", "1vm01"


@pytest.fixture
def fleet(pool: Pool) -> Fleet:
    return Fleet.install({HOST: pool.machine(HOST, "vendor-vfio")}, {HOST: 2})


def attached(
    fleet: Fleet, profile: str = "4Q", *, check: bool = False, kept: KeptPlan | None = None
) -> ChangeResult[Plan]:
    for machine in fleet.machines.values():
        machine.libvirt.remember()
    request = SlotRequest(vm=VM, wish=ByProfile(profile=parse_profile(profile)), replace=Replace.NEVER, on=HOST)
    consent: Consent[Any] = Consent(check=check, show=lambda _: None, ask=lambda _: None, kept=kept)
    return attach(fleet.context(None, [], by="anna@ctl1"), request, consent)


def kept_attach(fleet: Fleet) -> KeptPlan:
    planned = attached(fleet, check=True).planned
    steps = tuple(step.record() for step in planned.plan.steps)
    return KeptPlan(where="p.json", fingerprint=planned.fingerprint, steps=steps, hosts=(HOST,))


def reconciled(
    fleet: Fleet,
    *,
    check: bool = False,
    kept: KeptPlan | None = None,
    ask: Callable[[], None] = lambda: None,
    store: Path | None = None,
) -> FleetResult:
    for machine in fleet.machines.values():
        machine.libvirt.remember()
    consent: Consent[FleetPlan] = Consent(check=check, show=lambda _: ask(), ask=lambda _: None, kept=kept)
    context = dataclasses.replace(fleet.context(None, [], by="anna@ctl1"), store=store)
    return reconcile(context, ReconcileOptions(), consent)


def kept_fleet(fleet: Fleet) -> KeptPlan:
    plan = reconciled(fleet, check=True).fleet
    return KeptPlan(where="p.json", fingerprint=plan.fingerprint, steps=plan.records, hosts=(HOST,))


def test_where_nothing_has_moved_the_kept_plan_is_carried_out_and_not_a_second_time(fleet: Fleet) -> None:
    """The first time moved what it read."""
    kept = kept_attach(fleet)
    assert attached(fleet, kept=kept).outcome == errors.Outcome.DONE
    with pytest.raises(errors.PlanOutdated):
        attached(fleet, kept=kept)


def test_where_what_it_read_has_moved_nothing_is_done_and_the_difference_is_told(fleet: Fleet) -> None:
    kept = kept_attach(fleet)
    assert fleet.make_by_hand(HOST, 0, 0, -1)
    before = promises.truth(fleet.machines[HOST])
    with pytest.raises(errors.PlanOutdated, match="what this plan read has changed since") as raised:
        attached(fleet, kept=kept)
    assert raised.value.exit_code == 5
    assert promises.truth(fleet.machines[HOST]) == before


def test_another_wish_than_the_kept_plans_is_refused(fleet: Fleet) -> None:
    kept = kept_attach(fleet)
    with pytest.raises(errors.PlanOutdated, match="the plan made now is different") as raised:
        attached(fleet, "8Q", kept=kept)
    assert any(line.startswith("no longer to do: create_vgpu") for line in raised.value.details)


def test_reconcile_carries_out_a_kept_plan_and_refuses_an_outdated_one(fleet: Fleet) -> None:
    fleet.declared[HOST, VM] = {DEFAULT_SLOT: "4Q"}
    kept = kept_fleet(fleet)
    assert reconciled(fleet, kept=kept).outcomes == ("done",)
    with pytest.raises(errors.PlanOutdated):
        reconciled(fleet, kept=kept)


def test_what_moves_between_the_plan_and_the_hosts_lock_leaves_that_host_alone(fleet: Fleet) -> None:
    fleet.declared[HOST, VM] = {DEFAULT_SLOT: "4Q"}
    kept = kept_fleet(fleet)

    def somebody_else() -> None:
        assert fleet.make_by_hand(HOST, len(GPUS) - 1, 0, 0)

    result = reconciled(fleet, kept=kept, ask=somebody_else)
    assert [type(error) for _, error in result.errors] == [errors.PlanOutdated]
    assert fleet.machines[HOST].ledger() == []


def test_two_reconciles_of_one_controller_are_kept_apart_and_a_check_waits_for_nobody(
    fleet: Fleet, tmp_path: Path
) -> None:
    store = tmp_path / "store.sqlite"
    with only_one(store, "bert@ctl1"):
        with pytest.raises(errors.AlreadyRunning, match="bert@ctl1"):
            reconciled(fleet, store=store)
        assert reconciled(fleet, check=True, store=store).outcomes == ("unchanged",)


def test_a_kept_plan_comes_back_as_it_was(tmp_path: Path) -> None:
    step = {"verb": "create_vgpu", "host": "kvm01", "vm": "vm01", "slot": "vgpu0"}
    document = {
        "schema": "vgpumgr.plan/1",
        "fingerprint": "sha256:1",
        "plan": [step],
        "errors": [{"host": "kvm02", "message": "tcp: no answer"}],
        "result": {"hosts": [{"name": "kvm01"}]},
    }
    path = str(tmp_path / "p.json")
    plan_files.write(path, document)
    assert plan_files.read(path) == KeptPlan(
        where=path, fingerprint="sha256:1", steps=(step,), hosts=("kvm01", "kvm02")
    )
    assert plan_files.read(None) is None


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (None, "cannot be read: No such file"),
        ("{", "is not a plan"),
        ("[" * 100_000, "is not a plan"),
        ("[]", "is not a plan"),
        (json.dumps({"schema": "vgpumgr.change/1"}), "is 'vgpumgr.change/1', and not a plan"),
        (json.dumps({"schema": "vgpumgr.plan/1", "plan": []}), "is not a plan"),
        (
            json.dumps({"schema": "vgpumgr.plan/1", "fingerprint": "x", "plan": [1], "result": {"host": "h"}}),
            "is not a plan",
        ),
    ],
)
def test_what_is_no_kept_plan_is_refused_by_name(tmp_path: Path, text: str | None, told: str) -> None:
    path = tmp_path / "p.json"
    if text is not None:
        path.write_text(text)
    with pytest.raises(errors.UsageError, match=told):
        plan_files.read(str(path))
