"""A whole lab: up, down, status. It starts the supervisors and finds them again through the lab's record."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import selectors
import shlex
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vgpumgr.errors import AmbiguousVm, LabError, UnknownVm, UsageError, VgpumgrError
from vgpumgr.lab import client, requirements
from vgpumgr.lab.authorities import public_half
from vgpumgr.lab.inventory import write_inventory
from vgpumgr.lab.layout import HostRecord, LabRecord, Layout, is_running, start_time
from vgpumgr.lab.machine import control, sshd
from vgpumgr.lab.machine.logins import OPS
from vgpumgr.lab.machine.machine import wait_until
from vgpumgr.lab.nvml.build import build as build_nvml
from vgpumgr.lab.spec_reader import load_spec
from vgpumgr.names import nearest

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator

# setsid forks and ends at once; unshare becomes the supervisor.
_DETACHED = ("setsid", "--fork", "unshare", "--mount", "--uts", "--ipc", "--propagation", "private")
_PID_S = 30.0
_UP_S = 120.0
_DOWN_S = 20.0
_ASK_S = 10.0
_LOGIN_S = 30.0
_LOG_LINES = 15


@dataclass(frozen=True, slots=True, kw_only=True)
class HostStatus:
    """One host's current state. `answer` is its supervisor's answer, None if the supervisor is gone."""

    record: HostRecord
    answer: dict[str, Any] | None


@dataclass(slots=True, kw_only=True)
class _Starting:
    """A supervisor that is starting: the read end of its report pipe, and the lines received so far."""

    name: str
    pipe: int
    heard: bytes = b""

    @property
    def lines(self) -> list[bytes]:
        return self.heard.split(b"\n")[:-1]


def up(layout: Layout, spec: str, *, pace: float = 1.0, tell: Callable[[str], None] = lambda _: None) -> LabRecord:
    """Bring a lab up in a directory without one; returns when every host answers. On failure everything is taken down.

    `pace`: the factor by which the imitated driver's waits are multiplied.
    """
    requirements.check()
    fleet = load_spec(spec)
    layout.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    with _alone(layout):
        _prepare(layout, LabRecord(spec=spec, hosts=(), pace=pace))
        began = time.monotonic()
        starting: list[_Starting] = []
        try:
            sshd.make_key(layout.key)
            _make_authorities(layout, fleet.certificates)
            cache = _cache_folder()
            library = build_nvml(cache)
            for host in fleet.machines:
                starting.append(_start(layout, spec, host.name, library, cache / "qemu"))
            record = _await_pids(layout, starting)
            record, host_keys = _await_hosts(layout, record, starting, tell)
            _write_known_hosts(layout, record, host_keys)
            write_inventory(layout, record, fleet)
            _check_logins(layout, record)
        except BaseException:
            down(layout)
            raise
        finally:
            # A supervisor ends by itself if its `up` is gone before the host answers.
            for pending in starting:
                os.close(pending.pipe)
        tell(f"{len(record.hosts)} hosts are up after {time.monotonic() - began:.1f} s")
        return record


def down(layout: Layout) -> bool:
    """End every process of the lab and remove its files; return whether there was a lab. Works for a dead lab, too."""
    record = layout.read()
    if record is None:
        return False
    _end_all(layout, record)
    layout.wipe()
    return True


def read(layout: Layout) -> LabRecord:
    """The record of a lab that is up. Raises UsageError if there is none."""
    record = layout.read()
    if record is None:
        raise UsageError(
            f"no lab in {layout.folder}", hint="bring one up with `vgpumgr lab up`, or name its directory with --dir"
        )
    return record


def status(layout: Layout) -> list[HostStatus]:
    return [HostStatus(record=host, answer=_ask_quietly(layout, host, "status")) for host in read(layout).hosts]


def find_vm_host(layout: Layout, vm: str) -> HostRecord:
    """The host whose libvirt knows the VM. Raises UnknownVm, AmbiguousVm."""
    answers = {host: _ask_quietly(layout, host, "vms") for host in read(layout).hosts}
    names_by_host = {host: answer["vms"] for host, answer in answers.items() if answer is not None}
    hosts = [host for host, names in names_by_host.items() if vm in names]
    if len(hosts) > 1:
        raise AmbiguousVm(f"{vm} is on {' and '.join(host.name for host in hosts)}")
    if not hosts:
        near = nearest(vm, {name for names in names_by_host.values() for name in names})
        raise UnknownVm(
            f"no host of the lab has a VM {vm!r}",
            hint=f"did you mean {near}?" if near else None,
            details=[
                f"{host.name}: {'does not answer' if answer is None else ' '.join(answer['vms']) or 'no VM'}"
                for host, answer in answers.items()
            ],
        )
    return hosts[0]


def environment(layout: Layout) -> dict[str, str]:
    """The environment variables that point vgpumgr at this lab and give its driver's pace, if it is not 1."""
    record = layout.read()
    pace = {"VGPUMGR_LAB_PACE": f"{record.pace:g}"} if record is not None and record.pace != 1 else {}
    return {
        **pace,
        "VGPUMGR_INVENTORY": str(layout.inventory),
        "VGPUMGR_STORE": str(layout.store),
        "VGPUMGR_LAB": str(layout.folder),
    }


# up, step by step


@contextlib.contextmanager
def _alone(layout: Layout) -> Iterator[None]:
    """One `up` per directory at a time. The lock is on the directory and ends with this process."""
    descriptor = os.open(layout.folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    except BlockingIOError as error:
        raise UsageError(f"another `lab up` is running in {layout.folder}") from error
    finally:
        os.close(descriptor)


def _prepare(layout: Layout, new: LabRecord) -> None:
    """Make the directory a lab's, marked by its record. Refuses if a lab is up or the contents are not a lab's."""
    record = layout.read()
    if record is not None:
        if any(is_running(host) for host in record.hosts):
            raise UsageError(
                f"a lab ({record.spec}) is already up in {layout.folder}",
                hint=f"vgpumgr lab down --dir {shlex.quote(str(layout.folder))}",
            )
        _end_all(layout, record)
        layout.wipe(keep_folder=True)
    elif strangers := layout.in_the_way():
        raise UsageError(
            f"{layout.folder} is not a lab directory and contains {', '.join(strangers)}",
            hint="name a directory that only the lab uses: --dir DIR",
        )
    if any(layout.folder.iterdir()) and layout.folder.stat().st_mode & 0o077:
        raise UsageError(
            f"{layout.folder} contains other files, and other users can read it",
            hint="name a directory that only the lab uses: --dir DIR",
        )
    layout.folder.chmod(0o700)
    layout.write(new)


def _cache_folder() -> Path:
    """Where the compiled library is kept between labs (its name identifies its sources), and QEMU's capabilities."""
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "vgpumgr" / "lab"


def _start(layout: Layout, spec: str, name: str, library: Path, answers: Path) -> _Starting:
    """Start a reparented supervisor in its own session and namespaces; of our descriptors it gets only the pipe."""
    folder = layout.host(name)
    folder.mkdir(parents=True)
    reading, writing = os.pipe()
    arguments = (str(layout.folder), spec, name, str(library), str(answers), str(writing))
    with layout.log(name).open("ab") as log_file:
        process = subprocess.run(
            [*_DETACHED, sys.executable, "-P", *("-m", "vgpumgr.lab.machine.host"), *arguments],
            stdin=subprocess.DEVNULL,
            stdout=log_file,
            stderr=log_file,
            # The same code as ours, wherever it was imported from.
            env={**os.environ, "PYTHONPATH": str(Path(__file__).resolve().parents[2])},
            pass_fds=(writing,),
            check=False,
        )
    os.close(writing)
    if process.returncode != 0:
        raise LabError(f"{name}: the supervisor did not start", details=_log_end(layout, name))
    return _Starting(name=name, pipe=reading)


def _make_authorities(layout: Layout, certified: Collection[str]) -> None:
    authorities = layout.authorities
    if "hosts" in certified:
        sshd.make_key(authorities.hosts)
    if "users" in certified:
        sshd.make_key(authorities.users)
        authorities.sign_user(layout.key.with_suffix(".pub"), "root", OPS)


def _await_pids(layout: Layout, starting: list[_Starting]) -> LabRecord:
    """Read each supervisor's first line, its pid; from here on `down` finds them."""
    hosts = []
    try:
        _listen(layout, starting, lines=1, timeout=_PID_S)
    finally:
        for host in starting:
            if host.lines:
                pid = json.loads(host.lines[0])["pid"]
                hosts.append(HostRecord(name=host.name, pid=pid, started=start_time(pid) or 0))
        record = replace(read(layout), hosts=tuple(hosts))
        layout.write(record)
    return record


def _await_hosts(
    layout: Layout, record: LabRecord, starting: list[_Starting], tell: Callable[[str], None]
) -> tuple[LabRecord, dict[str, str]]:
    """Read each second line, which says that the host answers. Returns the record with ports, and host keys by name."""
    _listen(layout, starting, lines=2, timeout=_UP_S)
    answers = {host.name: _parse_word(layout, host) for host in starting}
    for name, answer in answers.items():
        tell(f"{name} answers on port {answer['port']}")
    record = replace(record, hosts=tuple(replace(host, port=answers[host.name]["port"]) for host in record.hosts))
    layout.write(record)
    return record, {name: answer["host_key"] for name, answer in answers.items()}


def _listen(layout: Layout, starting: list[_Starting], *, lines: int, timeout: float) -> None:
    """Read that many lines from each host. Raises LabError with the end of the log if one ends first or is late."""
    deadline = time.monotonic() + timeout
    with selectors.DefaultSelector() as selector:
        for host in starting:
            if len(host.lines) < lines:
                selector.register(host.pipe, selectors.EVENT_READ, host)
        while waiting := [key.data for key in selector.get_map().values()]:
            ready = selector.select(timeout=max(0.0, deadline - time.monotonic()))
            if not ready:
                names = ", ".join(host.name for host in waiting)
                raise LabError(f"not up within {timeout:.0f} s: {names}", details=_log_end(layout, waiting[0].name))
            for key, _ in ready:
                host = key.data
                chunk = os.read(host.pipe, 65536)
                host.heard += chunk
                if not chunk:
                    raise LabError(f"{host.name}: the supervisor ended too early", details=_log_end(layout, host.name))
                if len(host.lines) >= lines:
                    selector.unregister(host.pipe)


def _parse_word(layout: Layout, host: _Starting) -> dict[str, Any]:
    answer: dict[str, Any] = json.loads(host.lines[1])
    if "error" in answer:
        details = [*answer["details"], *_log_end(layout, host.name)]
        raise LabError(f"{host.name}: {answer['error']}", hint=answer["hint"], details=details)
    return answer


def _log_end(layout: Layout, name: str) -> list[str]:
    try:
        return layout.log(name).read_text(encoding="utf-8", errors="replace").splitlines()[-_LOG_LINES:]
    except FileNotFoundError:
        return []


def _write_known_hosts(layout: Layout, record: LabRecord, host_keys: dict[str, str]) -> None:
    if (authorities := layout.authorities).for_hosts:
        host_keys = dict.fromkeys(host_keys, public_half(authorities.hosts))
    marker = "@cert-authority " if authorities.for_hosts else ""
    lines = [
        f"{marker}[{sshd.ADDRESS}]:{host.port} {' '.join(host_keys[host.name].split()[:2])}\n" for host in record.hosts
    ]
    layout.known_hosts.write_text("".join(lines), encoding="ascii")
    layout.known_hosts.chmod(0o600)


def _check_logins(layout: Layout, record: LabRecord) -> None:
    """Log in once to every host, as the lab's users will."""

    def check(host: HostRecord) -> None:
        login = client.run(layout, host, ["true"], timeout=_LOGIN_S)
        if login.returncode != 0:
            raise LabError(f"{host.name}: no login over ssh", details=login.stderr.splitlines())

    with ThreadPoolExecutor(max_workers=8) as pool:
        list(pool.map(check, record.hosts))


# down


def _end_all(layout: Layout, record: LabRecord) -> None:
    with ThreadPoolExecutor(max_workers=16) as pool:
        list(pool.map(lambda host: _end(layout, host), record.hosts))


def _end(layout: Layout, host: HostRecord) -> None:
    """End one host: ask its supervisor, and kill it if that does not help. The kernel does the rest (machine.py)."""
    folder = layout.host(host.name)
    first = 0
    if is_running(host):
        try:
            first = control.ask(folder, "status", deadline_s=_ASK_S)["first_process"]
            control.ask(folder, "shutdown", deadline_s=_ASK_S)
            wait_until(lambda: not is_running(host), "the supervisor's end", timeout=_ASK_S)
        except VgpumgrError:
            _kill(host)
    if first:
        wait_until(lambda: start_time(first) is None, f"the end of {host.name}'s processes", timeout=_DOWN_S)


def _kill(host: HostRecord) -> None:
    """Send SIGKILL to a supervisor that does not answer (it may be halfway up)."""
    if is_running(host):
        os.kill(host.pid, signal.SIGKILL)
        wait_until(lambda: not is_running(host), f"the end of {host.name}'s supervisor", timeout=_DOWN_S)


def _ask_quietly(layout: Layout, host: HostRecord, op: str) -> dict[str, Any] | None:
    try:
        return control.ask(layout.host(host.name), op, deadline_s=_ASK_S)
    except VgpumgrError:
        return None
