"""Operations on lazy vGPUs (by libvirt's hook, too, at a VM's start and end), and defrag. Each commit plays some, in turn."""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING

from tests.crash.matrix.operations import (
    DEFRAG,
    HOST,
    LARGE,
    OF_FIRST,
    OTHER,
    SLOT,
    SMALL,
    THIRD,
    VM,
    WHOLE,
    Operation,
    attach,
    has,
    has_not,
)
from tests.model import promises
from tests.model.fleet import Outcome, vm_uuid
from tests.model.machine import GPUS, TYPES
from tests.model.wiring import HostProgramKilled
from tests.turn import in_turn
from tests.unit.host.restoring.sleeping import LazyHost
from vgpumgr.errors import RefusedPlan

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.model.fleet import Fleet
    from tests.model.wiring import Trouble


def _on(fleet: Fleet) -> LazyHost:
    return LazyHost(fleet.machines[HOST].framework, fleet)


def _asleep(fleet: Fleet, *vms: str, profile: str = SMALL) -> None:
    """Each has a claim, hostdev and entry, and no vGPU."""
    for vm in vms:
        promises.check_attached(fleet.machines[HOST], vm_uuid(HOST, vm), SLOT, profile, asleep=True)


def _prepare(*vms: str) -> Callable[[Fleet], None]:
    """A lazy host, on which these VMs have a lazy vGPU."""

    def prepare(fleet: Fleet) -> None:
        _on(fleet)
        attach(fleet, *vms)

    return prepare


def _prepare_replace(fleet: Fleet) -> None:
    """The VM's vGPU was made before the host became lazy."""
    attach(fleet, VM)
    _on(fleet)


def _prepare_drain(fleet: Fleet) -> None:
    """What somebody had on the second GPU is gone, so that there is room."""
    assert fleet.remove_by_hand(HOST, 0)
    _prepare(VM)(fleet)


def _check_drained(fleet: Fleet) -> None:
    """Its place is on the other GPU: there it can start."""
    _asleep(fleet, VM)
    assert {entry["gpu"] for entry in fleet.machines[HOST].ledger()} == {GPUS[1]}


def _declare(fleet: Fleet, *vms: str) -> None:
    fleet.declared = {(HOST, vm): {SLOT: SMALL} for vm in vms}


def _prepare_reconcile(fleet: Fleet) -> None:
    """One VM is to lose its vGPU, one to get one, and one has ended without the hook."""
    _declare(fleet, OTHER, THIRD)
    lazy = _on(fleet)
    assert fleet.reconcile(HOST).error is None
    assert lazy.start(THIRD) is None
    lazy.stop(THIRD, heard=False)
    _declare(fleet, VM, THIRD)


def _check_reconciled(fleet: Fleet) -> None:
    _asleep(fleet, VM, THIRD)
    has_not(fleet, OTHER)


def _prepare_end(fleet: Fleet) -> None:
    _prepare(OTHER, VM)(fleet)
    assert _on(fleet).start(VM) is None


def _start(fleet: Fleet, trouble: Trouble | None) -> Outcome:
    """virsh start."""
    lazy = _on(fleet)
    vm = lazy.vm(VM)
    if vm.active:
        return fleet.reconcile(HOST, check=True)  # it runs, and nothing is left to do
    try:
        why = lazy.waker(_at(trouble)).wake(lazy.document(vm))
    except HostProgramKilled:  # and libvirt with it
        return Outcome(killed=True)
    if why is not None or not fleet.start(HOST, vm):
        lazy.waker().put_to_sleep(lazy.document(vm))
        return Outcome(error=RefusedPlan(why or "libvirt does not find the device"))
    return Outcome()


def _end(fleet: Fleet, trouble: Trouble | None) -> Outcome:
    """The VM ends; once it is off, what its hook has left is the next reconcile's."""
    lazy = _on(fleet)
    vm = lazy.vm(VM)
    if not vm.active:
        return fleet.reconcile(HOST)
    document = lazy.document(vm)
    fleet.stop(HOST, vm)
    try:
        why = lazy.waker(_at(trouble)).put_to_sleep(document)
    except HostProgramKilled:
        return Outcome(killed=True)
    return Outcome(error=None if why is None else RefusedPlan(why))


def _at(trouble: Trouble | None) -> Callable[[str], None]:
    return trouble.at_point if trouble is not None else lambda _point: None


def _check_started(fleet: Fleet) -> None:
    has(fleet, VM)
    _asleep(fleet, OTHER)


def _prepare_elsewhere(fleet: Fleet) -> None:
    """The second GPU is empty, and somebody has all of the first, where the VM's vGPU was to be made."""
    _prepare_drain(fleet)
    assert fleet.make_by_hand(HOST, 0, 2, sorted(TYPES).index(WHOLE))


ATTACH = Operation(
    name="attach of a lazy vGPU",
    prepare=_prepare(OTHER),
    run=lambda fleet, trouble: fleet.attach(HOST, VM, SLOT, SMALL, trouble=trouble),
    check=lambda fleet: _asleep(fleet, VM, OTHER),
)
REPLACE = Operation(
    name="replace by a lazy vGPU",
    prepare=_prepare_replace,
    run=lambda fleet, trouble: fleet.attach(HOST, VM, SLOT, LARGE, replace=True, trouble=trouble),
    check=lambda fleet: _asleep(fleet, VM, profile=LARGE),
)
DETACH = Operation(
    name="detach of a lazy vGPU",
    prepare=_prepare(OTHER, VM),
    run=lambda fleet, trouble: fleet.detach(HOST, VM, SLOT, trouble=trouble),
    check=lambda fleet: has_not(fleet, VM),
)
DRAIN = Operation(
    name="drain of lazy vGPUs",
    prepare=_prepare_drain,
    run=lambda fleet, trouble: fleet.drain(OF_FIRST, trouble=trouble),
    check=_check_drained,
)
RECONCILE = Operation(
    name="reconcile of lazy vGPUs",
    prepare=_prepare_reconcile,
    run=lambda fleet, trouble: fleet.reconcile(HOST, trouble=trouble),
    check=_check_reconciled,
)
WAKE = Operation(
    name="start of a VM with a lazy vGPU",
    prepare=_prepare(OTHER, VM),
    run=_start,
    check=_check_started,
)
ELSEWHERE = Operation(
    name="start of a VM with a lazy vGPU, on another GPU",
    prepare=_prepare_elsewhere,
    run=_start,
    check=lambda fleet: has(fleet, VM),
)
END = Operation(
    name="end of a VM with a lazy vGPU",
    prepare=_prepare_end,
    run=_end,
    check=lambda fleet: _asleep(fleet, VM, OTHER),
)
BY_HOOK = (WAKE, ELSEWHERE, END)  # with no controller
SELDOM = ((DEFRAG, WAKE), (RECONCILE, ATTACH), (DRAIN, ELSEWHERE, END), (REPLACE, DETACH))
PLAYED = tuple(chain(*in_turn(SELDOM)))
