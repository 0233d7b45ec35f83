"""A session: its greeting, its limits, and why a request is refused."""

from typing import TypedDict

PROTOCOL = 7
MAGIC = "VGPUMGR/1 "
# After this long without a line from the lock's owner, the host program releases the lock and exits. It is longer than
# libvirt's wait for a busy domain (30 s) and the time between pings (8 s): what waits in libvirtd has ended by then.
LEASE_S = 40.0
MAX_LINE_BYTES = 16 * 1024 * 1024
LOCK_PATH = "/root"

# dispatcher.py, which stands alone, has the same
DISPATCHER_SAYS = "vgpumgr dispatcher: "

EXIT_LEASE = 3  # the program's status where the exclusive lock's owner was silent for too long

# Where the driver may have refused, an err has log, too: its lines since the step began (facts/driver_log.py).
# kinds of err
LOCKED = "Locked"  # owner
NOT_LOCKED = "NotLocked"
CHANGED = "Changed"  # expected, found: nothing was written
IN_USE = "InUse"  # vm (its owner, or null), holders (one line each): nothing was written, or the message says what was
NOT_YET = "NotYet"  # vm, waits_for (one line each): nothing was written; what still has the vGPU ends by itself: retry
SYSFS_REFUSED = "SysfsRefused"  # path (below /sys, or in /etc/modprobe.d), errno, read_back
DEADLINE = "Deadline"  # path: the write had not returned in time; it may still happen
BLOCKED_WRITE = "BlockedWrite"  # gpu (PCI address), path, pid, since: a write has not returned; nothing was written
LEDGER_BROKEN = "LedgerBroken"  # path
LEDGER_UNWRITABLE = (
    "LedgerUnwritable"  # path, errno; written: whether the step's own write to the hardware was done before
)
NOT_ROOT = "NotRoot"
NO_HOOK = "NoHook"  # libvirt would not make a lazy vGPU when its VM starts: nothing was written
LAZIES = "Lazies"  # what is installed makes vGPUs that are in the ledger: nothing was removed
PINNED_HERE = "Pinned"
UNWRITABLE = "Unwritable"  # path, errno: a file of the installation
BAD_REQUEST = "BadRequest"
INTERNAL = "Internal"
LIBVIRT_REFUSED = (
    "LibvirtRefused"  # why (LibvirtRefusal), code (libvirt's), verb; begun: whether the change may have been made
)
NVML_REFUSED = "NvmlRefused"  # function, code (NVML's; 0: accepted, but without effect); message has NVML's text
TOOL_REFUSED = (
    "ToolRefused"  # command (as a shell would take it), output (its last lines), status (null: it did not end in time)
)


class Hello(TypedDict):
    protocol: int
    pid: int
    euid: int
    python: str
    boot: str
