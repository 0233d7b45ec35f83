"""A step that ends as nobody foresaw, is refused or has no effect: what the run did is undone, or told, and the exit code says whether another try helps."""

from __future__ import annotations

import errno
import os
import re
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

from tests.dose import dose
from tests.model import promises
from tests.model.fleet import Fleet
from tests.model.libvirt_double import Libvirt
from tests.model.wiring import Trouble
from vgpumgr import errors
from vgpumgr.controller.engine.stale import judged
from vgpumgr.host import files
from vgpumgr.host.ledger import ledger
from vgpumgr.host.protocol.gpu import MDEV_VF, VENDOR_VFIO
from vgpumgr.host.steps import steps
from vgpumgr.host.steps.hardware import changed
from vgpumgr.names import DEFAULT_SLOT

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.model.fleet import Outcome
    from tests.model.pool import Pool
    from vgpumgr.core.step import Step

    Command = Callable[..., Outcome]

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


def each_command(test: Any) -> Any:
    return each_framework(pytest.mark.parametrize("run", [attach, detach])(test))


def no_thread() -> None:
    raise RuntimeError("can't start new thread")


@each_command
def test_what_nobody_foresaw_is_undone_or_told_wherever_it_comes(pool: Pool, framework: str, run: Command) -> None:
    """Before and after each call inside the lock, until one run makes them all."""
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


@each_command
def test_a_full_disk_is_refused_by_name_before_the_first_step(
    pool: Pool, framework: str, run: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
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
    monkeypatch.setattr(ledger, "_try_folder", full_disk)
    assert run(fleet).word == "unchanged", "what needs no change needs no room"


@each_command
@pytest.mark.parametrize("number", [1, 2])
def test_a_disk_that_fills_up_meanwhile_is_undone_or_told(
    pool: Pool, framework: str, run: Command, number: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first write of the ledger comes before the hardware's, the second after it."""
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


def refuse(*_: object) -> None:
    """The host program finds a GPU that the facts do not show so: as where /proc has no UUID and NVML has."""
    raise changed("GPU-9f at 0000:41:00.0", "a GPU whose UUID cannot be read")


def test_what_is_refused_although_the_facts_are_as_they_were_is_no_matter_of_another_try(
    pool: Pool, monkeypatch: pytest.MonkeyPatch
) -> None:
    fleet = fleet_of(pool, MDEV_VF)
    before = promises.truth(fleet.machines[HOST])
    monkeypatch.setattr(steps, "check_place", refuse)
    error = attach(fleet).error
    assert isinstance(error, errors.Unsure)
    assert error.exit_code == 5
    assert "a GPU whose UUID cannot be read; nothing has changed on the host since" in error.message
    assert promises.truth(fleet.machines[HOST]) == before


@pytest.mark.parametrize("second", [errors.Unsure("kvm01: odd"), RuntimeError("can't start new thread")])
def test_whatever_goes_wrong_with_the_second_look_the_first_error_stands(second: Exception) -> None:
    def look() -> tuple[Step, ...]:
        raise second

    error = errors.StalePlan("kvm01: changed")
    assert judged(error, HOST, (), look) is error


def test_what_somebody_changed_meanwhile_is_for_another_try(pool: Pool) -> None:
    """A hand in /sys takes the place in the middle of the attach."""
    seen = []
    for at in range(0, 16, dose(2, 1)):
        fleet = fleet_of(pool, MDEV_VF)
        trouble = Trouble(HOST, at=at, inside=True, act=partial(take_the_place, fleet))
        error = attach(fleet, trouble).error
        if error is not None:
            seen.append(type(error))
            assert error.exit_code == 6
            assert fleet.attach(HOST, VM, DEFAULT_SLOT, fleet_profile(fleet)).error is None
    assert errors.StalePlan in seen


def take_the_place(fleet: Fleet) -> None:
    fleet.make_by_hand(HOST, 0, 0, 0)


def fleet_profile(fleet: Fleet) -> str:
    """A profile of the size that the first GPU holds, so that either takes it."""
    (vgpu, *_) = fleet.machines[HOST].hardware().values()
    return vgpu.type.name.rpartition("-")[2]


@each_framework
@pytest.mark.parametrize("call", ["attach_device", "set_metadata"])
def test_a_change_that_libvirt_accepts_and_does_not_make_is_told(
    pool: Pool, monkeypatch: pytest.MonkeyPatch, framework: str, call: str
) -> None:
    """After its steps a change looks at the host again."""
    fleet = fleet_of(pool, framework)
    monkeypatch.setattr(Libvirt, call, lambda *_, **__: None)
    error = attach(fleet).error
    assert isinstance(error, errors.NotConverged)
    assert re.search(f"{VM}.* is not as planned", error.message)
