"""Every operation broken off at every moment, in every way, on every framework: the same command again ends it.

In this process, on tests/model's hosts: the real controller, link and host program over the lab's driver. Real processes,
ssh and libvirtd are broken in tests/crash, at fewer moments. For a commit each way is tried once, at moments all over the operation, on
the framework that has its turn (tests/turn.py); `make test-kills` tries every way at every moment on each of them.
"""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING

import pytest

from tests.crash.matrix.listening import listening
from tests.crash.matrix.operations import (
    BOB,
    DEFRAG,
    DRAIN,
    FROM_MIG,
    HOST,
    IN_PLACE,
    MIG_EVICT,
    MIGRATE,
    MODE,
    ON_VFS,
    OPERATIONS,
    SCHEDULER,
    SLOT,
    Operation,
    fresh,
)
from tests.crash.matrix.sleeping import BY_HOOK, ELSEWHERE, PLAYED
from tests.crash.matrix.ways import EIO, ENOSPC, LIBVIRTD, PROGRAM, REBOOT, STOPPED, WAYS, Strike
from tests.dose import FULL
from tests.model import promises
from tests.model.machine import GPUS, Machine
from tests.model.pool import POOL
from tests.model.wiring import POINT
from tests.turn import turn
from vgpumgr.controller.requests import RequestsResult
from vgpumgr.controller.results import FleetResult, PurgeResult
from vgpumgr.host.protocol.gpu import MDEV_PF, MDEV_VF, VENDOR_VFIO

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.model.fleet import Fleet, Outcome

pytestmark = [pytest.mark.lab, pytest.mark.timeout(1800)]

FRAMEWORKS = (MDEV_PF, MDEV_VF, VENDOR_VFIO)
ALL = (*OPERATIONS, *PLAYED)
_DISK = "size=2m"  # what the host program wants to have free fits in often, and it is soon full


@pytest.fixture(scope="module", autouse=True)
def _machines() -> Iterator[None]:
    """Whose disks are small enough to be filled."""
    with POOL:
        disks = [folder for framework in FRAMEWORKS for folder in POOL.machine(HOST, framework).disks]
        for folder in disks:
            subprocess.run(["mount", "-t", "tmpfs", "-o", _DISK, "tmpfs", folder], check=True)
        try:
            yield
        finally:
            for folder in disks:
                subprocess.run(["umount", folder], check=True)


def moments(operation: Operation, framework: str) -> list[tuple[str, str]]:
    """What an undisturbed run of it is told, in order."""
    fleet = fresh(framework, mig=operation.mig)
    operation.prepare(fleet)
    strike = Strike(fleet=fleet, way=WAYS[0], at=0)
    with listening(strike.hear):
        outcome = operation.run(fleet, strike.trouble)
    assert problem(outcome) is None
    operation.check(fleet)
    return strike.heard


def problem(outcome: Outcome) -> Exception | None:
    """What went wrong, if anything."""
    if isinstance(outcome.result, FleetResult | RequestsResult):
        return next(iter(outcome.result.problems), None)
    if isinstance(outcome.result, PurgeResult):
        return next(iter(outcome.result.errors), None)
    return outcome.error


def others(fleet: Fleet, operation: Operation) -> object:
    """What is not the operation's: foreign vGPUs, and the entries and definitions of VMs that it does not name."""
    machine = fleet.machines[HOST]
    now = promises.truth(machine)
    mine = {
        "attach": (1, 4),
        "replace": (1, 4),
        "replace in place": (1, 4),
        "detach": (1, 4),
        "attach --reservation": (1, 4),
        "attach --wait": (1, 4),
        "attach of what waits": (1, 4),
        "attach again, mixed-size": (1, 4),
        "reconcile": (1, 2, 4),
        "attach several": (1, 2, 4),
        "detach several": (1, 2, 4),
        "drain": (1, 4),
        "defrag": (1, 2, 4),
        "attach of a lazy vGPU": (1, 4),
        "replace by a lazy vGPU": (1, 4),
        "detach of a lazy vGPU": (1, 4),
        "drain of lazy vGPUs": (1, 4),
        "reconcile of lazy vGPUs": (1, 2, 3, 4),
        "start of a VM with a lazy vGPU": (1, 4),
        "start of a VM with a lazy vGPU, on another GPU": (1, 4),
        "end of a VM with a lazy vGPU": (1, 4),
        "host purge": (1, 2, 4),
        "migrate-framework": (1, 2, 4),
        "attach that makes a GPU instance": (1, 4),
        "attach that takes cached GPU instances away": (1, 4),
        "detach from a GPU instance": (1, 4),
        "attach again after a reboot, with its GPU instance": (1, 4),
        "mode set mig": (1, 2, 4),
        "mode set equal-size, from mig": (1, 2, 4),
    }
    names = {f"1vm{number:02}" for number in mine.get(operation.name, (4,))}
    return (
        dict(fleet.handmade[HOST]),
        set(machine.foreign_instances),
        [entry for entry in now.entries if entry.vm_name not in names],
        {uuid: domain for uuid, domain in now.domains.items() if domain.name not in names},
    )


def kill(operation: Operation, framework: str, way: str, at: int) -> tuple[str, str]:
    """Break it off there, and run it again. Which moment it was."""
    fleet = fresh(framework, mig=operation.mig)
    operation.prepare(fleet)
    before = others(fleet, operation)
    strike = Strike(fleet=fleet, way=way, at=at)
    try:
        with listening(strike.hear):
            operation.run(fleet, strike.trouble)
    finally:
        strike.mend()
    assert strike.struck, "there is no such moment"
    promises.check_always(fleet)
    if operation in (IN_PLACE, MIG_EVICT, FROM_MIG) and way == STOPPED:
        # Whoever came by took the only room that there is, or a type that the other mode does not have, and gives it back.
        fleet.detach(HOST, BOB, SLOT)
    if operation is DEFRAG and way == REBOOT:
        fleet.reconcile(HOST)  # nothing that is gone moves
    again = operation.run(fleet, None)
    assert problem(again) is None, f"the same command again: {problem(again)}"
    promises.check_always(fleet)
    if way == REBOOT:
        if operation in (SCHEDULER, MODE, DRAIN, MIGRATE):
            fleet.reconcile(HOST)
    else:
        assert others(fleet, operation) == before, "somebody else's was touched"
    operation.check(fleet)
    assert operation.run(fleet, None).word in ("unchanged", ""), "and once more it has nothing to do"
    return strike.heard[-1]


def frameworks(operation: Operation) -> tuple[str, ...]:
    """Those that have what it is about."""
    if operation is ELSEWHERE:  # on vendor-vfio the definition names the function, so that the VM starts nowhere else
        return (MDEV_PF, MDEV_VF)
    return tuple(one for one in FRAMEWORKS if one != MDEV_PF or not (operation.mig or operation in ON_VFS))


def played(number: int, operation: Operation) -> tuple[str, ...]:
    """On which it is broken off. Neighbours in the list take different ones."""
    able = frameworks(operation)
    return able if FULL else (able[(turn(len(FRAMEWORKS)) + number) % len(able)],)


def ways(operation: Operation) -> Iterator[tuple[int, str]]:
    """The ways that can befall it, with their numbers. The hook has no controller, and asks libvirt nothing."""
    alone = (PROGRAM, REBOOT, EIO, ENOSPC)
    return ((number, way) for number, way in enumerate(WAYS) if operation not in BY_HOOK or way in alone)


def tried(way: int, moments: int) -> range:
    """At which moments, from 1, it is broken off in this way."""
    return range(1, moments + 1) if FULL else range(1 + way * moments // len(WAYS), 2 + way * moments // len(WAYS))


@pytest.mark.parametrize(
    ("operation", "framework"),
    [(one, framework) for number, one in enumerate(ALL) for framework in played(number, one)],
    ids=str,
)
def test_broken_off_at_each_moment_the_same_command_again_ends_it(
    operation: Operation, framework: str, record_property: Callable[[str, object], None]
) -> None:
    heard = moments(operation, framework)
    assert moments(operation, framework) == heard, "the same run is not the same moments"
    failed = []
    count = 0
    for number, way in ways(operation):
        for at in tried(number, len(heard)):
            count += 1
            try:
                assert kill(operation, framework, way, at) == heard[at - 1]
            except AssertionError as error:
                failed.append(f"{way} at {at} of {len(heard)} ({' '.join(heard[at - 1])}): {str(error)[:300]}")
    every = "each moment" if FULL else "a moment each"
    line = f"{operation} on {framework}: {len(heard)} moments, {len([*ways(operation)])} ways, {every}: {count} kills"
    record_property("counted", f"kill matrix: {line}, {count - len(failed)} converged")
    assert not failed, f"{len(failed)} of {count}:\n" + "\n".join(failed)


def test_libvirtd_killed_while_the_last_claim_is_bound_leaves_the_vgpus_whose_devices_were_there_already() -> None:
    """They were removed once, since no step had put a device into a definition: the VMs lost them for good."""
    heard = moments(FROM_MIG, VENDOR_VFIO)
    at = max(number for number, moment in enumerate(heard, 1) if moment == (POINT, "libvirt: changed"))
    assert kill(FROM_MIG, VENDOR_VFIO, LIBVIRTD, at) == heard[at - 1]


def test_the_hosts_of_these_tests_are_as_small_as_they_must_be() -> None:
    """A disk that is full is found by the next write to it."""
    machine: Machine = POOL.machine(HOST, MDEV_VF)
    strike = Strike(fleet=fresh(MDEV_VF), way="ENOSPC", at=1)
    strike.hear(HOST, "begin", "anything")
    with pytest.raises(OSError, match="No space"):
        (machine.disks[0] / "more").write_bytes(b"x")
    strike.mend()
    (machine.disks[0] / "more").write_bytes(b"x")
    assert machine.driver.gpu(GPUS[0]).vgpus == []
