"""Waits for what ends by itself: a VM's QEMU, and the vGPU plugin behind it.

The host program checks and refuses, and writes nothing, so the step is retried each second. The host's lock is
kept, and an interrupt ends the wait at once.
"""

from __future__ import annotations

import re
import time
from typing import TYPE_CHECKING, TypeVar

from vgpumgr import errors
from vgpumgr.wording import Own, say

if TYPE_CHECKING:
    import threading
    from collections.abc import Callable

    from vgpumgr.timing import Timing

_SECONDS = re.compile(r"\b[0-9]+ s ago")  # left out of comparisons: the same wait is reported only once
_BUSY_FILE = "/current_vgpu_type"

T = TypeVar("T")


def wait_for_end(
    call: Callable[[], T],
    *,
    timing: Timing,
    tell: Callable[[str], None],
    stop: threading.Event,
    clock: Callable[[], float] = time.monotonic,
) -> T:
    """The result of `call`, once nothing blocks it. Raises StillEnding or SysfsRefused on timeout or if `stop` is set.

    The plugin's time begins when QEMU has ended: the first change from one kind of refusal to the other restarts it.
    """
    first = began = clock()
    told = ""
    kind: type[errors.VgpumgrError] | None = None
    while True:
        try:
            return call()
        except errors.StillEnding as error:
            refusal: errors.VgpumgrError = error
            limit, why = timing.ending_s, "; ".join(error.details)
        except errors.SysfsRefused as error:
            if error.errno_name != "EBUSY" or not error.path.endswith(_BUSY_FILE):
                raise
            refusal = error
            limit, why = timing.busy_s, "the vGPU plugin (nvidia-vgpu-mgr) of the VM that stopped"
        now = clock()
        if kind is None:
            kind = type(refusal)
        elif type(refusal) is not kind and began == first:
            began = now
        if now - began + timing.ending_poll_s > limit or stop.is_set():
            refusal.details = (*refusal.details, say("waited {}", Own(f"{now - first:.0f} s")))
            raise refusal
        if (about := _SECONDS.sub("", why)) != told:
            tell(f"waiting up to {limit:.0f} s: {why}")
            told = about
        stop.wait(timing.ending_poll_s)
