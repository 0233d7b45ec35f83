"""host purge, with the real host program: all that is ours goes, whatever is in use keeps all of it, and a killed one goes on."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.model.fleet import SLOTS, Fleet, vm_uuid
from vgpumgr import errors
from vgpumgr.controller import purge  # noqa: F401 -- what is tried; the fleet calls it
from vgpumgr.controller.maintenance import CordonOptions
from vgpumgr.controller.results import PurgeResult
from vgpumgr.host.protocol import LEDGER_PATH, MDEV_VF, VENDOR_VFIO

if TYPE_CHECKING:
    from tests.model.fleet import Outcome
    from tests.model.pool import Pool

HOST, VM, OTHER = "kvm01", "1vm01", "1vm02"


@pytest.fixture(params=[MDEV_VF, VENDOR_VFIO])
def fleet(pool: Pool, request: pytest.FixtureRequest) -> Fleet:
    """Two VMs, each with a 4Q, and a cordon."""
    found = Fleet.install({HOST: pool.machine(HOST, request.param)}, {HOST: 2})
    for vm in (VM, OTHER):
        assert found.attach(HOST, vm, SLOTS[0], "4Q").word == "done"
    assert found.cordon(CordonOptions(host=HOST, gpu_id=None, reason="it goes")).word == "done"
    return found


def result(end: Outcome) -> PurgeResult:
    assert end.error is None
    assert isinstance(end.result, PurgeResult)
    return end.result


def has_ledger(fleet: Fleet) -> bool:
    return (fleet.machines[HOST].root / LEDGER_PATH[1:]).exists()


def test_all_that_is_ours_goes_once_it_was_foretold(fleet: Fleet) -> None:
    foretold = result(fleet.purge(HOST, check=True))
    assert (foretold.outcome, foretold.files) == (errors.Outcome.WOULD_CHANGE, (LEDGER_PATH,))
    assert len(fleet.machines[HOST].ledger()) == 2
    end = fleet.purge(HOST)
    found = result(end)
    assert (found.outcome, found.files, found.errors) == (errors.Outcome.DONE, (LEDGER_PATH,), ())
    assert len(end.agreed) >= 4  # two vGPUs, two hostdevs
    assert not has_ledger(fleet)
    assert fleet.purge(HOST).word == "unchanged"
    assert fleet.attach(HOST, VM, SLOTS[0], "4Q").word == "done"  # nothing is in the way of coming back


def test_while_one_is_in_use_nothing_is_changed(fleet: Fleet) -> None:
    machine = fleet.machines[HOST]
    vm = machine.libvirt.vms[vm_uuid(HOST, VM)]
    assert fleet.start(HOST, vm)
    before = machine.ledger()
    found = result(fleet.purge(HOST))
    assert [type(error) for error in found.errors] == [errors.InUse]
    assert (found.outcome, found.files) == (errors.Outcome.UNCHANGED, ())
    assert machine.ledger() == before
    fleet.stop(HOST, vm)
    assert result(fleet.purge(HOST)).outcome is errors.Outcome.DONE
    assert not has_ledger(fleet)


def test_a_vm_that_is_started_while_the_question_stands_keeps_everything_as_it_is(fleet: Fleet) -> None:
    machine = fleet.machines[HOST]
    before = machine.ledger()

    def start() -> None:
        assert fleet.start(HOST, machine.libvirt.vms[vm_uuid(HOST, VM)])

    found = result(fleet.purge(HOST, meanwhile=start))
    assert [type(error) for error in found.errors] == [errors.InUse]
    assert (found.outcome, found.files) == (errors.Outcome.UNCHANGED, ())
    assert machine.ledger() == before
