"""What the driver on a host knows of the driver in a running VM: its version, and the state of its licence."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Final, Literal

License = Literal["uninitialized", "unlicensed-unrestricted", "unlicensed-restricted", "unlicensed", "licensed"]

LICENSED: Final = "licensed"
LICENSES: Final[dict[int, License]] = {
    1: "uninitialized",
    2: "unlicensed-unrestricted",
    3: "unlicensed-restricted",
    4: "unlicensed",
    5: LICENSED,
}
"""By NVML_GRID_LICENSE_STATE_* of nvml.h 13; its 0 is `unknown`."""
_NONE: Final = "Not Available"
_LONGEST: Final = 80  # NVML_SYSTEM_DRIVER_VERSION_BUFFER_SIZE


@dataclass(frozen=True, slots=True, kw_only=True)
class Guest:
    """A guest as NVML on the host reports it. None: unknown, or no NVIDIA driver runs in the guest.

    `license_expires`: RFC 3339, UTC; None also if the licence does not expire. A guest renews it before that time.
    """

    driver: str | None = None
    license: License | None = None
    license_expires: str | None = None


def parse(driver: str | None, state: int | None, expires: str | None) -> Guest | None:
    """The guest; None if nothing is known of it. The version comes from the guest itself, so it may be any text."""
    version = (driver or "").strip()[:_LONGEST]
    guest = Guest(
        driver=version if version and version != _NONE else None,
        license=None if state is None else LICENSES.get(state),
        license_expires=expires if expires is not None and _is_time(expires) else None,
    )
    return None if guest == Guest() else guest


def _is_time(text: str) -> bool:
    try:
        return datetime.fromisoformat(text).tzinfo is not None
    except ValueError:
        return False
