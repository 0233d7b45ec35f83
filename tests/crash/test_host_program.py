"""The host program killed (SIGKILL) in the middle of an attach, at every named point and at moments between."""

from __future__ import annotations

import random
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import pytest

from tests.crash.rig import HALTED, HOSTS, check, host_of, must
from tests.dose import dose

if TYPE_CHECKING:
    from tests.crash.rig import Rig

pytestmark = pytest.mark.lab

POINTS = (
    *(
        "request:0",
        "request:1",
        "request:2",
        "before:put_claim",
        "write:put_claim",
        "sent:put_claim",
        "sent:create_vgpu",
    ),
    *(
        "before:attach_hostdev",
        "write:attach_hostdev",
        "sent:attach_hostdev",
        "write:bind_claim",
        "after:bind_claim",
        "send:unlock",
    ),
)
KILLS = dose(2 * len(POINTS) + 3, 100)  # each point so often, and the rest at any moment
_ENDS_S = 30.0  # far below the deadlines' sum: whoever loses the host program notices by its end, not by waiting


def test_the_host_program_killed_at_each_point_and_at_any_moment(rig: Rig) -> None:
    """At each named point, and at moments spread over the attach: the controller ends soon and clearly, and the same
    command again ends well; nothing is half made, and nothing of a host program stays on a host.
    """
    chance = random.Random(20260731)
    moments: list[dict[str, Any]] = [{"at": point} for point in POINTS * dose(2, 4)]
    moments += [{"delay_ms": chance.uniform(0, 500)} for _ in range(KILLS - len(moments))]
    chance.shuffle(moments)
    struck = []

    def attach(vm: str, moment: dict[str, Any]) -> None:
        one = rig.attach(vm, interference={**moment, "do": "kill-host-program"})
        must(one, 0, *HALTED)
        assert one.seconds < _ENDS_S, str(one)
        struck.append("killed the host program" in one.err)
        again = must(rig.attach(vm))
        assert again.seconds < _ENDS_S, str(again)

    def detach(vm: str) -> None:
        must(rig.detach(vm))

    with ThreadPoolExecutor(4) as pool:
        while moments:
            batch = [f"{letter}{number:02}" for number in range(1, 11) for letter in HOSTS]
            chosen, moments = moments[: len(batch)], moments[len(batch) :]
            batch = batch[: len(chosen)]
            list(pool.map(attach, batch, chosen))
            for host in HOSTS.values():
                check(rig, host, {vm: "2Q" for vm in batch if host_of(vm) == host})
                rig.wipe(host)
    assert len(struck) == KILLS
    assert sum(struck) > KILLS * 0.8  # the others were too late: the attach had ended
