"""How long the host program waits for the driver: the shipped times, scaled where a lab imitates the driver.

The times decide whether a vGPU is lost (steps/guard.py), and the holder of the controller's key can send any request.
So no request can change them, only root of this host, by a file with the pace of its imitated driver, which `vgpumgr
lab up --pace` writes. A real host has no such file.
"""

import os
import stat
from typing import NamedTuple

from .files import Root

# A folder that nothing of ours makes on a host, and words before the number: no other file can be taken for it.
PACE = "/run/vgpumgr-rehearsal/pace"
_WORDS = "this host's GPU driver is imitated, at the pace "
_LEAST = 0.01
_MOST_BYTES = 200


class Timing(NamedTuple):
    """The waits for the driver, in seconds."""

    # The driver's wait for a plugin before it removes the vGPU anyway (open kernel part 525.85.07: 250 x 20 ms).
    settle_s: float = 5.0
    # Between two checks of the holders, if nothing shows when the VM ended.
    recheck_s: float = 0.25
    # Before sriov-manage, which could not obtain the unbindLock, is run again.
    unbind_s: float = 1.0
    # Between two looks whether the driver has set up new virtual functions.
    offer_s: float = 0.5
    # For the first new virtual function, once sriov-manage has ended without an error.
    vfs_s: float = 60.0

    def at(self, pace: float) -> "Timing":
        """These times, scaled for a driver that is imitated at that pace."""
        return Timing(*(pace * seconds for seconds in self))


def of_host(root: Root) -> Timing:
    """The times on this host: scaled if root's file says that its driver is imitated, else as shipped."""
    try:
        pace = _pace(root)
    except (OSError, ValueError):
        return Timing()
    return Timing().at(pace) if _LEAST <= pace <= 1 else Timing()


def text(pace: float) -> str:
    """What the file says."""
    return "{}{:g}\n".format(_WORDS, pace)


def _pace(root: Root) -> float:
    """The pace in root's file. Raises OSError or ValueError if it is absent, not root's alone, or malformed."""
    path = root.path(PACE)
    folder = os.open(os.path.dirname(path), os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        _check_alone(os.fstat(folder))
        # Without waiting, should it be a FIFO.
        file = os.open(
            os.path.basename(path), os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=folder
        )
        try:
            status = os.fstat(file)
            if not stat.S_ISREG(status.st_mode):
                raise ValueError
            _check_alone(status)
            content = os.read(file, _MOST_BYTES).decode("ascii")
        finally:
            os.close(file)
    finally:
        os.close(folder)
    if not content.startswith(_WORDS):
        raise ValueError
    return float(content[len(_WORDS) :])


def _check_alone(status: os.stat_result) -> None:
    """Raise ValueError if anyone but this program's user, who is root on a host, can have written it."""
    if status.st_uid != os.geteuid() or status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise ValueError
