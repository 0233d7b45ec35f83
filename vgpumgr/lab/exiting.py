"""A QEMU that has been killed and is still closing its vGPU, as others see it: a process in state D that seems to have nothing.

A process that ends gives its memory back before its files (do_exit() in kernel/exit.c): while the driver waits in the last close,
/proc/PID/cmdline and /proc/PID/fd are empty, and only the name, the state and the control group are left. Here a process of
QEMU's name that has closed all and forgotten its command line waits for a child that it made by vfork(): that is state D.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from vgpumgr.lab.machine import wait_until
from vgpumgr.lab.requirements import HOST_PYTHON

if TYPE_CHECKING:
    from vgpumgr.lab.machine import Machine

_FOLDER = "/run/lab-exiting"
# posix_spawn() is vfork() in C: its caller sleeps until the child has become another program, which here opens a gate first.
_PROGRAM = """
import ctypes, os, sys
pid_file, gate = sys.argv[1:]
os.makedirs(os.path.dirname(pid_file), exist_ok=True)
os.mkfifo(gate)
if os.fork():
    os._exit(0)
os.setsid()
with open(pid_file + ".new", "w") as file:
    file.write(str(os.getpid()))
os.rename(pid_file + ".new", pid_file)
libc = ctypes.CDLL(None)
libc.prctl(15, b"qemu-system-x86", 0, 0, 0)  # PR_SET_NAME
with open("/proc/self/stat") as file:
    first, last = map(int, file.read().rpartition(")")[2].split()[45:47])  # arg_start, arg_end
if libc.prctl(35, 9, ctypes.c_ulong(first), 0, 0):  # PR_SET_MM, PR_SET_MM_ARG_END
    ctypes.memset(first, 0, last - first)
os.closerange(0, 1024)
os.posix_spawn("/bin/true", ["true"], {}, file_actions=[(os.POSIX_SPAWN_OPEN, 0, gate, os.O_RDONLY, 0)])
"""


def start(machine: Machine, vm_uuid: str) -> None:
    """Let a QEMU be exiting; returns when it is in state D."""
    machine.must([str(HOST_PYTHON), "-I", "-S", "-c", _PROGRAM, _pid_file(vm_uuid), f"{_FOLDER}/{vm_uuid}.gate"])
    wait_until(lambda: _state(machine, vm_uuid) == "D", "a QEMU that exits")


def stop(machine: Machine, vm_uuid: str) -> None:
    """It has exited."""
    pid = machine.alive(_pid_file(vm_uuid))
    if pid is not None:
        machine.run(["kill", "-KILL", "--", f"-{pid}"])  # the child as well
    machine.run(["rm", "-f", _pid_file(vm_uuid), f"{_FOLDER}/{vm_uuid}.gate"])


def lives(machine: Machine, vm_uuid: str) -> bool:
    return machine.alive(_pid_file(vm_uuid)) is not None


def _state(machine: Machine, vm_uuid: str) -> str | None:
    pid = machine.alive(_pid_file(vm_uuid))
    return None if pid is None else machine.state(pid)


def _pid_file(vm_uuid: str) -> str:
    return f"{_FOLDER}/{vm_uuid}.pid"
