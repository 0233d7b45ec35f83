"""A step that waits, for the end of a VM or for a guest: asked again, told once, ended by an interrupt, refused when its time is over."""

from __future__ import annotations

import threading
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from tests.unit.core import builders
from vgpumgr import errors
from vgpumgr.controller.engine.unplugging import wait_until_gone
from vgpumgr.controller.engine.waiting import wait_for_end
from vgpumgr.core.model.domain_xml import Hostdev
from vgpumgr.core.model.vgpu import Mdev
from vgpumgr.core.step import UnplugHostdev
from vgpumgr.names import DEFAULT_SLOT, MdevUuid, VmName
from vgpumgr.timing import Timing

if TYPE_CHECKING:
    from collections.abc import Callable

    from vgpumgr.core.model.domain_xml import Domain


PLUGIN = "the vGPU plugin of a VM that ended has /dev/nvidia-vgpu0 open (pid 50, vgpu)"
CURRENT = "/sys/bus/pci/devices/0000:41:00.4/nvidia/current_vgpu_type"


class Pauses(threading.Event):
    """An event whose wait lets time pass at once."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0

    def wait(self, timeout: float | None = None) -> bool:
        self.now += timeout or 0.0
        return self.is_set()


def ending(*lines: str) -> errors.StillEnding:
    return errors.StillEnding("kvm01: A40-4Q may still be held", details=lines or [PLUGIN], hint="…")


def busy(path: str = CURRENT, errno_name: str = "EBUSY") -> errors.SysfsRefused:
    return errors.SysfsRefused("kvm01", f"{path}: refused", path=path, errno_name=errno_name)


def run(answer: Callable[[float], str], stop: Pauses | None = None) -> tuple[str, list[str], float]:
    """What it gave, what was told, and when it ended. `answer` gets the time."""
    pauses = stop or Pauses()
    told: list[str] = []
    given = wait_for_end(
        lambda: answer(pauses.now), timing=Timing(), tell=told.append, stop=pauses, clock=lambda: pauses.now
    )
    return given, told, pauses.now


def until(seconds: float, error: errors.VgpumgrError) -> Callable[[float], str]:
    def answer(now: float) -> str:
        if now < seconds:
            raise error
        return "done"

    return answer


def test_what_need_not_wait_does_not() -> None:
    assert run(until(0, ending())) == ("done", [], 0.0)


def test_it_asks_each_second_and_says_once_for_whom_it_waits() -> None:
    assert run(until(12, ending())) == ("done", [f"waiting up to 60 s: {PLUGIN}"], 12.0)


def test_the_seconds_since_an_end_are_not_told_one_by_one() -> None:
    def answer(now: float) -> str:
        if now < 4:
            raise ending(f"vm03 ended {now + 1:.0f} s ago; 5 s must pass first")
        return "done"

    assert run(answer) == ("done", ["waiting up to 60 s: vm03 ended 1 s ago; 5 s must pass first"], 4.0)


def test_it_says_so_again_when_it_waits_for_another() -> None:
    def answer(now: float) -> str:
        if now < 5:
            raise ending("a QEMU of vm01 has not ended" if now < 2 else PLUGIN)
        return "done"

    assert len(run(answer)[1]) == 2


def test_when_its_time_is_over_the_refusal_stays_one_of_use() -> None:
    with pytest.raises(errors.InUse) as caught:
        run(until(1000, ending()))
    assert (caught.value.exit_code, caught.value.outcome) == (5, "refused")
    assert caught.value.details == (PLUGIN, f"waited {Timing().ending_s:.0f} s")


def test_a_busy_vf_is_asked_again_for_half_a_minute_since_nothing_is_lost_by_it() -> None:
    given, told, _ = run(until(20, busy()))
    assert given == "done"
    assert told == ["waiting up to 30 s: the vGPU plugin (nvidia-vgpu-mgr) of the VM that stopped"]
    with pytest.raises(errors.SysfsRefused) as caught:
        run(until(1000, busy()))
    assert caught.value.details[-1] == f"waited {Timing().busy_s:.0f} s"


@pytest.mark.parametrize(
    "error", [busy(errno_name="EPERM"), busy("/sys/bus/mdev/devices/9e/remove"), errors.InUse("kvm01: in use")]
)
def test_any_other_refusal_is_one_at_once(error: errors.VgpumgrError) -> None:
    with pytest.raises(type(error)) as caught:
        run(until(1, error))
    assert caught.value is error


def test_an_interrupt_ends_it_with_the_refusal() -> None:
    stop = Pauses()

    def answer(now: float) -> str:
        if now >= 3:
            stop.set()
        raise ending()

    with pytest.raises(errors.StillEnding):
        run(answer, stop)
    assert stop.now == 3.0


def test_the_plugin_that_follows_a_long_end_of_qemu_gets_its_own_time() -> None:
    def answer(now: float) -> str:
        if now < 70:
            raise ending("a QEMU of vm01 has not ended") if now < 50 else busy()
        return "done"

    assert run(answer)[::2] == ("done", 70.0)


def test_what_goes_to_and_fro_gets_new_time_once_only() -> None:
    def answer(now: float) -> str:
        raise ending() if now % 10 < 5 else busy()

    with pytest.raises(errors.VgpumgrError) as caught:
        run(answer)
    assert caught.value.details[-1] == "waited 35 s"


MDEV = MdevUuid("85c7fd2f-ddf6-5079-9c79-7423c57e32e3")
DEVICE = Hostdev(source=Mdev(MDEV), alias="ua-vgpu0", managed=False, port=5)
STEP = UnplugHostdev(vm=builders.vm_uuid("vm01"), vm_name=VmName("vm01"), slot=DEFAULT_SLOT, device=DEVICE, port=5)
WITH = replace(builders.domain("vm01"), active=True, live=(replace(DEVICE, alias="hostdev0"),))
WITHOUT = replace(WITH, live=())


def unplugged(answer: Callable[[float], Domain | None], stop: Pauses | None = None) -> tuple[list[str], float]:
    """What was told, and when it ended. `answer` gets the time."""
    pauses = stop or Pauses()
    told: list[str] = []
    wait_until_gone(
        lambda: answer(pauses.now), STEP, timing=Timing(), tell=told.append, stop=pauses, clock=lambda: pauses.now
    )
    return told, pauses.now


@pytest.mark.parametrize(
    "gone", [WITHOUT, replace(WITH, active=False, live=None), None], ids=["let go", "shut off", "undefined"]
)
def test_it_is_over_as_soon_as_the_vm_no_longer_has_it(gone: Domain | None) -> None:
    assert unplugged(lambda _: gone) == ([], 0.0)
    told, ended = unplugged(lambda now: WITH if now < 7 else gone)
    assert ended == 7.0
    assert told == [f"waiting up to 30 s for the guest of vm01 to release mdev {MDEV}"]


@pytest.mark.parametrize("there", [WITH, replace(WITHOUT, problem="its XML cannot be parsed")])
def test_what_stays_or_cannot_be_read_is_not_taken_for_gone(there: Domain) -> None:
    pauses = Pauses()
    with pytest.raises(errors.NotWhileRunning) as caught:
        unplugged(lambda _: there, pauses)
    assert Timing().unplug_s - 2 < pauses.now <= Timing().unplug_s
    assert "still runs with it" in caught.value.message
    assert caught.value.details == ("the guest may still release it later: `vgpumgr list` shows what the VM runs with",)


def test_an_interrupt_ends_the_wait() -> None:
    pauses = Pauses()
    pauses.set()
    with pytest.raises(errors.NotWhileRunning):
        unplugged(lambda _: WITH, pauses)
    assert pauses.now == 0.0
