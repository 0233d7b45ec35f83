"""Somebody makes a GPU instance between the plan and the vGPU, and the driver, which takes the lowest id, takes that one."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.crash.matrix.listening import listening
from tests.model import promises
from tests.model.fleet import HOSTS, SLOTS, Fleet, vm_uuid
from tests.model.machine import GPUS
from tests.model.pool import POOL
from tests.model.wiring import POINT, HostProgramKilled, Trouble
from vgpumgr.host.protocol.gpu import MDEV_VF, VENDOR_VFIO

if TYPE_CHECKING:
    from tests.model.fleet import Outcome
    from tests.model.machine import Machine

HOST, SLOT = HOSTS[0], SLOTS[0]
VM, PROFILE = "1vm01", "1-5C"
EIGHTH = 19  # the id of 1g.5gb
STALE = 6


@pytest.fixture(params=[MDEV_VF, VENDOR_VFIO])
def fleet(request: pytest.FixtureRequest) -> Fleet:
    return Fleet.install({HOST: POOL.machine(HOST, request.param)}, {HOST: 1}, in_mig=[HOST])


def overtaken(fleet: Fleet, *, killed: bool = False) -> Outcome:
    """An attach that makes an instance, and just then somebody makes one with a lower id.

    `killed`: the host program ends when it has seen that the vGPU is there.
    """
    machine = fleet.machines[HOST]
    trouble = Trouble(host=HOST, at=0, point="nowhere")

    def hear(_host: str, kind: str, of: str) -> None:
        if (kind, of) == (POINT, "made") and not machine.foreign_instances:
            gpu = machine.driver.gpu(GPUS[0])
            (ours,) = gpu.instances
            machine.make_instance(gpu, EIGHTH, 0)
            assert gpu.instances[-1].id < ours.id
        if (kind, of) == (POINT, "elsewhere") and killed:
            for stream in trouble.streams:
                stream.end()
            raise HostProgramKilled

    with listening(hear):
        return fleet.attach(HOST, VM, SLOT, PROFILE, trouble=trouble)


def in_instances(machine: Machine) -> list[int]:
    """The starts of the instances that hold a vGPU, on the first GPU."""
    gpu = machine.driver.gpu(GPUS[0])
    held = {vgpu.gpu_instance for vgpu in gpu.vgpus}
    return [one.start for one in gpu.instances if one.id in held]


def foreign_only(machine: Machine) -> bool:
    return {one.serial for one in machine.driver.gpu(GPUS[0]).instances} == machine.foreign_instances


def test_the_vgpu_is_taken_back_at_once_with_all_else_and_the_command_ends_with_six(fleet: Fleet) -> None:
    machine = fleet.machines[HOST]
    outcome = overtaken(fleet)
    assert outcome.error is not None
    assert (outcome.word, outcome.error.exit_code) == ("StalePlan", STALE)
    assert "it in 1g.5gb at 0" in outcome.error.message
    promises.check_detached(machine, vm_uuid(HOST, VM), SLOT)
    promises.check_always(fleet)
    assert foreign_only(machine)
    assert machine.ledger_instances() == []


def test_the_same_command_again_plans_anew_past_the_foreign_instance(fleet: Fleet) -> None:
    overtaken(fleet)
    assert fleet.attach(HOST, VM, SLOT, PROFILE).word == "done"
    check_on_second(fleet)
    assert foreign_only(fleet.machines[HOST])


def test_after_a_kill_it_is_taken_back_by_the_next_run_and_the_refusal_after_that_has_the_way_out(fleet: Fleet) -> None:
    machine = fleet.machines[HOST]
    overtaken(fleet, killed=True)
    assert in_instances(machine) == [0]
    assert fleet.attach(HOST, VM, SLOT, PROFILE).word == "StalePlan"
    assert in_instances(machine) == []
    promises.check_always(fleet)
    refused = fleet.attach(HOST, VM, SLOT, PROFILE).error
    assert refused is not None
    assert "--replace" in (refused.hint or "")
    assert fleet.attach(HOST, VM, SLOT, PROFILE, replace=True).word == "done"
    check_on_second(fleet)


def check_on_second(fleet: Fleet) -> None:
    """The VM's vGPU is on the other GPU, and on this one is none."""
    machine = fleet.machines[HOST]
    promises.check_attached(machine, vm_uuid(HOST, VM), SLOT, PROFILE)
    assert [entry["gpu"] for entry in machine.ledger()] == [GPUS[1]]
    assert in_instances(machine) == []
    promises.check_always(fleet)
