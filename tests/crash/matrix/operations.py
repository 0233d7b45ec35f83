"""The commands that are broken off, each on a host that is ready for it, and what has to be so once it is through."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from tests.model import promises
from tests.model.fleet import HOSTS, SLOTS, Fleet, Outcome, vm_uuid
from tests.model.machine import GPUS, TYPES
from tests.model.pool import POOL
from vgpumgr.controller.drain import DrainOptions
from vgpumgr.core.reconcile.tasks import SetCordon
from vgpumgr.host.protocol.gpu import EQUAL_SIZE, FIXED_SHARE, MDEV_VF, MIG, MIXED_SIZE, VENDOR_VFIO
from vgpumgr.host.protocol.ledger import LEDGER_PATH, MADE
from vgpumgr.lab.driver import places
from vgpumgr.lab.driver.model import Engine, Policy
from vgpumgr.lab.driver.upgrade import Upgrade

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.model.wiring import Trouble
    from vgpumgr.lab.driver.model import Gpu, Vgpu

HOST, SLOT = HOSTS[0], SLOTS[0]
ELSEWHERE = "2vm01"  # on the second host
VM, OTHER, THIRD, BOB = (f"1vm{number:02}" for number in (1, 2, 3, 4))
SMALL, LARGE, WHOLE = "4Q", "8Q", "16Q"
EIGHTH, HALF = "1-5C", "3-20C"  # of a GPU in MIG mode
FOUR, MEMORY, SLICED = "4G", "--gpu-memory 4G", "4C"  # an amount, and what it comes to with MIG off
WHOLE_GPU = 0  # the id of the profile 7g.40gb
OF_FIRST = DrainOptions(host=HOST, gpu_id=GPUS[0], reason="ECC errors")
ECC = SetCordon(gpu_id=None, reason="ECC errors")


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """`prepare` on a fresh host; `run` as often as one likes; `check`: it is done, all of it and once."""

    name: str
    mig: bool = False  # whether the host's GPUs are in MIG mode
    prepare: Callable[[Fleet], None]
    run: Callable[[Fleet, Trouble | None], Outcome]
    check: Callable[[Fleet], None]

    def __str__(self) -> str:
        return self.name


def fresh(framework: str, *, mig: bool = False) -> Fleet:
    """Two hosts. On the second GPU of the first somebody has an 8Q of his own, so that our 4Q are all on the first GPU.

    `mig`: the GPUs of the first are in MIG mode, and that one is all a GPU instance of somebody's.
    """
    machines = {HOST: POOL.machine(HOST, framework), HOSTS[1]: POOL.machine(HOSTS[1], VENDOR_VFIO)}
    fleet = Fleet.install(machines, {HOST: 4, HOSTS[1]: 1}, in_mig=[HOST] if mig else [])
    if mig:
        machine = machines[HOST]
        machine.make_instance(machine.driver.gpu(GPUS[1]), WHOLE_GPU, 0)
    else:
        assert fleet.make_by_hand(HOST, 1, 2, sorted(TYPES).index(LARGE))
    return fleet


def small(fleet: Fleet) -> str:
    """The smallest profile that the first host has."""
    return EIGHTH if fleet.machines[HOST].driver.gpu(GPUS[0]).mig_on else SMALL


def attach(fleet: Fleet, *vms: str, profile: str | None = None) -> None:
    for vm in vms:
        assert fleet.attach(HOST, vm, SLOT, profile or small(fleet)).word == "done"


def has(fleet: Fleet, vm: str, profile: str = SMALL, asked: str | None = None) -> None:
    """One claim, hostdev, entry and vGPU."""
    promises.check_attached(fleet.machines[HOST], vm_uuid(HOST, vm), SLOT, profile, asked=asked)


def has_not(fleet: Fleet, vm: str) -> None:
    machine = fleet.machines[HOST]
    promises.check_detached(machine, vm_uuid(HOST, vm), SLOT)
    assert not promises.truth(machine).domains[vm_uuid(HOST, vm)].inactive, "a hostdev is left"


def _serve(fleet: Fleet) -> None:
    assert fleet.serve((VM, OTHER, ELSEWHERE), SLOT, SMALL).word == "done"


def _check_served(fleet: Fleet) -> None:
    has(fleet, VM)
    has(fleet, OTHER)
    promises.check_attached(fleet.machines[HOSTS[1]], vm_uuid(HOSTS[1], ELSEWHERE), SLOT, SMALL)


def _check_freed(fleet: Fleet) -> None:
    has_not(fleet, VM)
    has_not(fleet, OTHER)
    promises.check_detached(fleet.machines[HOSTS[1]], vm_uuid(HOSTS[1], ELSEWHERE), SLOT)


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


def _prepare_purge(fleet: Fleet) -> None:
    attach(fleet, VM, OTHER)
    assert fleet.cordon(HOST, ECC).word == "done"


def _check_purged(fleet: Fleet) -> None:
    has_not(fleet, VM)
    has_not(fleet, OTHER)
    assert not (fleet.machines[HOST].root / LEDGER_PATH[1:]).exists()


def _check_cordon(fleet: Fleet) -> None:
    """Nothing new may be there. After a reboot its GPUs may not even have their virtual functions yet."""
    assert type(fleet.attach(HOST, OTHER, SLOT, SMALL).error).__name__ in ("Cordoned", "NoCapacity")


TEAM = "team"


def _reserved(fleet: Fleet) -> list[str]:
    """The names of the host's reservations, one for each place."""
    path = fleet.machines[HOST].root / LEDGER_PATH[1:]
    document = json.loads(path.read_text()) if path.exists() else {}
    return [row["vm_name"] for row in document.get("reservations", [])]


def _prepare_take(fleet: Fleet) -> None:
    """A place that is kept."""
    assert fleet.reserve(SMALL, TEAM, HOST).word == "done"


def _check_taken(fleet: Fleet) -> None:
    has(fleet, VM)
    assert _reserved(fleet) == []


def _check_reserved(fleet: Fleet) -> None:
    assert _reserved(fleet) == [TEAM]


def _waits(fleet: Fleet) -> list[str]:
    """The slots of the VM that wait for room."""
    return [wait.slot for wait in promises.truth(fleet.machines[HOST]).domains[vm_uuid(HOST, VM)].waits]


def _prepare_served(fleet: Fleet) -> None:
    """It waited, and then the first GPU got empty."""
    attach(fleet, OTHER, profile=WHOLE)
    assert fleet.attach(HOST, VM, SLOT, SMALL, wait=True).word == "done"
    assert _waits(fleet) == [SLOT]
    assert fleet.detach(HOST, OTHER, SLOT).word == "done"


def _check_served_after_wait(fleet: Fleet) -> None:
    has(fleet, VM)
    assert _waits(fleet) == []


def _check_waits(fleet: Fleet) -> None:
    """It waits; or it was served, because a reboot took away what somebody had on the second GPU."""
    if fleet.handmade[HOST]:
        assert _waits(fleet) == [SLOT]
    else:
        _check_served_after_wait(fleet)


def _check_cancelled(fleet: Fleet) -> None:
    assert _reserved(fleet) == []


def _prepare_drain(fleet: Fleet) -> None:
    """A 4Q on the first GPU; what somebody had on the second is gone, so that there is room."""
    assert fleet.remove_by_hand(HOST, 0)
    attach(fleet, VM)
    assert [entry["gpu"] for entry in fleet.machines[HOST].ledger()] == [GPUS[0]]


def _check_drained(fleet: Fleet) -> None:
    has(fleet, VM)
    assert not fleet.machines[HOST].driver.gpu(GPUS[0]).vgpus
    assert all(entry["gpu"] == GPUS[1] for entry in fleet.machines[HOST].ledger())


def _prepare_defrag(fleet: Fleet) -> None:
    """A 4Q on each GPU, and no 16Q fits anywhere."""
    assert fleet.remove_by_hand(HOST, 0)
    attach(fleet, VM)
    first = SetCordon(gpu_id=GPUS[0], reason="for a moment")
    assert fleet.cordon(HOST, first).word == "done"
    attach(fleet, OTHER)
    assert fleet.cordon(HOST, replace(first, reason=None)).word == "done"
    assert {entry["gpu"] for entry in fleet.machines[HOST].ledger()} == set(GPUS)


def _check_defragged(fleet: Fleet) -> None:
    has(fleet, VM)
    has(fleet, OTHER)
    assert len({entry["gpu"] for entry in fleet.machines[HOST].ledger()}) == 1


def _check_mode(fleet: Fleet) -> None:
    assert fleet.machines[HOST].driver.gpu(GPUS[0]).mixed
    has(fleet, VM)
    _lies_where_it_should(fleet)


def _lies_where_it_should(fleet: Fleet, *, at: int | None = None) -> None:
    """The VM's vGPU: hardware, ledger and claim agree, unless the driver refused to move it."""
    machine = fleet.machines[HOST]
    gpu = machine.driver.gpu(GPUS[0])
    (entry,) = (row for row in machine.ledger() if row["vm_uuid"] == vm_uuid(HOST, VM))
    claim = promises.truth(machine).domains[vm_uuid(HOST, VM)].claim(SLOT)
    (vgpu,) = (one for one in gpu.vgpus if (one.vf, one.uuid) == (entry["vf_index"], entry["uuid"]))
    assert claim is not None
    assert entry["placement_id"] == claim.binding.placement_id
    if not gpu.mixed:
        assert entry["placement_id"] is None
        return
    assert entry["placement_id"] in ((at,) if at is not None else _ids(gpu, vgpu))
    assert vgpu.placement_id == entry["placement_id"] or machine.places_refused


def _ids(gpu: Gpu, vgpu: Vgpu) -> tuple[int, ...]:
    return tuple(places.supported(gpu.board, vgpu.type, mixed=True))


def _prepare_again(fleet: Fleet) -> None:
    """In mixed-size mode: two vGPUs, the first of which is detached, and somebody removes the other."""
    assert fleet.set_mode(HOST, GPUS[0], MIXED_SIZE).word == "done"
    attach(fleet, OTHER, VM)
    assert fleet.detach(HOST, OTHER, SLOT).word == "done"
    assert fleet.remove_by_hand(HOST, 0)


def _check_again(fleet: Fleet) -> None:
    """It is back at the end of the GPU, although the driver puts a new one at its start."""
    has(fleet, VM)
    _lies_where_it_should(fleet, at=12)


def _cache(fleet: Fleet) -> None:
    """One half of the GPU is a VM's; in the other are two instances of ours that hold nothing."""
    attach(fleet, OTHER, profile=HALF)
    attach(fleet, VM, THIRD)
    for vm in (VM, THIRD):
        assert fleet.detach(HOST, vm, SLOT).word == "done"
    assert [one.profile.name for one in fleet.machines[HOST].driver.gpu(GPUS[0]).instances] == [
        "3g.20gb",
        "1g.5gb",
        "1g.5gb",
    ]


def _reboot(fleet: Fleet) -> None:
    attach(fleet, OTHER, VM)
    fleet.reboot(HOST)


def _has_in_instance(fleet: Fleet, profile: str) -> None:
    """And no making or removing of an instance is left half done."""
    has(fleet, VM, profile)
    _check_instances_whole(fleet)


def _has_left_instance(fleet: Fleet) -> None:
    has_not(fleet, VM)
    _check_instances_whole(fleet)


def _check_instances_whole(fleet: Fleet) -> None:
    machine = fleet.machines[HOST]
    here = [row for row in machine.ledger_instances() if row["boot"] == machine.boot]
    assert {row["state"] for row in here} <= {MADE}, here
    assert all(len(one.compute) == 1 for gpu in machine.gpus() for one in gpu.instances)


def _prepare_migrate(fleet: Fleet) -> None:
    attach(fleet, VM, OTHER)
    other = MDEV_VF if fleet.machines[HOST].framework == VENDOR_VFIO else VENDOR_VFIO
    fleet.reboot(HOST, Upgrade(framework=other))


def _check_migrated(fleet: Fleet) -> None:
    """As the GPU makes vGPUs now; what was an mdev is none any more."""
    has(fleet, VM)
    has(fleet, OTHER)
    on_vfs = fleet.machines[HOST].framework != VENDOR_VFIO
    assert {entry["uuid"] is None for entry in fleet.machines[HOST].ledger()} == {on_vfs}


def _prepare_to_mig(fleet: Fleet) -> None:
    assert fleet.set_mode(HOST, GPUS[0], EQUAL_SIZE).word == "done"
    attach(fleet, VM, OTHER, profile=FOUR)
    has(fleet, VM, SLICED, MEMORY)


def _check_divided(fleet: Fleet, profile: str, *, on: bool) -> None:
    """The GPU is in the mode, and both VMs have what it has for their wish; no instance is left that nobody has."""
    gpu = fleet.machines[HOST].driver.gpu(GPUS[0])
    assert (gpu.mig_on, gpu.mig_pending, gpu.vfs_on) == (on, on, True)
    has(fleet, VM, profile, MEMORY)
    has(fleet, OTHER, profile, MEMORY)
    _check_instances_whole(fleet)
    if not on:
        assert not [row for row in fleet.machines[HOST].ledger_instances() if row["gpu"] == GPUS[0]]


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
IN_PLACE = Operation(  # somebody's 8Q on the other GPU lets it take no other size
    name="replace in place",
    prepare=lambda fleet: attach(fleet, VM),
    run=lambda fleet, trouble: fleet.attach(HOST, VM, SLOT, WHOLE, replace=True, trouble=trouble),
    check=lambda fleet: has(fleet, VM, WHOLE),
)
DETACH = Operation(
    name="detach",
    prepare=lambda fleet: attach(fleet, OTHER, VM),
    run=lambda fleet, trouble: fleet.detach(HOST, VM, SLOT, trouble=trouble),
    check=lambda fleet: has_not(fleet, VM),
)
ATTACH_SEVERAL = Operation(
    name="attach several",
    prepare=lambda _fleet: None,
    run=lambda fleet, trouble: fleet.serve((VM, OTHER, ELSEWHERE), SLOT, SMALL, trouble=trouble),
    check=_check_served,
)
DETACH_SEVERAL = Operation(
    name="detach several",
    prepare=_serve,
    run=lambda fleet, trouble: fleet.serve((VM, OTHER, ELSEWHERE), SLOT, None, trouble=trouble),
    check=_check_freed,
)
SCHEDULER = Operation(
    name="scheduler set",
    prepare=lambda fleet: attach(fleet, OTHER, VM),
    run=lambda fleet, trouble: fleet.set_scheduler(HOST, GPUS[0], FIXED_SHARE, trouble=trouble),
    check=_check_scheduler,
)
MODE = Operation(
    name="mode set",
    prepare=lambda fleet: attach(
        fleet, VM
    ),  # these small GPUs take two 4Q in mixed-size mode, and somebody else may come by
    run=lambda fleet, trouble: fleet.set_mode(HOST, GPUS[0], MIXED_SIZE, trouble=trouble),
    check=_check_mode,
)
AGAIN = Operation(
    name="attach again, mixed-size",
    prepare=_prepare_again,
    run=lambda fleet, trouble: fleet.attach(HOST, VM, SLOT, SMALL, trouble=trouble),
    check=_check_again,
)
CORDON = Operation(
    name="cordon",
    prepare=lambda _fleet: None,
    run=lambda fleet, trouble: fleet.cordon(HOST, ECC, trouble=trouble),
    check=_check_cordon,
)
RESERVE = Operation(
    name="reserve",
    prepare=lambda _fleet: None,
    run=lambda fleet, trouble: fleet.reserve(SMALL, TEAM, HOST, trouble=trouble),
    check=_check_reserved,
)
TAKE = Operation(
    name="attach --reservation",
    prepare=_prepare_take,
    run=lambda fleet, trouble: fleet.attach(HOST, VM, SLOT, SMALL, reservation=TEAM, trouble=trouble),
    check=_check_taken,
)
CANCEL = Operation(
    name="reserve cancel",
    prepare=_prepare_take,
    run=lambda fleet, trouble: fleet.cancel(TEAM, HOST, trouble=trouble),
    check=_check_cancelled,
)
WAIT = Operation(
    name="attach --wait",
    prepare=lambda fleet: attach(fleet, OTHER, profile=WHOLE),
    run=lambda fleet, trouble: fleet.attach(HOST, VM, SLOT, SMALL, wait=True, trouble=trouble),
    check=_check_waits,
)
SERVED = Operation(
    name="attach of what waits",
    prepare=_prepare_served,
    run=lambda fleet, trouble: fleet.attach(HOST, VM, SLOT, SMALL, trouble=trouble),
    check=_check_served_after_wait,
)
DRAIN = Operation(
    name="drain",
    prepare=_prepare_drain,
    run=lambda fleet, trouble: fleet.drain(OF_FIRST, trouble=trouble),
    check=_check_drained,
)
DEFRAG = Operation(
    name="defrag",
    prepare=_prepare_defrag,
    run=lambda fleet, trouble: fleet.defrag(WHOLE, HOST, trouble=trouble),
    check=_check_defragged,
)
PURGE = Operation(
    name="host purge",
    prepare=_prepare_purge,
    run=lambda fleet, trouble: fleet.purge(HOST, trouble=trouble),
    check=_check_purged,
)
RECONCILE = Operation(
    name="reconcile",
    prepare=_prepare_reconcile,
    run=lambda fleet, trouble: fleet.reconcile(HOST, trouble=trouble),
    check=_check_reconcile,
)
MIG_ATTACH = Operation(
    name="attach that makes a GPU instance",
    mig=True,
    prepare=lambda fleet: attach(fleet, OTHER),
    run=lambda fleet, trouble: fleet.attach(HOST, VM, SLOT, EIGHTH, trouble=trouble),
    check=lambda fleet: _has_in_instance(fleet, EIGHTH),
)
MIG_EVICT = Operation(
    name="attach that takes cached GPU instances away",
    mig=True,
    prepare=_cache,
    run=lambda fleet, trouble: fleet.attach(HOST, VM, SLOT, HALF, trouble=trouble),
    check=lambda fleet: _has_in_instance(fleet, HALF),
)
MIG_DETACH = Operation(
    name="detach from a GPU instance",
    mig=True,
    prepare=lambda fleet: attach(fleet, OTHER, VM),
    run=lambda fleet, trouble: fleet.detach(HOST, VM, SLOT, trouble=trouble),
    check=_has_left_instance,
)
MIG_AGAIN = Operation(
    name="attach again after a reboot, with its GPU instance",
    mig=True,
    prepare=_reboot,
    run=lambda fleet, trouble: fleet.attach(HOST, VM, SLOT, EIGHTH, trouble=trouble),
    check=lambda fleet: _has_in_instance(fleet, EIGHTH),
)
TO_MIG = Operation(
    name="mode set mig",
    mig=True,
    prepare=_prepare_to_mig,
    run=lambda fleet, trouble: fleet.set_mode(HOST, GPUS[0], MIG, trouble=trouble),
    check=lambda fleet: _check_divided(fleet, EIGHTH, on=True),
)
FROM_MIG = Operation(
    name="mode set equal-size, from mig",
    mig=True,
    prepare=lambda fleet: attach(fleet, VM, OTHER, profile=FOUR),
    run=lambda fleet, trouble: fleet.set_mode(HOST, GPUS[0], EQUAL_SIZE, trouble=trouble),
    check=lambda fleet: _check_divided(fleet, SLICED, on=False),
)
MIGRATE = Operation(
    name="migrate-framework",
    prepare=_prepare_migrate,
    run=lambda fleet, trouble: fleet.migrate_framework(HOST, trouble=trouble),
    check=_check_migrated,
)
GC = Operation(
    name="gc",
    mig=True,
    prepare=_cache,
    run=lambda fleet, trouble: fleet.give_back(HOST, trouble=trouble),
    check=_check_instances_whole,
)
OPERATIONS = (
    ATTACH,
    REPLACE,
    IN_PLACE,
    DETACH,
    ATTACH_SEVERAL,
    DETACH_SEVERAL,
    SCHEDULER,
    MODE,
    AGAIN,
    CORDON,
    RESERVE,
    TAKE,
    CANCEL,
    WAIT,
    SERVED,
    DRAIN,
    PURGE,
    RECONCILE,
    MIGRATE,
    MIG_ATTACH,
    MIG_EVICT,
    MIG_DETACH,
    MIG_AGAIN,
    TO_MIG,
    FROM_MIG,
    GC,
)
ON_VFS = (MODE, AGAIN, MIGRATE)  # not on a GPU without the mode, or with one framework only
