"""The judge of the stateful test, looked at alone: what is a leak, what is foreign, what is a broken promise."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.model import promises
from tests.model.fleet import HOSTS, SLOTS, Fleet
from tests.model.machine import GPUS
from tests.model.people import PEOPLE
from tests.model.pool import POOL
from vgpumgr.errors import Unsure
from vgpumgr.host.protocol.gpu import MDEV_PF, MDEV_VF, VENDOR_VFIO

if TYPE_CHECKING:
    from tests.model.fleet import Outcome

HOST = HOSTS[0]


@pytest.fixture(params=[MDEV_PF, MDEV_VF, VENDOR_VFIO])
def fleet(request: pytest.FixtureRequest) -> Fleet:
    machines = {HOSTS[0]: POOL.machine(HOSTS[0], request.param), HOSTS[1]: POOL.machine(HOSTS[1], VENDOR_VFIO)}
    return Fleet.install(machines, {"kvm01": 2, "kvm02": 1})


def vendor() -> Fleet:
    """A host without mdev, whose first VM has a vGPU."""
    fleet = Fleet.install({HOST: POOL.machine(HOST, VENDOR_VFIO)}, {HOST: 2})
    assert attach(fleet).word == "done"
    return fleet


def attach(fleet: Fleet) -> Outcome:
    return fleet.attach(HOST, "1vm01", SLOTS[0], "4Q")


def set_by_hand(fleet: Fleet, host: str, profile: str = "4Q", *, vf: int | None = None) -> None:
    """The host was booted, and a hand set a type on the VF of the one vGPU that was there, or on another of that card."""
    machine = fleet.machines[host]
    (entry,) = promises.truth(machine).entries
    fleet.reboot(host)
    pci, kinds = next((gpu.pci, gpu.board.types) for gpu in machine.gpus() if gpu.uuid == entry.place.gpu)
    kind = next(at for at, kind in enumerate(kinds) if kind.name.endswith(f"-{profile}"))
    assert entry.vf is not None
    assert fleet.make_by_hand(host, GPUS.index(pci), entry.vf if vf is None else entry.vf + vf, kind)


def test_a_vf_set_by_hand_after_a_boot_is_foreign_although_the_ledger_names_it_from_before() -> None:
    fleet = vendor()
    set_by_hand(fleet, HOST)
    promises.check_always(fleet)
    assert isinstance(attach(fleet).error, Unsure)
    assert isinstance(fleet.detach(HOST, "1vm01").error, Unsure)
    promises.check_always(fleet)
    assert len(fleet.handmade[HOST]) == 1


@pytest.mark.parametrize("profile", ["4Q", "8Q"])
@pytest.mark.parametrize("what", [None, "clones it", "drops its hostdevs", "drops its metadata"])
def test_a_vf_set_by_hand_is_never_taken_for_a_lost_one_whatever_claim_and_definition_say(
    profile: str, what: str | None
) -> None:
    """Neither entered nor cleared: its type and its address are no proof (found: breaker F3)."""
    fleet = vendor()
    set_by_hand(fleet, HOST, profile)
    if what is not None:
        PEOPLE[what](fleet, HOST, fleet.vms(HOST)[0])
    assert fleet.lose_ledger(HOST)
    promises.check_always(fleet)
    fleet.reconcile(HOST)
    fleet.detach(HOST, "1vm01")
    promises.check_always(fleet)
    assert (len(fleet.handmade[HOST]), len(fleet.machines[HOST].orphans)) == (1, 0)
