"""What NVML on the host knows of the driver in a guest: its version and its licence. The guest itself is not asked."""

from contextlib import suppress
from typing import Any, Optional

from ..protocol.sample import GuestFact
from .running import text_of
from .scheduler import NvmlFailed, ask

_VALID = 2  # NVML_GRID_LICENSE_EXPIRY_VALID; pynvml 13 has it as a tuple


def read_guest(nvml: Any, instance: int) -> GuestFact:
    """What NVML knows of a running vGPU's guest; null is what it refuses.

    It does so while no driver runs in the guest: NVML_ERROR_DRIVER_NOT_LOADED (nvml.h 13), and the version is then
    `Not Available`.
    """
    fact: GuestFact = {"driver": None, "license": None, "license_expires": None}
    with suppress(NvmlFailed):
        fact["driver"] = text_of(ask(nvml, "nvmlVgpuInstanceGetVmDriverVersion", instance))
    with suppress(NvmlFailed):
        license_info = ask(nvml, "nvmlVgpuInstanceGetLicenseInfo_v2", instance)
        fact["license"] = int(license_info.currentState)
        fact["license_expires"] = _time(license_info.licenseExpiry)
    return fact


def _time(expiry: Any) -> Optional[str]:
    """RFC 3339; null if the licence does not expire, or NVML has no time (in nvml.h it is GMT, as nvidia-smi says)."""
    if int(expiry.status) != _VALID:
        return None
    day = "{:04}-{:02}-{:02}".format(int(expiry.year), int(expiry.month), int(expiry.day))
    return "{}T{:02}:{:02}:{:02}Z".format(day, int(expiry.hour), int(expiry.min), int(expiry.sec))
