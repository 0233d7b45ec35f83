"""While several hosts are changed, a person who watches is told how many of the planned steps are done."""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from tests.model.fleet import Fleet
from tests.model.wiring import Trouble
from vgpumgr.controller.context import Done, Progress, Steps
from vgpumgr.controller.engine.step_count import StepCount
from vgpumgr.controller.requests import RequestsResult
from vgpumgr.controller.results import FleetResult
from vgpumgr.names import DEFAULT_SLOT, HostName

if TYPE_CHECKING:
    from tests.model.pool import Pool

HOSTS = ("kvm01", "kvm02")
VMS = ("1vm01", "1vm02", "2vm01")


@pytest.fixture
def fleet(pool: Pool) -> Fleet:
    return Fleet.install({host: pool.machine(host, "mdev-vf") for host in HOSTS}, dict.fromkeys(HOSTS, 2))


def declared(fleet: Fleet) -> Fleet:
    for vm in VMS:
        fleet.declared[f"kvm0{vm[0]}", vm] = {DEFAULT_SLOT: "4Q"}
    return fleet


def counts(fleet: Fleet) -> list[Steps]:
    """What was told while hosts were changed: it only ever rises."""
    found = [one.steps for one in fleet.watched if one.steps is not None]
    assert all(one.done <= other.done and one.planned == other.planned for one, other in itertools.pairwise(found))
    assert found == sorted(found)
    return found


def test_a_reconcile_counts_the_steps_of_all_hosts_and_a_check_counts_none(fleet: Fleet) -> None:
    declared(fleet).reconcile(check=True)
    assert counts(fleet) == []
    result = fleet.reconcile().result
    assert isinstance(result, FleetResult)
    steps = sum(len(plan.steps) for plan in result.fleet.plans)
    assert counts(fleet)[-1] == (steps, steps)


@pytest.mark.parametrize("profile", ["4Q", None])
def test_attach_and_detach_of_several_vms_do_too_after_they_have_told_of_the_reading(
    fleet: Fleet, profile: str | None
) -> None:
    if profile is None:
        fleet.serve(VMS, DEFAULT_SLOT, "4Q")
    result = fleet.serve(VMS, DEFAULT_SLOT, profile).result
    assert isinstance(result, RequestsResult)
    assert result.fleet is not None
    steps = sum(len(plan.steps) for plan in result.fleet.plans)
    assert steps
    assert counts(fleet)[-1] == (steps, steps)
    assert Progress(ended=2, hosts=2) in fleet.watched


def test_the_steps_of_a_task_that_failed_are_not_done(fleet: Fleet) -> None:
    """kvm01 is lost in its first change: only the other host's steps count."""
    result = declared(fleet).reconcile(trouble=Trouble("kvm01", at=1, inside=True)).result
    assert isinstance(result, FleetResult)
    assert [host for host, _ in result.errors] == ["kvm01"]
    steps = {plan.host: len(plan.steps) for plan in result.fleet.plans}
    assert counts(fleet)[-1] == (steps[HostName("kvm02")], sum(steps.values()))


def test_each_change_is_told_once_when_it_is_made_with_the_steps_so_far(fleet: Fleet) -> None:
    result = declared(fleet).reconcile().result
    assert isinstance(result, FleetResult)
    assert sorted((done.host, done.subject) for done in fleet.done) == [
        ("kvm01", "1vm01 vgpu0"),
        ("kvm01", "1vm02 vgpu0"),
        ("kvm02", "2vm01 vgpu0"),
    ]
    told = [done.steps.done for done in fleet.done]
    assert told == sorted(set(told))
    assert fleet.done[-1].steps == counts(fleet)[-1]


def test_a_host_that_takes_more_steps_than_were_planned_never_makes_it_more_than_all(fleet: Fleet) -> None:
    result = declared(fleet).reconcile(check=True).result
    assert isinstance(result, FleetResult)
    told: list[Progress] = []
    found: list[Done] = []
    plan, _ = result.fleet.plans
    count = StepCount([plan], replace(fleet.context(), reading=told.append, done=found.append))
    for planned in (*plan.tasks, plan.tasks[-1]):
        count.add(plan.host, planned)
        count.progress(Progress(ended=0, hosts=1))
    first, every = len(plan.tasks[0].steps), len(plan.steps)
    assert [one.steps for one in told] == [(first, every), (every, every), (every, every)]
    assert [one.steps for one in found] == [one.steps for one in told]
