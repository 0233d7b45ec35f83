"""Forks the `vgpumgr` of a page's shell from a process that has imported it. The pages have 200 of them, and a start costs 0.3 s of CPU time.

`python -m tests.pages.forking SOCKET` is that process. What the shell finds in its PATH is CLIENT: it hands over its three streams, and ends
as the fork ends. The fork has the client's arguments, environment, working directory and mount namespace. README.md's tour and `make demo`
start the program itself.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import os
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

from tests import zygote
from tests.controllers import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator

_ROOT = Path(__file__).resolve().parents[2]
_NEW_MOUNTS = 0x00020000  # CLONE_NEWNS, linux/sched.h
_CREDENTIALS = 12  # struct ucred: pid, uid, gid
_STREAMS = 3

# The shell may end it by TERM (`timeout` does), and wants to see how the fork ended. It is isolated, so that it starts in 15 ms.
CLIENT = """\
#!{python} -IS
import os, signal, socket
server = socket.socket(socket.AF_UNIX)
server.connect({address!r})
socket.send_fds(server, [b"+"], [0, 1, 2])
answers = server.makefile()
pid = int(answers.readline())
signal.signal(signal.SIGTERM, lambda number, frame: os.kill(pid, number))
status = int(answers.readline())
if status < 0:
    signal.signal(-status, signal.SIG_DFL)
    os.kill(os.getpid(), -status)
os._exit(status)
"""


@contextlib.contextmanager
def programs(folder: Path) -> Iterator[Path]:
    """A folder for a shell's PATH, with a `vgpumgr` that is forked. The process that forks is there as long as the context."""
    address = folder / "socket"
    (folder / "bin").mkdir(parents=True)
    client = folder / "bin" / "vgpumgr"
    client.write_text(CLIENT.format(python=sys.executable, address=str(address)), encoding="utf-8")
    client.chmod(0o755)
    server = subprocess.Popen([sys.executable, "-m", "tests.pages.forking", str(address)], cwd=_ROOT)
    try:
        wait_until(address.exists, "commands can be forked")
        yield client.parent
    finally:
        server.kill()
        server.wait()


def serve(address: str) -> None:
    """Fork a command for each connection, for ever."""
    zygote.import_all()
    gc.collect()
    gc.freeze()
    listening = socket.socket(socket.AF_UNIX)
    listening.bind(f"{address}.new")
    listening.listen()
    Path(f"{address}.new").rename(address)
    while True:
        client, _ = listening.accept()
        if os.fork() == 0:
            listening.close()
            if _watch(client):
                return
            os._exit(0)
        client.close()
        with contextlib.suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass


def _watch(client: socket.socket) -> bool:
    """Fork the command, and tell its client how it ended. True in the command's own process, which goes on from here."""
    _, streams, _, _ = socket.recv_fds(client, 1, _STREAMS)
    pid = int.from_bytes(client.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS)[:4], sys.byteorder)
    command = os.fork()
    if command == 0:
        client.close()
        _become(Path(f"/proc/{pid}"), streams)
        return True
    client.sendall(b"%d\n" % command)
    _, status = os.waitpid(command, 0)
    with contextlib.suppress(OSError):  # the client was ended, too
        client.sendall(b"%d\n" % os.waitstatus_to_exitcode(status))
    return False


def _become(client: Path, streams: list[int]) -> None:
    """Be what the client was started as."""
    arguments, variables = (
        [os.fsdecode(word) for word in (client / name).read_bytes().split(b"\0")[:-1]]
        for name in ("cmdline", "environ")
    )
    folder = (client / "cwd").readlink()
    mounts = os.open(client / "ns/mnt", os.O_RDONLY | os.O_CLOEXEC)
    if ctypes.CDLL(None, use_errno=True).setns(mounts, _NEW_MOUNTS) != 0:
        raise OSError(ctypes.get_errno(), "setns")
    os.chdir(folder)
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
        os.close(stream)
    os.setsid()
    os.environ.clear()
    os.environ.update(variable.partition("=")[::2] for variable in variables)
    time.tzset()
    sys.argv = arguments[2:]  # after Python and its options


if __name__ == "__main__":
    serve(sys.argv[1])
    from vgpumgr.cli.main import main

    main()
