"""A device that a running guest is asked for: waited for, told once, and what is true is said when the time is over."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from tests.unit.controller.engine.test_waiting import Pauses
from tests.unit.core import builders
from vgpumgr import errors
from vgpumgr.controller.engine.unplugging import UNPLUG_S, wait_until_gone
from vgpumgr.core.model.domain_xml import Hostdev
from vgpumgr.core.model.vgpu import Mdev
from vgpumgr.core.plan.step import UnplugHostdev
from vgpumgr.names import DEFAULT_SLOT, MdevUuid, VmName

if TYPE_CHECKING:
    from collections.abc import Callable

    from vgpumgr.core.model.domain_xml import Domain

MDEV = MdevUuid("85c7fd2f-ddf6-5079-9c79-7423c57e32e3")
DEVICE = Hostdev(source=Mdev(MDEV), alias="ua-vgpu0", managed=False, port=5)
STEP = UnplugHostdev(vm=builders.vm_uuid("vm01"), vm_name=VmName("vm01"), slot=DEFAULT_SLOT, device=DEVICE, port=5)
WITH = replace(builders.domain("vm01"), active=True, live=(replace(DEVICE, alias="hostdev0"),))
WITHOUT = replace(WITH, live=())


def run(answer: Callable[[float], Domain | None], stop: Pauses | None = None) -> tuple[list[str], float]:
    """What was told, and when it ended. `answer` gets the time."""
    pauses = stop or Pauses()
    told: list[str] = []
    wait_until_gone(lambda: answer(pauses.now), STEP, tell=told.append, stop=pauses, clock=lambda: pauses.now)
    return told, pauses.now


@pytest.mark.parametrize(
    "gone", [WITHOUT, replace(WITH, active=False, live=None), None], ids=["let go", "shut off", "undefined"]
)
def test_it_is_over_as_soon_as_the_vm_no_longer_has_it(gone: Domain | None) -> None:
    assert run(lambda _: gone) == ([], 0.0)
    told, ended = run(lambda now: WITH if now < 7 else gone)
    assert ended == 7.0
    assert told == [f"waiting up to 30 s for the guest of vm01 to release mdev {MDEV}"]


@pytest.mark.parametrize("there", [WITH, replace(WITHOUT, problem="its XML cannot be parsed")])
def test_what_stays_or_cannot_be_read_is_not_taken_for_gone(there: Domain) -> None:
    pauses = Pauses()
    with pytest.raises(errors.NotWhileRunning) as caught:
        run(lambda _: there, pauses)
    assert UNPLUG_S - 2 < pauses.now <= UNPLUG_S
    assert "still runs with it" in caught.value.message
    assert caught.value.details == (
        "its guest was asked, and may still follow: `vgpumgr list` shows what it runs with",
    )


def test_an_interrupt_ends_the_wait() -> None:
    pauses = Pauses()
    pauses.set()
    with pytest.raises(errors.NotWhileRunning):
        run(lambda _: WITH, pauses)
    assert pauses.now == 0.0
