"""Room for a wish, with the real host program: where there is some, nothing moves."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.model.fleet import SLOTS, Fleet
from tests.unit.core import builders
from vgpumgr.controller.defrag import DefragOptions, defrag
from vgpumgr.controller.results import Consent, FleetPlan
from vgpumgr.core.driver.asking import NO_CONDITIONS
from vgpumgr.core.report.capacity import Question
from vgpumgr.host.protocol.gpu import VENDOR_VFIO

if TYPE_CHECKING:
    from tests.model.pool import Pool

HOST, VM = "kvm01", "1vm01"


def test_where_the_wish_fits_already_nothing_moves(pool: Pool) -> None:
    fleet = Fleet.install({HOST: pool.machine(HOST, VENDOR_VFIO)}, {HOST: 1})
    assert fleet.attach(HOST, VM, SLOTS[0], "4Q").word == "done"
    before = fleet.machines[HOST].ledger()
    options = DefragOptions(question=Question(wish=builders.wish("8Q"), conditions=NO_CONDITIONS))
    consent: Consent[FleetPlan] = Consent(check=False, show=lambda _fleet: None, ask=lambda _fleet: None)
    found, result = defrag(fleet.context(None, []), options, consent)
    assert (found.before >= 1, found.tasks, result.problems, result.fleet.changed) == (True, {}, (), False)
    assert fleet.machines[HOST].ledger() == before
