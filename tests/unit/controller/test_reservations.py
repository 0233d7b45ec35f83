"""Reservations over two hosts, with the real host program: where one fails half way, it is said what is kept."""

from __future__ import annotations

import fcntl
import os
from typing import TYPE_CHECKING

import pytest

from tests.model.fleet import HOSTS, Fleet
from vgpumgr import errors
from vgpumgr.controller import reservations  # noqa: F401 -- what is tried; the fleet calls it
from vgpumgr.controller.results import Reserved
from vgpumgr.host.protocol.gpu import VENDOR_VFIO
from vgpumgr.host.protocol.session import LOCK_PATH

if TYPE_CHECKING:
    from tests.model.pool import Pool


@pytest.fixture
def fleet(pool: Pool) -> Fleet:
    return Fleet.install({host: pool.machine(host, VENDOR_VFIO) for host in HOSTS}, dict.fromkeys(HOSTS, 1))


def kept(fleet: Fleet) -> list[str]:
    found = fleet.reserved()
    assert all(isinstance(one, Reserved) for one in found)
    return [one.host for one in found]


def test_where_a_host_fails_half_way_it_is_said_what_is_kept_and_the_same_command_keeps_the_rest(fleet: Fleet) -> None:
    """Each host takes one vGPU of a whole GPU on each of its two; somebody reads the second one."""
    descriptor = os.open(fleet.machines[HOSTS[1]].root / LOCK_PATH[1:], os.O_RDONLY)
    fcntl.flock(descriptor, fcntl.LOCK_SH)
    try:
        failed = fleet.reserve("16Q", "team", count=4)
    finally:
        os.close(descriptor)
    assert isinstance(failed.error, errors.Busy)
    assert failed.error.details[-1:] == ("places on kvm01 are reserved; `vgpumgr reserve cancel team` gives them up",)
    assert kept(fleet) == ["kvm01", "kvm01"]
    assert fleet.reserve("16Q", "team", count=4).word == "done"
    assert sorted(kept(fleet)) == ["kvm01", "kvm01", "kvm02", "kvm02"]
    assert fleet.reserve("16Q", "team", count=4).word == "unchanged"
    assert fleet.cancel("team").word == "done"
    assert kept(fleet) == []
    assert fleet.cancel("team").word == "unchanged"
