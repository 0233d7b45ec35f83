"""A step that ends as nobody foresaw, or a disk that cannot be written: what the run did is undone, or told; the rest stays."""

from __future__ import annotations

import errno
import os
from typing import TYPE_CHECKING

import pytest

from tests.model import promises
from tests.model.fleet import Fleet
from tests.model.wiring import Trouble
from vgpumgr import errors
from vgpumgr.host import files
from vgpumgr.host.ledger import ledger
from vgpumgr.host.protocol import MDEV_VF, VENDOR_VFIO
from vgpumgr.names import DEFAULT_SLOT

if TYPE_CHECKING:
    from tests.model.fleet import Outcome
    from tests.model.pool import Pool

CALLS = 40  # more than a command makes inside the lock
HOST, VM = "kvm01", "1vm01"
each_framework = pytest.mark.parametrize("framework", [MDEV_VF, VENDOR_VFIO])


def fleet_of(pool: Pool, framework: str, *, attached: bool = False) -> Fleet:
    fleet = Fleet.install({HOST: pool.machine(HOST, framework)}, {HOST: 2})
    if attached:
        assert attach(fleet).word == "done"
    return fleet


def attach(fleet: Fleet, trouble: Trouble | None = None) -> Outcome:
    return fleet.attach(HOST, VM, DEFAULT_SLOT, "4Q", trouble=trouble)


def detach(fleet: Fleet, trouble: Trouble | None = None) -> Outcome:
    return fleet.detach(HOST, VM, trouble=trouble)


def no_thread() -> None:
    raise RuntimeError("can't start new thread")


@each_framework
@pytest.mark.parametrize("command", [attach, detach])
def test_what_nobody_foresaw_is_undone_or_told_wherever_it_comes(pool: Pool, framework: str, command: object) -> None:
    """Before and after each call inside the lock, until one run makes them all."""
    run = attach if command is attach else detach
    undone = 0
    for at in range(CALLS):
        fleet = fleet_of(pool, framework, attached=run is detach)
        before = promises.truth(fleet.machines[HOST])
        trouble = Trouble(HOST, at=at, inside=True, act=no_thread)
        error: Exception | None
        try:
            error = run(fleet, trouble).error
        except RuntimeError as raised:  # before the first step: what prints errors says what it is
            error = raised
            assert promises.truth(fleet.machines[HOST]) == before, f"call {at}"
        if not trouble.done:
            break
        told = isinstance(error, errors.PartialApply) or "all steps were done" in str(error)
        assert error is None or "can't start new thread" in str(error), f"call {at}: {error}"
        assert error is None or told or promises.truth(fleet.machines[HOST]) == before, f"call {at}: {error}"
        undone += isinstance(error, errors.Unexpected) and bool(error.details)
        promises.check_always(fleet)
        assert run(fleet).error is None, f"call {at}"
    else:
        pytest.fail(f"more than {CALLS} calls")
    assert undone


def full_disk(*_: object) -> None:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


@each_framework
@pytest.mark.parametrize("command", [attach, detach])
def test_a_full_disk_is_refused_by_name_before_the_first_step(
    pool: Pool, framework: str, command: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = attach if command is attach else detach
    fleet = fleet_of(pool, framework, attached=run is detach)
    before = promises.truth(fleet.machines[HOST])
    monkeypatch.setattr(ledger, "_try_folder", full_disk)
    error = run(fleet).error
    assert isinstance(error, errors.LedgerUnwritable)
    assert (error.exit_code, error.errno_name) == (1, "ENOSPC")
    assert "/var/lib" in error.message
    assert "`df -h /var/lib" in (error.hint or "")
    assert promises.truth(fleet.machines[HOST]) == before
    monkeypatch.undo()
    assert run(fleet).word == "done"


@each_framework
def test_on_a_full_disk_what_needs_no_change_is_still_unchanged(
    pool: Pool, framework: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    fleet = fleet_of(pool, framework, attached=True)
    monkeypatch.setattr(ledger, "_try_folder", full_disk)
    assert attach(fleet).word == "unchanged"


@each_framework
@pytest.mark.parametrize("command", [attach, detach])
@pytest.mark.parametrize("number", [1, 2])
def test_a_disk_that_fills_up_meanwhile_is_undone_or_told(
    pool: Pool, framework: str, command: object, number: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first write of the ledger comes before the hardware's, the second after it."""
    run = attach if command is attach else detach
    fleet = fleet_of(pool, framework, attached=run is detach)
    before = promises.truth(fleet.machines[HOST])
    real, count = files.write_whole, [0]

    def write(descriptor: int, data: bytes) -> None:
        if len(data) == ledger._ROOM:  # the probe of the lock
            return
        count[0] += 1
        if count[0] >= number:
            full_disk()
        real(descriptor, data)

    monkeypatch.setattr(ledger, "write_whole", write)
    error = run(fleet).error
    assert error is not None
    assert "ENOSPC" in error.message
    assert "`df -h /var/lib/vgpumgr/ledger.json`" in (error.hint or "")
    if number == 1:
        assert isinstance(error, errors.LedgerUnwritable)
        assert promises.truth(fleet.machines[HOST]) == before
        assert error.details == ("the steps before it are undone",)
    else:
        assert isinstance(error, errors.PartialApply)
        promises.check_always(fleet)
    monkeypatch.undo()
    assert run(fleet).word == "done"
