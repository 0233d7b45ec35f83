"""A step that the host refuses as changed: exit 6 where another try may end otherwise, 5 where it cannot."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import pytest

from tests.model import promises
from tests.model.fleet import Fleet
from tests.model.wiring import Trouble
from vgpumgr import errors
from vgpumgr.controller.engine.stale import judged
from vgpumgr.controller.results import FleetResult
from vgpumgr.host.protocol import MDEV_VF
from vgpumgr.host.steps import steps
from vgpumgr.host.steps.hardware import changed
from vgpumgr.names import DEFAULT_SLOT

if TYPE_CHECKING:
    from tests.model.pool import Pool
    from vgpumgr.core.plan.step import Step

HOST, VM = "kvm01", "1vm01"


def fleet_of(pool: Pool) -> Fleet:
    return Fleet.install({HOST: pool.machine(HOST, MDEV_VF)}, {HOST: 2})


def refuse(*_: object) -> None:
    """The host program finds a GPU that the facts do not show so: as where /proc has no UUID and NVML has."""
    raise changed("GPU-9f at 0000:41:00.0", "a GPU whose UUID cannot be read")


def test_what_is_refused_although_the_facts_are_as_they_were_is_no_matter_of_another_try(
    pool: Pool, monkeypatch: pytest.MonkeyPatch
) -> None:
    fleet = fleet_of(pool)
    before = promises.truth(fleet.machines[HOST])
    monkeypatch.setattr(steps, "check_place", refuse)
    error = fleet.attach(HOST, VM, DEFAULT_SLOT, "4Q").error
    assert isinstance(error, errors.Unsure)
    assert error.exit_code == 5
    assert "a GPU whose UUID cannot be read; nothing has changed on the host since" in error.message
    assert promises.truth(fleet.machines[HOST]) == before


def test_reconcile_says_so_of_that_vm(pool: Pool, monkeypatch: pytest.MonkeyPatch) -> None:
    fleet = fleet_of(pool)
    fleet.declared[HOST, VM] = {DEFAULT_SLOT: "4Q"}
    monkeypatch.setattr(steps, "check_place", refuse)
    result = fleet.reconcile().result
    assert isinstance(result, FleetResult)
    (task_result,) = result.hosts[0].tasks
    assert isinstance(task_result.error, errors.Unsure)


@pytest.mark.parametrize("second", [errors.Unsure("kvm01: odd"), RuntimeError("can't start new thread")])
def test_whatever_goes_wrong_with_the_second_look_the_first_error_stands(second: Exception) -> None:
    def look() -> tuple[Step, ...]:
        raise second

    error = errors.StalePlan("kvm01: changed")
    assert judged(error, HOST, (), look) is error


def test_what_somebody_changed_meanwhile_is_for_another_try(pool: Pool) -> None:
    """A hand in /sys takes the place in the middle of the attach."""
    seen = []
    for at in range(16):
        fleet = fleet_of(pool)
        trouble = Trouble(HOST, at=at, inside=True, act=partial(take_the_place, fleet))
        error = fleet.attach(HOST, VM, DEFAULT_SLOT, "4Q", trouble=trouble).error
        if error is not None:
            seen.append(type(error))
            assert error.exit_code == 6
            assert fleet.attach(HOST, VM, DEFAULT_SLOT, fleet_profile(fleet)).error is None
    assert errors.StalePlan in seen


def take_the_place(fleet: Fleet) -> None:
    fleet.make_by_hand(HOST, 0, 0, 0)


def fleet_profile(fleet: Fleet) -> str:
    """A profile of the size that the first GPU holds, so that either takes it."""
    (vgpu, *_) = fleet.machines[HOST].hardware().values()
    return vgpu.type.name.rpartition("-")[2]
