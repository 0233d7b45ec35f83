"""Carries out operations on a host, for the contract: one JSON line of requests in, one of answers out.

Runs there under the host's own Python (3.9 or later, standard library only), read from stdin; nothing is stored. Every
operation runs on a thread of its own, because a write to /sys may never come back: what takes longer than `within` seconds
is answered with {"waits": true} and can be asked for again by its name.

A vGPU is held as QEMU holds one: a child process opens the group and the device by VFIO's ioctls. It is a process of its
own because a thread that waits in the kernel for the device to be let go would else keep it open itself.
"""

# ruff: noqa: PTH115, PTH116, PTH119, PTH208, UP035 -- the very system calls are what is tried
from __future__ import annotations

import ctypes
import errno
import fcntl
import json
import os
import select
import signal
import stat
import struct
import subprocess
import sys
import threading
import time
import warnings
from contextlib import suppress
from typing import Any, Callable, NoReturn

Answer = dict[str, Any]
_READ_BYTES = 1 << 16
_DEFAULT_WITHIN_S = 150.0
_CLOSES_S = 60.0
_NODE_S = 60.0  # udev makes /dev/vfio/N some time after the device is there
_PR_SET_PDEATHSIG = 1
# linux/vfio.h: _IO(';', 100 + n)
_SET_IOMMU, _SET_CONTAINER, _GET_DEVICE_FD = 0x3B66, 0x3B68, 0x3B6A
_TYPE1_IOMMU = 1
_PCI = "/sys/bus/pci/devices"
_MDEVS = "/sys/bus/mdev/devices"
_PARAMETERS = "/sys/module/nvidia/parameters"
_SRIOV_MANAGE = "/usr/lib/nvidia/sriov-manage"
_FLAGS = {"r": os.O_RDONLY, "w": os.O_WRONLY, "rw": os.O_RDWR}
_KINDS = ((stat.S_ISDIR, "directory"), (stat.S_ISREG, "file"))


class Call:
    """An operation under way."""

    def __init__(self, work: Callable[[], Any]) -> None:
        self._work = work
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._began = time.monotonic()
        self._answer: Answer | None = None
        self._thread.start()

    def _run(self) -> None:
        try:
            answer: Answer = {"value": self._work()}
        except OSError as error:
            answer = {"errno": _name(error)}
        answer["seconds"] = round(time.monotonic() - self._began, 4)
        self._answer = answer

    def answer(self, within: float) -> Answer:
        self._thread.join(within)
        return self._answer or {"waits": True}


class Holder:
    """A child that has something open. Made on the main thread: the child ends with the thread that made it."""

    def __init__(self, opens: Callable[[], tuple[int, ...]]) -> None:
        self.failed: str | None = None
        ours, theirs = os.pipe()
        self._pid = os.fork()
        if self._pid == 0:
            os.close(ours)
            _hold_until_killed(opens, theirs)
        os.close(theirs)
        ready, _, _ = select.select([ours], [], [], _NODE_S + 5)
        said = os.read(ours, 64).decode() if ready else "ETIMEDOUT"
        os.close(ours)
        if said != "held":
            self.failed = said
            self.end()

    def kill(self) -> None:
        with suppress(ProcessLookupError):
            os.kill(self._pid, signal.SIGKILL)

    def end(self) -> None:
        self.kill()
        with suppress(ChildProcessError):
            os.waitpid(self._pid, 0)

    def is_closing(self) -> bool:
        """It has no descriptor any more and sleeps in the last close of one; or it has come to its end."""
        descriptor = os.open(f"/proc/{self._pid}/stat", os.O_RDONLY)
        state = _read_all(descriptor).rpartition(")")[2].split()[0]
        os.close(descriptor)
        return state == "Z" or (state == "D" and not os.listdir(f"/proc/{self._pid}/fd"))


def _hold_until_killed(opens: Callable[[], tuple[int, ...]], report: int) -> NoReturn:
    try:
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        quiet = os.open("/dev/null", os.O_RDWR)
        for descriptor in (0, 1, 2):
            os.dup2(quiet, descriptor)
        try:
            kept: tuple[int, ...] | None = opens()
            said = "held"
        except OSError as error:
            kept = None
            said = _name(error)
        os.write(report, said.encode())
        os.close(report)
        while kept:
            signal.pause()
    finally:
        os._exit(0)


def _open_device(device: str) -> tuple[int, ...]:
    """Open a vGPU as QEMU does: container, group, device. Gives the three descriptors."""
    home = _MDEVS if "-" in device else _PCI
    group_name = os.path.basename(os.readlink(f"{home}/{device}/iommu_group"))
    container = os.open("/dev/vfio/vfio", os.O_RDWR)
    group = _open_soon("/dev/vfio/" + group_name)
    fcntl.ioctl(group, _SET_CONTAINER, struct.pack("i", container))
    fcntl.ioctl(container, _SET_IOMMU, _TYPE1_IOMMU)
    # Of a bytearray ioctl() gives the call's own result, the descriptor.
    return container, group, fcntl.ioctl(group, _GET_DEVICE_FD, bytearray(device.encode() + b"\0"))


def _open_plugin() -> tuple[int, ...]:
    """Open the only vGPU's character device as its plugin does, with a node of its own making."""
    descriptor = os.open("/proc/devices", os.O_RDONLY)
    lines = _read_all(descriptor).splitlines()
    os.close(descriptor)
    (major,) = (int(line.split()[0]) for line in lines if line.endswith(" nvidia-vgpu-vfio"))
    path = "/dev/nvidia-vgpu0"
    with suppress(FileExistsError):
        os.mknod(path, stat.S_IFCHR | 0o600, os.makedev(major, 0))
    return (os.open(path, os.O_RDWR),)


def _open_soon(path: str) -> int:
    until = time.monotonic() + _NODE_S
    while True:
        try:
            return os.open(path, os.O_RDWR)
        except FileNotFoundError:
            if time.monotonic() > until:
                raise
            time.sleep(0.01)


class Runner:
    """What a connection has under way: calls that wait, files kept open, vGPUs held."""

    def __init__(self) -> None:
        self._calls: dict[str, Call] = {}
        self._kept: dict[str, int] = {}
        self._holders: dict[str, Holder] = {}

    def answer(self, request: dict[str, Any]) -> Answer:
        """One request's answer. The next one is not begun before it."""
        what = request["do"]
        within = request.get("within", _DEFAULT_WITHIN_S)
        if what == "await":
            return self._calls[request["name"]].answer(request["within_s"])
        if what == "start":
            what = "read" if request["text"] is None else "write"
        if what == "hold":
            return self._hold(request["device"], lambda: _open_device(request["device"]))
        if what == "plugin" and request["there"]:
            return self._hold(request["device"], _open_plugin)
        if what in ("let_go", "plugin"):
            return self._let_go(request["device"], waits=request.get("waits", True))
        if what == "end_row":
            return {"value": self.end_row()}
        call = Call(lambda: getattr(self, "do_" + what)(request))
        if "name" in request:
            self._calls[request["name"]] = call
        return call.answer(within)

    def _hold(self, device: str, opens: Callable[[], tuple[int, ...]]) -> Answer:
        holder = Holder(opens)
        if holder.failed is not None:
            return {"errno": holder.failed}
        self._holders[device] = holder
        return {"value": None}

    def _let_go(self, device: str, *, waits: bool = True) -> Answer:
        if not waits:
            # A signal is not the end yet: what comes next must not overtake it.
            holder = self._holders[device]
            holder.kill()
            until = time.monotonic() + _CLOSES_S
            while not holder.is_closing():
                if time.monotonic() > until:
                    return {"errno": "ETIMEDOUT"}
                time.sleep(0.01)
        elif device in self._holders:
            self._holders.pop(device).end()
        return {"value": None}

    def end_row(self) -> list[str]:
        """Nothing of the last row is left: neither files, nor holders, nor waiting writes."""
        for device in list(self._holders):
            self._let_go(device)
        for descriptor in self._kept.values():
            os.close(descriptor)
        self._kept.clear()
        blocked_writes = [name for name, call in self._calls.items() if "waits" in call.answer(_DEFAULT_WITHIN_S)]
        self._calls.clear()
        return blocked_writes

    # operations, each on its own thread

    def do_write(self, request: dict[str, Any]) -> None:
        truncate = os.O_TRUNC if request.get("truncate") else 0
        _write(request["path"], request["text"], truncate)

    def do_run(self, request: dict[str, Any]) -> None:
        _run(*request["argv"])

    def do_read(self, request: dict[str, Any]) -> str:
        descriptor = os.open(request["path"], os.O_RDONLY)
        try:
            return _read_all(descriptor)
        finally:
            os.close(descriptor)

    def do_list(self, request: dict[str, Any]) -> list[str]:
        return sorted(os.listdir(request["path"]))

    def do_follow(self, request: dict[str, Any]) -> str:
        target: str = os.path.realpath(request["path"])
        os.stat(target)
        return "/".join(target.split("/")[-request["parts"] :])

    def do_look(self, request: dict[str, Any]) -> str:
        mode = _lstat_within(request["path"], request.get("within_s", 0.0)).st_mode
        if stat.S_ISLNK(mode):
            return "link"
        kind = next(name for is_it, name in _KINDS if is_it(mode))
        return f"{kind} {stat.S_IMODE(mode):04o}"

    def do_open(self, request: dict[str, Any]) -> None:
        descriptor = os.open(request["path"], _FLAGS[request["how"]])
        if "keep" in request:
            self._kept[request["keep"]] = descriptor
        else:
            os.close(descriptor)

    def do_read_kept(self, request: dict[str, Any]) -> str:
        return _read_all(self._kept[request["keep"]])

    def do_write_kept(self, request: dict[str, Any]) -> None:
        os.write(self._kept[request["keep"]], request["text"].encode())

    def do_clean(self, request: dict[str, Any]) -> list[str]:
        """No vGPU is left, and the parameters named are as given. Answers what would not go."""
        for name, value in request["parameters"].items():
            _write(f"{_PARAMETERS}/{name}", value)
        left: list[str] = []
        with suppress(FileNotFoundError):
            for uuid in os.listdir(_MDEVS):
                left += _tried(f"{_MDEVS}/{uuid}/remove", "1")
        for path in request["current_types"]:
            with suppress(FileNotFoundError):
                if self.do_read({"path": path}).strip() != "0":
                    left += _tried(path, "0")
        with suppress(FileNotFoundError):  # the lab has another way
            _write(f"{_PARAMETERS}/forget_lost", "1")
        left += _without_mig(request["mig"], request["nvml"])
        path, lines = request["nvml"], request["equal_size"]
        for line in lines:
            with suppress(OSError):  # no VFs, or a vGPU that is lost: told above, or forgotten with a reload
                _write(path, line)
        return left


def _without_mig(pci: str, nvml: str) -> list[str]:
    """VFs on and MIG off, and with that no instance. Answers what would not go."""
    descriptor = os.open(nvml, os.O_RDONLY)
    lines = _read_all(descriptor).splitlines()
    os.close(descriptor)
    (gpu,) = (index for index, line in enumerate(lines) if line.startswith("gpu ") and f" pci={pci} " in line)
    number = lines[gpu].split()[1].partition("=")[2]
    instances = any(line.startswith(f"instance gpu={number} ") for line in lines)
    descriptor = os.open(f"{_PCI}/{pci}/sriov_numvfs", os.O_RDONLY)
    vfs = _read_all(descriptor).strip() != "0"
    os.close(descriptor)
    if vfs and not instances and " mig=1 " not in lines[gpu]:
        return []
    try:
        _run(_SRIOV_MANAGE, "-d", pci)
        _write(nvml, f"mig pci={pci} on=0\n")
        _run(_SRIOV_MANAGE, "-e", pci)
    except OSError as error:
        return [f"MIG of {pci}: {_name(error)}"]
    return []


def _run(*argv: str) -> None:
    if subprocess.run(argv, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, check=False).returncode != 0:
        raise OSError(errno.EPROTO, argv[0])


def _lstat_within(path: str, within_s: float) -> os.stat_result:
    until = time.monotonic() + within_s
    while True:
        try:
            return os.lstat(path)
        except FileNotFoundError:
            if time.monotonic() >= until:
                raise
            time.sleep(0.02)


def _name(error: OSError) -> str:
    return errno.errorcode.get(error.errno or 0, str(error.errno))


def _tried(path: str, text: str) -> list[str]:
    try:
        _write(path, text)
    except OSError as error:
        return [f"{path}: {_name(error)}"]
    return []


def _write(path: str, text: str, flags: int = 0) -> None:
    descriptor = os.open(path, os.O_WRONLY | flags)
    try:
        os.write(descriptor, text.encode())
    finally:
        os.close(descriptor)


def _read_all(descriptor: int) -> str:
    data = b""
    while True:
        piece = os.read(descriptor, _READ_BYTES)
        if not piece:
            return data.decode("utf-8", "backslashreplace")
        data += piece


def main() -> None:
    """Serve requests until stdin ends."""
    warnings.simplefilter("ignore")  # fork() beside threads: the child only makes system calls
    runner = Runner()
    while True:
        line = sys.stdin.readline()
        if not line:
            break
        answers = [runner.answer(request) for request in json.loads(line)]
        sys.stdout.write(json.dumps(answers) + "\n")
        sys.stdout.flush()
    runner.end_row()
    os._exit(0)


main()
