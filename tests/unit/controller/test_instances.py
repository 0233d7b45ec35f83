"""gc, with the real host program: cached GPU instances of ours go, everything else stays."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.model.fleet import Fleet
from tests.model.machine import GPUS
from tests.model.pool import Pool
from vgpumgr.controller import instances
from vgpumgr.controller.results import ChangeResult
from vgpumgr.core.plan.cached import FreePlan
from vgpumgr.host.protocol import MDEV_VF
from vgpumgr.names import DEFAULT_SLOT

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.model.fleet import Outcome
    from tests.model.machine import Machine

HOST, VM, OTHER = "kvm01", "1vm01", "1vm02"
SMALL = "1-5C"


@pytest.fixture(scope="module")
def pool() -> Iterator[Pool]:
    found = Pool()
    with found:
        yield found


@pytest.fixture
def fleet(pool: Pool) -> Fleet:
    """One vGPU in an instance, a cached instance beside it, and on the other GPU one that somebody else made."""
    fleet = Fleet.install({HOST: pool.machine(HOST, MDEV_VF)}, {HOST: 2}, in_mig=[HOST])
    machine = fleet.machines[HOST]
    machine.make_instance(machine.driver.gpu(GPUS[1]), 0, 0)
    for vm in (VM, OTHER):
        assert fleet.attach(HOST, vm, DEFAULT_SLOT, SMALL).word == "done"
    assert fleet.detach(HOST, OTHER, DEFAULT_SLOT).word == "done"
    return fleet


def made(machine: Machine) -> list[tuple[str, str]]:
    return [(gpu.pci, one.profile.name) for gpu in machine.gpus() for one in gpu.instances]


def test_the_request_names_a_host_and_perhaps_a_gpu() -> None:
    assert instances.GcOptions(on=HOST, gpu_id=GPUS[0]).gpu_id == GPUS[0]


def in_use(outcome: Outcome) -> int:
    assert isinstance(outcome.result, ChangeResult)
    assert isinstance(outcome.result.planned.plan, FreePlan)
    return outcome.result.planned.plan.in_use


def test_the_cached_one_goes_and_a_used_and_a_foreign_one_stay(fleet: Fleet) -> None:
    machine = fleet.machines[HOST]
    before = made(machine)
    assert before == [(GPUS[0], "1g.5gb"), (GPUS[0], "1g.5gb"), (GPUS[1], "7g.40gb")]
    seen = fleet.give_back(HOST, check=True)
    assert (seen.word, in_use(seen), made(machine)) == ("would_change", 1, before)
    assert fleet.give_back(HOST).word == "done"
    assert made(machine) == before[1:]
    assert len(machine.ledger_instances()) == 1
    again = fleet.give_back(HOST)
    assert (again.word, in_use(again)) == ("unchanged", 1)


def test_an_instance_to_which_a_missing_vgpu_comes_back_stays(fleet: Fleet) -> None:
    assert fleet.remove_by_hand(HOST, 0)
    assert fleet.give_back(HOST).word == "done"
    assert made(fleet.machines[HOST]) == [(GPUS[0], "1g.5gb"), (GPUS[1], "7g.40gb")]
    assert fleet.attach(HOST, VM, DEFAULT_SLOT, SMALL).word == "done"
    assert made(fleet.machines[HOST]) == [(GPUS[0], "1g.5gb"), (GPUS[1], "7g.40gb")]
