"""A host boots, and its own program restores what the ledger says: on the model's hosts, whose ledgers real commands wrote."""

from __future__ import annotations

import itertools
import json
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.dose import dose
from tests.model import promises
from tests.model.fleet import vm_uuid
from tests.model.machine import GPUS, MIG_TYPES, VFS
from tests.model.wiring import HostProgramKilled
from tests.unit.host.restoring.booting import (
    FRAMEWORKS,
    HOST,
    SLOT,
    VMS,
    attach,
    boot,
    fleet_of,
    missing,
    restore,
    there,
)
from tests.unit.host.restoring.test_hold import definition
from vgpumgr.core.driver.modes import MIG, MIXED_SIZE
from vgpumgr.host.files import Root
from vgpumgr.host.protocol.gpu import MDEV_PF, MDEV_VF, VENDOR_VFIO
from vgpumgr.host.restoring.hold import find_why
from vgpumgr.lab.driver import boards
from vgpumgr.lab.driver.upgrade import Upgrade

pytestmark = pytest.mark.usefixtures("pool")


@settings(max_examples=dose(15, 300))
@given(
    framework=st.sampled_from(FRAMEWORKS),
    late=st.booleans(),
    renumber=st.booleans(),
    asked=st.lists(st.sampled_from(["4Q", "8Q", "8C", "16Q"]), min_size=1, max_size=len(VMS)),
    mixed=st.booleans(),
    killed=st.integers(min_value=0, max_value=40),
)
def test_what_was_there_is_there_again_also_if_it_was_killed_on_the_way(
    *, framework: str, late: bool, renumber: bool, asked: list[str], mixed: bool, killed: int
) -> None:
    fleet = fleet_of(framework)
    machine = fleet.machines[HOST]
    if mixed and framework != MDEV_PF:
        assert fleet.set_mode(HOST, GPUS[0], MIXED_SIZE).word == "done"
    for vm, profile in zip(VMS, asked, strict=False):
        fleet.attach(HOST, vm, SLOT, profile)
    before, entries = there(machine), len(machine.ledger())
    boot(machine, late=late, upgrade=Upgrade(renumber=renumber))
    assert there(machine) == {}
    points = itertools.count()

    def at(_point: str) -> None:
        if next(points) == killed:
            raise HostProgramKilled

    try:
        restore(machine, at)
    except HostProgramKilled:
        assert not machine.is_locked()
    fact = restore(machine)
    assert set(missing(fact).values()) <= {None}
    assert there(machine) == before
    assert len(machine.ledger()) == entries
    assert not machine.broken_promises
    written = machine.ledger()
    assert missing(restore(machine)) == missing(fact)
    assert machine.ledger() == written
    if not renumber:  # then the claims, which name ids, are still to be written
        assert fleet.reconcile(check=True).word == "unchanged"


@pytest.mark.parametrize("late", [False, True])
@pytest.mark.parametrize("board", ["A100", "H100"])
def test_mig_backed_ones_are_back_each_in_the_instance_that_it_was_in(board: str, late: bool) -> None:
    """A100 keeps MIG mode over a boot; H100 loses it."""
    fleet = fleet_of(VENDOR_VFIO, in_mig=True)
    machine = fleet.machines[HOST]
    if board == "H100":
        small = replace(boards.board(board, "test"), vfs=VFS)
        machine.install(board=small, in_mig=True)
        for vm in VMS:
            machine.libvirt.define(vm, vm_uuid(HOST, vm))
        assert fleet.set_mode(HOST, GPUS[0], MIG).word == "done"
    profiles = ("3-40C", "1-10C", "1-10C") if board == "H100" else (MIG_TYPES[1], MIG_TYPES[0], MIG_TYPES[0])
    attach(fleet, *profiles)
    assert fleet.detach(HOST, VMS[1], SLOT).word == "done"
    assert fleet.give_back(HOST).word in ("done", "unchanged")
    before = there(machine)
    boot(machine, late=late)
    assert set(missing(restore(machine)).values()) == {None}
    assert there(machine) == before
    promises.check_places(machine, GPUS[0])
    assert fleet.reconcile(check=True).word == "unchanged"


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_where_another_card_is_now_nothing_is_made_and_the_rest_comes_back(framework: str) -> None:
    fleet = fleet_of(framework)
    machine = fleet.machines[HOST]
    attach(fleet, "8Q", "4Q")  # on two GPUs
    (first,) = [where for where in there(machine) if where.gpu == machine.driver.gpu(GPUS[0]).uuid]
    kept = {where: what for where, what in there(machine).items() if where != first}
    machine.driver.set_fault(f"card-exchanged:{GPUS[0]}")
    boot(machine)
    found = missing(restore(machine))
    (lost,) = [why for why in found.values() if why is not None]
    assert lost == f"GPU {first.gpu} is not in this host; at {GPUS[0]} is {machine.driver.gpu(GPUS[0]).uuid}"
    assert there(machine) == kept


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_cards_that_changed_places_get_nothing(framework: str) -> None:
    fleet = fleet_of(framework)
    machine = fleet.machines[HOST]
    attach(fleet, "8Q", "4Q")
    one, two = (machine.driver.gpu(pci) for pci in GPUS)
    one.uuid, two.uuid = two.uuid, one.uuid
    boot(machine)
    assert set(missing(restore(machine)).values()) == {
        f"GPU {two.uuid} was at {GPUS[0]}, and is now at {GPUS[1]}",
        f"GPU {one.uuid} was at {GPUS[1]}, and is now at {GPUS[0]}",
    }
    assert there(machine) == {}


@pytest.mark.parametrize("framework", [MDEV_VF, VENDOR_VFIO])
def test_what_somebody_else_made_there_is_left_alone_and_named(framework: str) -> None:
    fleet = fleet_of(framework)
    machine = fleet.machines[HOST]
    attach(fleet, "4Q")
    (entry,) = machine.ledger()
    boot(machine)
    gpu = machine.driver.gpu(entry["gpu"])
    other = next(kind for kind in gpu.board.types if kind.id != entry["type_id"])
    machine.make(gpu, entry["vf_index"], other.id, "0bad0000-0000-4000-8000-000000000000")
    (why,) = missing(restore(machine)).values()
    assert why == f"somebody else made {other.name} on {entry['parent']}"
    assert machine.ledger() == [entry]


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_the_very_vgpu_made_by_another_tool_is_not_taken_for_ours(framework: str) -> None:
    """As mdevctl would, with our UUID."""
    fleet = fleet_of(framework)
    machine = fleet.machines[HOST]
    attach(fleet, "4Q")
    (entry,) = machine.ledger()
    boot(machine)
    machine.make(machine.driver.gpu(entry["gpu"]), entry["vf_index"], entry["type_id"], entry["uuid"])
    (why,) = missing(restore(machine)).values()
    assert why is not None
    assert why.endswith("and vgpumgr did not make it since the boot")
    assert machine.ledger() == [entry]


@pytest.mark.parametrize(("before", "after"), [(MDEV_VF, VENDOR_VFIO), (VENDOR_VFIO, MDEV_VF)])
def test_a_driver_of_another_framework_gets_nothing(before: str, after: str) -> None:
    fleet = fleet_of(before)
    machine = fleet.machines[HOST]
    attach(fleet, "4Q")
    boot(machine, upgrade=Upgrade(framework=after))
    way = f"its GPU's framework is now {after}: run `vgpumgr migrate-framework`"
    assert list(missing(restore(machine)).values()) == [way]
    assert there(machine) == {}


def test_of_two_vms_that_the_ledger_has_on_one_function_only_the_one_whose_card_is_there_may_start() -> None:
    """The other one's definition still names the function."""
    fleet = fleet_of(VENDOR_VFIO)
    machine = fleet.machines[HOST]
    attach(fleet, "4Q", "4Q")
    file = machine.root / "var/lib/vgpumgr/ledger.json"
    ledger = json.loads(file.read_text())
    one, two = ledger["entries"]
    two.update(gpu_uuid="GPU-0bad0000-0000-4000-8000-000000000000", vf_index=one["vf_index"], parent=one["parent"])
    file.write_text(json.dumps(ledger))
    boot(machine)
    found = missing(restore(machine))
    assert found[one["vm_name"]] is None
    assert "is not in this host" in (found[two["vm_name"]] or "")
    held = [find_why(Root(machine.root), definition(entry["vm_uuid"], one["parent"])) for entry in (one, two)]
    assert held[0] is None
    assert held[1] is not None


def test_what_is_leaving_stays_away() -> None:
    fleet = fleet_of(MDEV_VF)
    machine = fleet.machines[HOST]
    attach(fleet, "4Q", "4Q")
    file = machine.root / "var/lib/vgpumgr/ledger.json"
    for kept in (1, 0):
        file.write_text(file.read_text().replace('"made"', '"leaving"', 1))
        boot(machine)
        assert len(missing(restore(machine))) == kept
        assert len(there(machine)) == kept
