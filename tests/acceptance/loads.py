"""When a load that a test has just set is all that the simulated driver tells."""

from __future__ import annotations

import time

from tests.controllers import wait_until
from vgpumgr.lab.driver import meter


def wait_for_tick() -> None:
    """The tick in which a load begins covers the idle time before it, too: no round may begin in it."""
    begun_us = time.time_ns() // 1000
    wait_until(lambda: meter.newest_tick_us(time.time_ns() // 1000) >= begun_us, "the driver's tick after the loads")
