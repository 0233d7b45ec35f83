"""Sets of profiles on real facts of two hosts: both are read, and what one holds now does not count."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.model.fleet import SLOTS, Fleet
from vgpumgr.controller import offering
from vgpumgr.core.driver.profiles import parse_profile
from vgpumgr.host.protocol.gpu import VENDOR_VFIO

if TYPE_CHECKING:
    from tests.model.pool import Pool


def test_each_host_counts_and_those_that_are_filled_alike_are_kept_once(pool: Pool) -> None:
    machines = {host: pool.machine(host, VENDOR_VFIO) for host in ("kvm01", "kvm02")}
    fleet = Fleet.install(machines, dict.fromkeys(machines, 1))
    assert fleet.attach("kvm01", "1vm01", SLOTS[0], "4Q").word == "done"
    sets = [[parse_profile("4Q"), parse_profile("8Q")], [parse_profile("4Q")]]
    context = fleet.context(None, [])
    both, mix, scores = offering.compare(context, (), sets, 4)
    assert both.errors == ()
    assert len(both.views) == 2
    assert len(set(both.views)) == 1
    assert mix.source == "openb"
    one = offering.compare(context, ("kvm01",), sets, 4)[2]
    assert [score.gpus for score in scores] == [2 * score.gpus for score in one]
    assert [score.served_mib for score in scores] == [2 * score.served_mib for score in one]
