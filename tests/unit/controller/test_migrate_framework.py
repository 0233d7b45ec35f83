"""migrate-framework over hosts: all slots of a host or none, each host by itself; a kept plan is carried out as it was shown."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from tests.model import promises
from tests.model.fleet import Fleet, vm_uuid
from vgpumgr import errors
from vgpumgr.controller.migrate_framework import migrate_framework
from vgpumgr.controller.results import Consent, FleetPlan
from vgpumgr.core.slot.kept import KeptPlan
from vgpumgr.host.protocol.gpu import MDEV_VF, VENDOR_VFIO
from vgpumgr.lab.driver.upgrade import Upgrade
from vgpumgr.names import DEFAULT_SLOT

if TYPE_CHECKING:
    from tests.model.pool import Pool
    from vgpumgr.controller.results import FleetResult

HOSTS = ("kvm01", "kvm02")


@pytest.fixture
def fleet(pool: Pool) -> Fleet:
    """Two hosts of two VMs each, booted with another kernel since."""
    found = Fleet.install({host: pool.machine(host, MDEV_VF) for host in HOSTS}, dict.fromkeys(HOSTS, 2))
    for host in HOSTS:
        for number in (1, 2):
            assert found.attach(host, f"{host[-1]}vm{number:02}", DEFAULT_SLOT, "4Q").word == "done"
        found.reboot(host, Upgrade(framework=VENDOR_VFIO))
    return found


def migrate(fleet: Fleet, *, check: bool = False, kept: KeptPlan | None = None) -> FleetResult:
    consent: Consent[FleetPlan] = Consent(check=check, show=lambda _: None, ask=lambda _: None, kept=kept)
    return migrate_framework(fleet.context(), HOSTS, consent)


def on_vfs(fleet: Fleet, host: str) -> int:
    return sum(row["uuid"] is None for row in fleet.machines[host].ledger())


def test_a_host_with_a_running_vm_is_left_as_it_is_and_the_other_is_done(fleet: Fleet) -> None:
    runs = fleet.machines["kvm01"].libvirt.vms[vm_uuid("kvm01", "1vm01")]
    runs.live = runs.inactive
    before = promises.truth(fleet.machines["kvm01"])
    result = migrate(fleet)
    assert [(type(one.error), one.planned.task.vm) for host, one in result.tasks if host == "kvm01"] == [
        (errors.InUse, "1vm01"),
        (errors.HeldBack, "1vm02"),
    ]
    assert (result.exit_code, on_vfs(fleet, "kvm01"), on_vfs(fleet, "kvm02")) == (5, 0, 2)
    assert promises.truth(fleet.machines["kvm01"]) == before


def test_a_kept_plan_is_carried_out_unless_something_changed(fleet: Fleet) -> None:
    planned = migrate(fleet, check=True)
    steps = tuple(json.loads(json.dumps(step)) for step in planned.fleet.records)
    kept = KeptPlan(where="plan.json", fingerprint=planned.fleet.fingerprint, steps=steps, hosts=HOSTS)
    assert sum(on_vfs(fleet, host) for host in HOSTS) == 0
    assert fleet.detach("kvm01", "1vm02", DEFAULT_SLOT).word == "done"
    with pytest.raises(errors.PlanOutdated):
        migrate(fleet, kept=kept)
    assert sum(on_vfs(fleet, host) for host in HOSTS) == 0
