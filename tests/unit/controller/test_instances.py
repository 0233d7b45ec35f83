"""gc, with the real host program: cached GPU instances of ours go, everything else stays."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.model.fleet import Fleet
from tests.model.machine import GPUS
from tests.unit.controller import nowhere
from vgpumgr import errors
from vgpumgr.controller.instances import GcOptions, give_back
from vgpumgr.controller.results import Consent, FleetPlan, FleetResult
from vgpumgr.host.protocol.gpu import MDEV_VF
from vgpumgr.names import DEFAULT_SLOT

if TYPE_CHECKING:
    from tests.model.machine import Machine
    from tests.model.pool import Pool

HOST, VM, OTHER = "kvm01", "1vm01", "1vm02"
SECOND, SLICED = "kvm02", "kvm03"
SMALL, LARGEST = "1-5C", "7-40C"


def made(machine: Machine) -> list[tuple[str, str]]:
    return [(gpu.pci, one.profile.name) for gpu in machine.gpus() for one in gpu.instances]


def test_without_a_host_every_host_gives_back_what_is_cached_and_one_that_fails_keeps_no_other_from_it(
    pool: Pool,
) -> None:
    machines = {host: pool.machine(host, MDEV_VF) for host in (HOST, SECOND, SLICED)}
    fleet = Fleet.install(machines, dict.fromkeys(machines, 1), in_mig=[HOST, SECOND])
    for host in (HOST, SECOND):
        assert fleet.attach(host, f"{host[-1]}vm01", DEFAULT_SLOT, SMALL).word == "done"
        assert fleet.detach(host, f"{host[-1]}vm01", DEFAULT_SLOT).word == "done"
    foretold = fleet.give_back(check=True).result
    assert isinstance(foretold, FleetResult)
    assert [(host, one.planned.gpu) for host, one in foretold.tasks] == [(HOST, GPUS[0]), (SECOND, GPUS[0])]
    assert (foretold.outcomes, foretold.exit_code) == (("would_change",), 3)
    ledger = machines[HOST].root / "var/lib/vgpumgr/ledger.json"
    whole = ledger.read_text()
    ledger.write_text("{")
    given_back = fleet.give_back().result
    assert isinstance(given_back, FleetResult)
    assert [host for host, _ in given_back.errors] == [HOST]
    assert [(host, one.outcome) for host, one in given_back.tasks] == [(SECOND, "done")]
    assert (made(machines[HOST]), made(machines[SECOND])) == ([(GPUS[0], "1g.5gb")], [])
    ledger.write_text(whole)
    assert fleet.give_back().word == "done"
    assert fleet.give_back().word == "unchanged"
    assert made(machines[HOST]) == []


def test_a_gpu_with_a_stuck_write_keeps_no_other_gpu_of_its_host_from_it(pool: Pool) -> None:
    machine = pool.machine(HOST, MDEV_VF)
    fleet = Fleet.install({HOST: machine}, {HOST: 2}, in_mig=[HOST])
    for vm in (VM, OTHER):  # the largest profile fills a GPU, so each has one of its own
        assert fleet.attach(HOST, vm, DEFAULT_SLOT, LARGEST).word == "done"
    for vm in (VM, OTHER):
        assert fleet.detach(HOST, vm, DEFAULT_SLOT).word == "done"
    machine.hang(machine.driver.gpu(GPUS[0]))
    given_back = fleet.give_back().result
    assert isinstance(given_back, FleetResult)
    assert [(one.planned.gpu, one.outcome) for _, one in given_back.tasks] == [(GPUS[0], "refused"), (GPUS[1], "done")]
    assert made(machine) == [(GPUS[0], "7g.40gb")]
    machine.let_go()


def test_a_host_that_the_inventory_does_not_have_is_named_before_any_host_is_reached() -> None:
    consent: Consent[FleetPlan] = Consent(check=False, show=lambda _fleet: None, ask=lambda _fleet: None)
    with pytest.raises(errors.UnknownHost, match="kvm9"):
        give_back(nowhere.context(HOST), GcOptions(on="kvm9"), consent)
