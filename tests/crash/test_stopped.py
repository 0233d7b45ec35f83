"""A controller that stands still (SIGSTOP, a frozen network) while it holds a host's lock."""

from __future__ import annotations

import signal
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pytest

from tests.controllers import wait_until
from tests.crash.rig import check, host_of, must
from vgpumgr.host.protocol.session import LEASE_S

if TYPE_CHECKING:
    from tests.crash.rig import Rig

pytestmark = pytest.mark.lab

STOPPED_AT = {
    "a01": "before:put_claim",
    "b01": "write:create_vgpu",
    "c01": "write:attach_hostdev",
    "p01": "sent:attach_hostdev",
    "d01": "send:unlock",
}


def test_a_stopped_controller_loses_the_lock_and_writes_no_more(rig: Rig) -> None:
    """Who waits too short a time is told who has the lock; who waits longer gets it when the lease ends; and the stopped
    one, once it goes on, changes nothing and says that it lost the lock.
    """

    def story(vm: str) -> None:
        host, other = host_of(vm), vm[0] + "02"
        stopped = rig.attach(vm, interference={"at": STOPPED_AT[vm], "do": "stop"})
        wait_until(lambda: stopped.state == "T", f"{vm}'s controller stopped")
        waiting = rig.attach(other)
        impatient = must(rig.attach(vm[0] + "03", "--timeout", "8"), 6)
        assert f"attach {vm}" in impatient.err, str(impatient)
        assert waiting.running
        must(waiting)
        assert waiting.began + waiting.seconds - stopped.began > LEASE_S, str(waiting)
        before = rig.look(host)
        stopped.kill(signal.SIGCONT)
        must(stopped, 6)
        assert "lock is no longer ours" in stopped.err, str(stopped)
        after = rig.look(host)
        for what in ("hardware", "ledger", "vms"):
            assert after[what] == before[what], vm
        must(rig.attach(vm))
        must(rig.detach(other))
        check(rig, host, {vm: "2Q"})

    with ThreadPoolExecutor(len(STOPPED_AT)) as pool:
        list(pool.map(story, STOPPED_AT))
