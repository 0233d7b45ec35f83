"""Waits until a running VM has released a device. libvirt only asks; the guest decides, and may not answer."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from vgpumgr import errors
from vgpumgr.wording import Own, say

if TYPE_CHECKING:
    import threading
    from collections.abc import Callable

    from vgpumgr.core.model.domain_xml import Domain
    from vgpumgr.core.step import UnplugHostdev
    from vgpumgr.timing import Timing


def wait_until_gone(
    read: Callable[[], Domain | None],
    step: UnplugHostdev,
    *,
    timing: Timing,
    tell: Callable[[str], None],
    stop: threading.Event,
    clock: Callable[[], float] = time.monotonic,
) -> None:
    """Return when the VM's live definition is without the device, or the VM no longer runs. Raises NotWhileRunning.

    The live definition loses the device once QEMU has closed it (DEVICE_DELETED; tried on libvirt 9.0 and 11.3).
    """
    began, told = clock(), False
    while not _is_gone(read(), step):
        waited = clock() - began
        if waited + timing.unplug_poll_s > timing.unplug_s or stop.is_set():
            raise errors.NotWhileRunning(
                say(
                    "{} has not released {} after {}, and still runs with it",
                    step.vm_name,
                    step.device.source.text,
                    Own(f"{waited:.0f} s"),
                ),
                details=["the guest may still release it later: `vgpumgr list` shows what the VM runs with"],
                hint=say("the guest's driver has to stop using it first; or shut {} down, then detach", step.vm_name),
            )
        if not told:
            tell(
                f"waiting up to {timing.unplug_s:.0f} s for the guest of {step.vm_name} to release {step.device.source.text}"
            )
            told = True
        stop.wait(timing.unplug_poll_s)


def _is_gone(domain: Domain | None, step: UnplugHostdev) -> bool:
    if domain is None:
        return True
    return domain.problem is None and all(device.source != step.device.source for device in domain.live or ())
