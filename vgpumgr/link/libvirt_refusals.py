"""What to do about libvirt's errors. The numbers are libvirt's (virterror.h); tests compare them with libvirt-python."""

from __future__ import annotations

import errno
import os

from vgpumgr.link import refusals

STAGE = "libvirt"
BUSY = "is a VM busy there? libvirt waits 30 s for its running migration, save or backup"
START = "start it there: systemctl start libvirtd, or on RHEL 9 and later systemctl start virtqemud.socket"

SYSTEM_ERROR = 38
NO_DOMAIN = 42
AUTH_FAILED = 45
OPERATION_INVALID = 55
OPERATION_TIMEOUT = 68
NO_DOMAIN_METADATA = 80
ACCESS_DENIED = 88
AUTH_UNAVAILABLE = 94

_DISK = ("ENOSPC", "EDQUOT", "EROFS")
_DEFINITIONS = "/etc/libvirt"
_POLKIT = "log in as root, or let polkit allow org.libvirt.unix.manage"
_HINTS = {
    NO_DOMAIN: "the VM has been undefined or moved in the meantime: run the same command again",
    OPERATION_TIMEOUT: "the VM is busy (migration, save, backup): try again when that has finished",
    OPERATION_INVALID: "a transient VM has no definition to change: virsh define it first",
    AUTH_FAILED: _POLKIT,
    AUTH_UNAVAILABLE: _POLKIT,
    ACCESS_DENIED: "log in as root",
}


def hint_of(code: int, message: str) -> str | None:
    """What the user can do about that error."""
    full = next((name for name in _DISK if message.endswith(os.strerror(getattr(errno, name)))), None)
    if code == SYSTEM_ERROR and full is not None:
        return refusals.disk_hint(full, _DEFINITIONS)
    return _HINTS.get(code)
