"""The SSH session that this program runs in, and how to end it when its controller has been silent for too long.

A stopped controller may wake up in the middle of a write to libvirt. Its libvirt bytes use the same connection as our
requests, so once the connection is gone, that write can no longer reach this host. The lock is released only after that.
"""

import os
import signal
import time
from typing import List, NamedTuple, Optional

_SHELLS = frozenset({"sh", "dash", "bash", "ash", "zsh", "ksh", "mksh", "csh", "tcsh", "fish"})
_DEEPEST = 3  # login shell, our /bin/sh, and one spare
_END_S = 5.0


class _Process(NamedTuple):
    name: str
    parent: int


def end_session() -> bool:
    """End the sshd process that serves our connection, and wait for its end. False if we do not run under one.

    Only shells may be between it and us: otherwise, from a test or a terminal, another session would be ended.
    """
    server = _find_server(os.getppid())
    if server is None:
        return False
    for number in (signal.SIGTERM, signal.SIGKILL):
        try:
            os.kill(server, number)
        except ProcessLookupError:
            return True
        if _wait_for_end(server):
            return True
    return False


def _find_server(pid: int) -> Optional[int]:
    for _ in range(_DEEPEST + 1):
        process = _read(pid)
        if process is None:
            return None
        if process.name in ("sshd", "sshd-session"):  # the second since OpenSSH 9.8
            return pid
        if process.name not in _SHELLS:
            return None
        pid = process.parent
    return None


def _read(pid: int) -> Optional[_Process]:
    try:
        with open("/proc/{}/stat".format(pid), encoding="ascii", errors="replace") as file:
            text = file.read()
    except OSError:
        return None
    # proc(5): pid (comm) state ppid …; the name itself may contain blanks and parentheses
    name, _, rest = text.partition(" (")[2].rpartition(") ")
    fields: List[str] = rest.split()
    return _Process(name, int(fields[1]))


def _wait_for_end(pid: int) -> bool:
    until = time.monotonic() + _END_S
    while time.monotonic() < until:
        process = _read(pid)
        if process is None:
            return True
        time.sleep(0.01)
    return False
