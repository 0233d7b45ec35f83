"""Maintenance of a host, with the real host program: cordon, drain and purge. What runs is never touched, what is idle is out of the way, the rest is said."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.model import promises
from tests.model.fleet import SLOTS, Fleet, vm_uuid
from tests.model.machine import GPUS, TYPES
from vgpumgr import errors
from vgpumgr.controller import maintenance, purge  # noqa: F401 -- what is tried; the fleet calls them
from vgpumgr.controller.drain import DrainOptions
from vgpumgr.controller.results import DrainResult, PurgeResult
from vgpumgr.core.reconcile.tasks import SetCordon
from vgpumgr.host.protocol.gpu import VENDOR_VFIO
from vgpumgr.host.protocol.ledger import LEDGER_PATH

if TYPE_CHECKING:
    from tests.model.fleet import Outcome
    from tests.model.pool import Pool


HOST, VM, OTHER, SLOT = "kvm01", "1vm01", "1vm02", SLOTS[0]
FIRST, SECOND = GPUS


@pytest.fixture
def fleet(pool: Pool) -> Fleet:
    """Two VMs, each with a 4Q on a GPU of its own."""
    found = Fleet.install({HOST: pool.machine(HOST, VENDOR_VFIO)}, {HOST: 2})
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
    again = result(fleet.drain(options(), check=True)).error
    assert again is not None
    assert again.message.startswith(f"{HOST} is cordoned, but not free"), "a check of what is cordoned says that it is"
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


@pytest.fixture
def cordoned(fleet: Fleet) -> Fleet:
    """The same, and two cordons."""
    assert fleet.cordon(HOST, SetCordon(gpu_id=None, reason="it goes")).word == "done"
    assert fleet.cordon(HOST, SetCordon(gpu_id=None, vf="0000:41:00.5", reason="its VMs fail")).word == "done"
    return fleet


def purged(end: Outcome) -> PurgeResult:
    assert end.error is None
    assert isinstance(end.result, PurgeResult)
    return end.result


def has_ledger(fleet: Fleet) -> bool:
    return (fleet.machines[HOST].root / LEDGER_PATH[1:]).exists()


@pytest.mark.parametrize("asks", [False, True], ids=["before", "while the question stands"])
def test_where_one_is_in_use_everything_stays_as_it_is_until_it_has_stopped(cordoned: Fleet, *, asks: bool) -> None:
    before = cordoned.machines[HOST].ledger()
    if asks:
        found = purged(cordoned.purge(HOST, meanwhile=lambda: start(cordoned, VM)))
    else:
        start(cordoned, VM)
        found = purged(cordoned.purge(HOST))
    assert [type(error) for error in found.errors] == [errors.InUse]
    assert (found.outcome, found.files) == (errors.Outcome.UNCHANGED, ())
    assert cordoned.machines[HOST].ledger() == before
    stop(cordoned, VM)
    assert purged(cordoned.purge(HOST)).outcome is errors.Outcome.DONE
    assert not has_ledger(cordoned)
