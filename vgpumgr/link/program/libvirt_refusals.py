"""Translates libvirt's errors into ours, and says what to do about them.

The numbers are those of virterror.h; tests compare them with libvirt-python's.
"""

from __future__ import annotations

import errno
import os
from typing import TYPE_CHECKING

from vgpumgr.errors import HostDeadline, HypervisorError, Unreachable
from vgpumgr.link.host_text import disk_hint

if TYPE_CHECKING:
    from vgpumgr.errors import HostError
    from vgpumgr.names import HostName

STAGE = "libvirt"
BUSY = "is a VM busy there? libvirt waits 30 s for its running migration, save or backup"
_MISSING = "is libvirt installed there? apt-get install libvirt-daemon-system, or dnf install libvirt-daemon-kvm"
START = "start it there: systemctl start libvirtd, or on RHEL 9 and later systemctl start virtqemud.socket"

SYSTEM_ERROR = 38
NO_DOMAIN = 42
AUTH_FAILED = 45
OPERATION_INVALID = 55
OPERATION_TIMEOUT = 68
ACCESS_DENIED = 88
AUTH_UNAVAILABLE = 94

_DISK = ("ENOSPC", "EDQUOT", "EROFS")
_DEFINITIONS = "/etc/libvirt"
_POLKIT = "log in as root, or let polkit allow org.libvirt.unix.manage"
_HINTS = {
    NO_DOMAIN: "the VM has been undefined or moved in the meantime: run the same command again",
    OPERATION_TIMEOUT: "the VM is busy (migration, save, backup): try again when that has finished",
    OPERATION_INVALID: "if the VM is transient, `virsh define` it first; if it was shut down in the meantime, run the same command again",
    AUTH_FAILED: _POLKIT,
    AUTH_UNAVAILABLE: _POLKIT,
    ACCESS_DENIED: "log in as root",
}


def hint_of(code: int, message: str) -> str | None:
    """Say what the user can do about that error of libvirt; None if there is nothing to say."""
    full = next((name for name in _DISK if message.endswith(os.strerror(getattr(errno, name)))), None)
    if code == SYSTEM_ERROR and full is not None:
        return disk_hint(full, _DEFINITIONS)
    return _HINTS.get(code)


def translate(host: HostName, why: str, said: str, *, code: int, what: str, begun: bool = True) -> HostError:
    """Return the error for `why`, which is one of the protocol's LibvirtRefusals.

    `what`: what was to be done. `said` and `code` are libvirt's own, cleaned. `begun`: the change may have been
    made, or may be made later.
    """
    error: HostError
    match why:
        case "missing":
            error = Unreachable(host, STAGE, f"no libvirt library: {said}", hint=_MISSING)
        case "closed":
            error = Unreachable(
                host, STAGE, f"{what}: libvirt does not answer: {said}", hint=hint_of(code, said) or START
            )
        case "silent":
            error = HostDeadline(host, STAGE, f"{what}: {said}", hint=BUSY)
        case _:
            error = HypervisorError(host, f"{what}: {said}", code=code, hint=hint_of(code, said))
    if isinstance(error, Unreachable):
        error.may_happen = begun
    return error
