"""The commands that are broken off, each on a host that is ready for it, and what has to be so once it is through."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tests.model import promises
from tests.model.fleet import HOSTS, SLOTS, Fleet, Outcome, vm_uuid
from tests.model.machine import GPUS, TYPES
from tests.model.pool import POOL
from vgpumgr.host.protocol import FIXED_SHARE, VENDOR_VFIO
from vgpumgr.lab.driver.model import Engine, Policy

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.model.wiring import Trouble

HOST, SLOT = HOSTS[0], SLOTS[0]
VM, OTHER, THIRD, BOB = (f"1vm{number:02}" for number in (1, 2, 3, 4))
SMALL, LARGE = "4Q", "8Q"


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """`prepare` on a fresh host; `run` as often as one likes; `check`: it is done, all of it and once."""

    name: str
    prepare: Callable[[Fleet], None]
    run: Callable[[Fleet, Trouble | None], Outcome]
    check: Callable[[Fleet], None]

    def __str__(self) -> str:
        return self.name


def fresh(framework: str) -> Fleet:
    """Two hosts. On the second GPU of the first somebody has an 8Q of his own, so that our 4Q are all on the first GPU."""
    machines = {HOST: POOL.machine(HOST, framework), HOSTS[1]: POOL.machine(HOSTS[1], VENDOR_VFIO)}
    fleet = Fleet.install(machines, {HOST: 4, HOSTS[1]: 1})
    assert fleet.make_by_hand(HOST, 1, 2, sorted(TYPES).index(LARGE))
    return fleet


def attach(fleet: Fleet, *vms: str) -> None:
    for vm in vms:
        assert fleet.attach(HOST, vm, SLOT, SMALL).word == "done"


def has(fleet: Fleet, vm: str, profile: str = SMALL) -> None:
    """One claim, hostdev, entry and vGPU."""
    promises.check_attached(fleet.machines[HOST], vm_uuid(HOST, vm), SLOT, profile)


def has_not(fleet: Fleet, vm: str) -> None:
    machine = fleet.machines[HOST]
    promises.check_detached(machine, vm_uuid(HOST, vm), SLOT)
    assert not promises.truth(machine).domains[vm_uuid(HOST, vm)].inactive, "a hostdev is left"


def _declare(fleet: Fleet, *vms: str) -> None:
    fleet.declared = {(HOST, vm): {SLOT: SMALL} for vm in vms}


def _prepare_reconcile(fleet: Fleet) -> None:
    """One VM is to lose its vGPU, one to keep it, one to get one."""
    _declare(fleet, OTHER, THIRD)
    assert fleet.reconcile(HOST).error is None
    _declare(fleet, VM, THIRD)


def _check_reconcile(fleet: Fleet) -> None:
    has(fleet, VM)
    has(fleet, THIRD)
    has_not(fleet, OTHER)


def _check_scheduler(fleet: Fleet) -> None:
    gpu = fleet.machines[HOST].driver.gpu(GPUS[0])
    assert gpu.schedulers[Engine.GRAPHICS].policy is Policy.FIXED_SHARE
    has(fleet, VM)
    has(fleet, OTHER)


ATTACH = Operation(
    name="attach",
    prepare=lambda fleet: attach(fleet, OTHER),
    run=lambda fleet, trouble: fleet.attach(HOST, VM, SLOT, SMALL, trouble=trouble),
    check=lambda fleet: has(fleet, VM),
)
REPLACE = Operation(
    name="replace",
    prepare=lambda fleet: attach(fleet, OTHER, VM),
    run=lambda fleet, trouble: fleet.attach(HOST, VM, SLOT, LARGE, replace=True, trouble=trouble),
    check=lambda fleet: has(fleet, VM, LARGE),
)
DETACH = Operation(
    name="detach",
    prepare=lambda fleet: attach(fleet, OTHER, VM),
    run=lambda fleet, trouble: fleet.detach(HOST, VM, SLOT, trouble=trouble),
    check=lambda fleet: has_not(fleet, VM),
)
SCHEDULER = Operation(
    name="scheduler set",
    prepare=lambda fleet: attach(fleet, OTHER, VM),
    run=lambda fleet, trouble: fleet.set_scheduler(HOST, GPUS[0], FIXED_SHARE, trouble=trouble),
    check=_check_scheduler,
)
RECONCILE = Operation(
    name="reconcile",
    prepare=_prepare_reconcile,
    run=lambda fleet, trouble: fleet.reconcile(HOST, trouble=trouble),
    check=_check_reconcile,
)
OPERATIONS = (ATTACH, REPLACE, DETACH, SCHEDULER, RECONCILE)
