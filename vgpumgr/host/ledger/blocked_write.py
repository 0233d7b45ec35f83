"""Writes to /sys that were begun and have not returned: until they do, their GPU takes no more writes.

Removing an mdev that a process holds does not fail: the writer sleeps in the kernel (vfio_unregister_group_dev, state
D) and not even SIGKILL ends it, until the holder releases the device, which leaves /sys/bus/mdev at once (seen on 6.1
and 6.12). A later run sees a place that only looks empty, and no holder. So the ledger has a record of each write
*before* the write begins, which is there even if this program is killed at any instant. The record costs no extra write
to disk, since it is written with the entry's `planned` or `leaving`; only an evacuation needs one. The record names the
child that writes (writer.py), which outlives us if the write does not return. /proc decides: a record whose child has
ended, or is of an earlier boot, is not reported, and the ledger's next write drops it.
"""

import time
from typing import Callable, NamedTuple, Optional, Sequence, Tuple

from ..files import Root, read_all
from ..protocol.session import BLOCKED_WRITE, INTERNAL
from ..protocol.steps import Step
from ..refusal import Refusal, reason
from .ledger import Ledger, Record, read_ledger

MOMENT_S = 0.5

_ENDED = frozenset("ZX")  # proc(5): a zombie has returned from its write, and only waits for its parent


class Child(NamedTuple):
    """A process; its start (clock ticks since boot) distinguishes it from a later one with the same pid."""

    pid: int
    start: int


def find_child(pid: int) -> Optional[Child]:
    """The process that has that pid now, even if it sleeps in the kernel; None if it has ended. Raises OSError.

    It is looked up in the machine's /proc, whatever the root is: these are processes of this program.
    """
    try:
        text = read_all("/proc/{}/stat".format(pid)).decode("ascii", "replace")
    except (FileNotFoundError, ProcessLookupError):
        return None
    # proc(5): pid (comm) state … with starttime as the 22nd field; the name itself may contain blanks and parentheses
    fields = text.rpartition(") ")[2].split()
    return None if fields[0] in _ENDED else Child(pid, int(fields[19]))


def is_alive(child: Child) -> bool:
    """Whether this very process still exists; if that is unknown, True."""
    try:
        return find_child(child.pid) == child
    except OSError:
        return True


def holding(records: Sequence[Record], boot: str, alive: Callable[[Child], bool]) -> Tuple[Record, ...]:
    """The records whose write is still under way. If `boot` is empty (unreadable), any record may be of this boot."""
    return tuple(
        record
        for record in records
        if (not boot or record["boot"] == boot) and alive(Child(record["pid"], record["start"]))
    )


def find_holding(records: Sequence[Record], boot: str) -> Tuple[Record, ...]:
    """The records that still hold after a moment, in which a child that never got its go-ahead ends."""
    until = time.monotonic() + MOMENT_S
    held = holding(records, boot, is_alive)
    while held and time.monotonic() < until:
        time.sleep(0.01)
        held = holding(held, boot, is_alive)
    return held


def record_of(step: Step, path: str, vfio: Sequence[str], *, boot: str, child: Child) -> Record:
    """The record of a step's write to this path. `vfio`: the paths that a holder of the vGPU to be removed has open."""
    return {
        "gpu_uuid": step["gpu_uuid"],
        "gpu": step["gpu"],
        "path": path,
        "verb": step["verb"],
        "vm_name": step["vm_name"],
        "slot": step["slot"],
        "vfio": list(vfio),
        "boot": boot,
        "pid": child.pid,
        "start": child.start,
        "since": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
    }


def started(pid: int) -> Child:
    """The identity of a child of ours, which has not been reaped. Raises Refusal if /proc does not show it."""
    try:
        child = find_child(pid)
    except OSError as error:
        raise Refusal(INTERNAL, "/proc/{}/stat cannot be read: {}".format(pid, reason(error))) from error
    if child is None:
        raise Refusal(INTERNAL, "the child that was to write ended before it began")
    return child


def open_ledger(root: Root, gpu_uuid: str, boot: str) -> Ledger:
    """The ledger for a step on this GPU, without expired records. Raises Refusal(BlockedWrite, LedgerBroken)."""
    ledger = read_ledger(root)
    ledger = ledger.with_blocked_writes(find_holding(ledger.blocked_writes, boot))
    for record in ledger.blocked_writes:
        if record["gpu_uuid"] == gpu_uuid:
            message = (
                "GPU {gpu} takes no more writes: {verb} for {vm_name} slot {slot} has not returned from {path} since {since} "
                "(pid {pid})"
            ).format(**record)
            raise Refusal(BLOCKED_WRITE, message, **{key: record[key] for key in ("gpu", "path", "pid", "since")})
    return ledger
