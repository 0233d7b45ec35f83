"""The host's processes according to /proc: which exist, in which state, and whether they are exiting.

An exiting process loses its memory (empty command line) and its descriptors (empty fd table) long before it is gone: a
QEMU in state D keeps its vGPU for up to half a minute. Its first thread may be a zombie while others live, so a process
counts as gone only once all its threads are (proc(5), states Z and X).
"""

import os
from contextlib import suppress
from typing import Iterator, NamedTuple, Optional

from ..files import directory, read

_ENDED = frozenset("ZX")
_EXITING = 0x00000004  # PF_EXITING of include/linux/sched.h
_KERNEL = 0x00200000  # PF_KTHREAD


class Process(NamedTuple):
    """A process that is not gone. Its pid and `start` (clock ticks since boot, field 22 of its stat) identify it.

    `ending`: it is in do_exit, or its first thread has ended. `table`: the folder of its descriptors, below /proc.
    """

    pid: int
    start: int
    state: str
    name: str
    ending: bool
    table: str


class _Stat(NamedTuple):
    name: str
    state: str
    flags: int
    start: int


def live_processes(proc: int) -> Iterator[Process]:
    """Every process except kernel threads. `proc` is the open /proc. Raises OSError if /proc cannot be listed."""
    for name in sorted(filter(str.isdigit, os.listdir(proc)), key=int):
        process = _process(proc, name)
        if process is not None:
            yield process


def _process(proc: int, pid: str) -> Optional[Process]:
    stat = _stat(proc, pid)
    if stat is None or stat.flags & _KERNEL:
        return None
    if stat.state not in _ENDED:
        return Process(
            pid=int(pid),
            start=stat.start,
            state=stat.state,
            name=stat.name,
            ending=bool(stat.flags & _EXITING),
            table=pid + "/fd",
        )
    with suppress(OSError), directory(pid + "/task", proc) as tasks:
        for task in os.listdir(tasks):
            other = _stat(tasks, task) if task != pid else None
            if other is not None and other.state not in _ENDED:
                table = "{}/task/{}/fd".format(pid, task)
                return Process(int(pid), stat.start, other.state, stat.name, ending=True, table=table)
    return None


def _stat(folder: int, number: str) -> Optional[_Stat]:
    """The stat of a process or thread; None if it is gone, which is all that can keep root from reading the stat."""
    try:
        text = read(number + "/stat", folder)
    except OSError:
        return None
    # proc(5): pid (comm) state …; the name itself may contain blanks and parentheses
    head, _, rest = text.rpartition(") ")
    fields = rest.split()
    if len(fields) < 20:
        return None
    return _Stat(name=head.partition("(")[2], state=fields[0], flags=int(fields[6]), start=int(fields[19]))
