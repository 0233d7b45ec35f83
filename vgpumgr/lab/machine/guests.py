"""What `lab guest` sets: the NVIDIA driver in the guest of a VM that runs, and its licence."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from vgpumgr.core.usage.guest import LICENSES
from vgpumgr.errors import LabError
from vgpumgr.lab.driver.model import GuestDriver

if TYPE_CHECKING:
    from collections.abc import Mapping

    from vgpumgr.lab.driver.driver import Driver
    from vgpumgr.lab.machine.holder import Guest

_STATES = {name: number for number, name in LICENSES.items()}


def put(driver: Driver, guest: Guest, request: Mapping[str, str]) -> list[str]:
    """Let the guest run that driver, or none; returns its vGPUs. Raises LabError if it has none."""
    version, expires_in = request.get("driver"), request.get("expires_in")
    runs = None
    if version is not None:
        runs = GuestDriver(
            version=version,
            license=_STATES[request.get("license", "uninitialized")],  # type: ignore[index]
            expires_s=None if expires_in is None else int(time.time() + float(expires_in)),
        )
    devices = driver.set_guest(guest.uuid, runs)
    if not devices:
        raise LabError(f"{guest.name} holds no vGPU to run a driver on", hint=f"vgpumgr lab hold {guest.name}")
    return [*devices]
