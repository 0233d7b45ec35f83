"""The SSH session that this program runs in, and how it is ended when its controller has been silent for too long.

A controller that was stopped may wake up in the middle of a write to libvirt. Its libvirt bytes come over the same
connection as our requests, so with the connection gone that write can no longer reach this host: the lock is only given
back after that.
"""

import os
import signal
import time
from typing import List, NamedTuple, Optional

_SHELLS = frozenset({"sh", "dash", "bash", "ash", "zsh", "ksh", "mksh", "csh", "tcsh", "fish"})
_DEEPEST = 3  # login shell, our /bin/sh, and one to spare
_END_S = 5.0


class _Process(NamedTuple):
    name: str
    parent: int


def end_session() -> bool:
    """End the sshd process that serves our connection, and wait for its end. False where we do not run under one.

    Only shells may stand between it and us: from a test or a terminal somebody else's session would be hit.
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
    # proc(5): pid (comm) state ppid …; the name may hold blanks and parentheses of its own
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
