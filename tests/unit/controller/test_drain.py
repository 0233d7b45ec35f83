"""drain, with the real host program: what runs is never touched, what is idle is out of the way, and the rest is said."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.model import promises
from tests.model.fleet import SLOTS, Fleet, vm_uuid
from tests.model.machine import GPUS, TYPES
from vgpumgr import errors
from vgpumgr.controller.drain import DrainOptions
from vgpumgr.controller.results import DrainResult
from vgpumgr.host.protocol import MDEV_VF, VENDOR_VFIO

if TYPE_CHECKING:
    from tests.model.fleet import Outcome
    from tests.model.pool import Pool

HOST, VM, OTHER, SLOT = "kvm01", "1vm01", "1vm02", SLOTS[0]
FIRST, SECOND = GPUS


@pytest.fixture(params=[MDEV_VF, VENDOR_VFIO])
def fleet(pool: Pool, request: pytest.FixtureRequest) -> Fleet:
    """Two VMs, each with a 4Q on a GPU of its own."""
    found = Fleet.install({HOST: pool.machine(HOST, request.param)}, {HOST: 2})
    for vm in (VM, OTHER):
        assert found.attach(HOST, vm, SLOT, "4Q").word == "done"
    return found


def options(gpu: str | None = None, *, wait_s: float = 0) -> DrainOptions:
    return DrainOptions(host=HOST, gpu_id=gpu, reason="new PSU", wait_s=wait_s)


def result(end: Outcome) -> DrainResult:
    assert end.error is None
    assert isinstance(end.result, DrainResult)
    return end.result


def start(fleet: Fleet, vm: str) -> None:
    assert fleet.start(HOST, fleet.machines[HOST].libvirt.vms[vm_uuid(HOST, vm)])


def stop(fleet: Fleet, vm: str) -> None:
    fleet.stop(HOST, fleet.machines[HOST].libvirt.vms[vm_uuid(HOST, vm)])


def next_of(found: DrainResult) -> dict[str | None, str]:
    return {row.vm: row.next for row in found.rows}


def test_a_host_is_free_where_nothing_runs_and_its_idle_vgpus_stay(fleet: Fleet) -> None:
    before = fleet.machines[HOST].ledger()
    assert fleet.drain(options(), check=True).word == "would_change"
    found = result(fleet.drain(options()))
    assert (found.outcome, found.error, next_of(found)) == ("done", None, {VM: "stays", OTHER: "stays"})
    assert fleet.machines[HOST].ledger() == before
    assert fleet.drain(options()).word == "unchanged"
    assert type(fleet.attach(HOST, VM, SLOTS[1], "4Q").error) is errors.Cordoned


def test_what_runs_is_named_and_waited_for(fleet: Fleet) -> None:
    start(fleet, VM)
    foretold = result(fleet.drain(options(), check=True)).error
    assert isinstance(foretold, errors.NotDrained)
    assert foretold.message == f"{HOST} would be cordoned, but not free: 1 of 2 vGPUs there would be in the way"
    found = result(fleet.drain(options()))
    assert isinstance(found.error, errors.NotDrained)
    assert found.error.message == f"{HOST} is cordoned, but not free: 1 of 2 vGPUs there are in the way"
    assert next_of(found) == {VM: "blocks", OTHER: "stays"}
    assert any(f"{VM} runs with it" in line for line in found.error.details)
    assert fleet.drain(options(wait_s=60), meanwhile=lambda: stop(fleet, VM)).word == "unchanged"


def test_of_a_gpu_what_is_idle_goes_to_another_and_what_runs_follows_once_it_has_stopped(fleet: Fleet) -> None:
    """The claims go on saying what they said; a person is asked for all that is removed."""
    start(fleet, VM)
    assert fleet.attach(HOST, VM, SLOTS[1], "4Q").word == "done"
    (gpu,) = {
        entry["gpu"] for entry in fleet.machines[HOST].ledger() if (entry["vm_name"], entry["slot"]) == (VM, SLOT)
    }
    ours = {entry["slot"] for entry in fleet.machines[HOST].ledger() if entry["gpu"] == gpu}
    foretold = result(fleet.drain(options(gpu), check=True))
    assert foretold.fleet.changed
    end = fleet.drain(options(gpu, wait_s=60), meanwhile=lambda: stop(fleet, VM))
    found = result(end)
    assert (found.error, found.rows) == (None, ())
    assert ours
    assert {entry["gpu"] for entry in fleet.machines[HOST].ledger()} == {FIRST, SECOND} - {gpu}
    for vm, slot in ((VM, SLOT), (VM, SLOTS[1]), (OTHER, SLOT)):
        promises.check_attached(fleet.machines[HOST], vm_uuid(HOST, vm), slot, "4Q")
    assert fleet.drain(options(gpu)).word == "unchanged"


def test_a_check_of_what_is_cordoned_already_says_that_it_is(fleet: Fleet) -> None:
    start(fleet, VM)
    assert isinstance(result(fleet.drain(options())).error, errors.NotDrained)
    again = result(fleet.drain(options(), check=True)).error
    assert again is not None
    assert again.message.startswith(f"{HOST} is cordoned, but not free")


def test_what_fits_nowhere_else_stays_and_is_told_with_the_way_out(fleet: Fleet) -> None:
    """The other GPU has an 8Q of somebody else's, beside which no 4Q can be."""
    assert fleet.detach(HOST, OTHER, SLOT).word == "done"
    (entry,) = fleet.machines[HOST].ledger()
    other = GPUS.index(({FIRST, SECOND} - {entry["gpu"]}).pop())
    assert fleet.make_by_hand(HOST, other, 2, sorted(TYPES).index("8Q"))
    waited: list[None] = []
    found = result(fleet.drain(options(entry["gpu"], wait_s=3600), meanwhile=lambda: waited.append(None)))
    assert waited == []  # nothing that is in the way ends by itself
    assert isinstance(found.error, errors.NotDrained)
    (row,) = found.rows
    assert (row.next, row.vm) == ("blocks", VM)
    assert row.why.endswith(f"`vgpumgr detach {VM} --slot {SLOT}` frees it")
    assert fleet.machines[HOST].ledger() == [entry]
