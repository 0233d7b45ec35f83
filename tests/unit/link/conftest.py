"""A real sshd on loopback, in a mount namespace with a home and state of its own; and a libvirtd beside it where asked.

Everything is ended by its pid. Nothing of the machine's own home, keys or libvirt is touched.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from vgpumgr.core.model.endpoint import Endpoint
from vgpumgr.lab.machine.sshd import reserve_port
from vgpumgr.names import HostName
from vgpumgr.timing import Deadlines

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

# Over these go empty file systems: what the host program and libvirtd write stays inside.
PRIVATE = ("/root", "/run/libvirt", "/var/lib/libvirt", "/var/log/libvirt", "/etc/libvirt/qemu")
QEMU_CONF = 'security_driver="none"\nuser="root"\ngroup="root"\nnamespaces=[]\ncgroup_controllers=[]\nremember_owner=0\nstdio_handler="file"\n'


class Sshd:
    """An sshd: `endpoint` reaches it, `process` is its listener. `folder` holds its keys, and a test may write there."""

    def __init__(self, place: Path, shared: Path) -> None:
        self._place = place
        self._shared = shared
        self.folder = place / "keys"
        self.known_hosts = self.folder / "known_hosts"
        self._log = place / "sshd.log"
        self._port = reserve_port()
        self.port: int = self._port.getsockname()[1]
        self._own: list[subprocess.Popen[bytes]] = []
        self.process: subprocess.Popen[bytes] | None = None
        self.libvirtd: subprocess.Popen[bytes] | None = None
        self.renew()

    def renew(self) -> None:
        """Put keys, logins and known_hosts back as they were before any test, and log everybody out."""
        kill_all(self.sessions())
        shutil.rmtree(self.folder, ignore_errors=True)
        shutil.copytree(self._shared / "keys", self.folder)
        shutil.copy(self.folder / "user.pub", self.folder / "authorized_keys")
        self.trust("host_ed25519")
        self._log.write_text("")
        self.endpoint = Endpoint(
            host=HostName("kvm01"),
            address="127.0.0.1",
            port=self.port,
            user="root",
            key_file=str(self.folder / "user"),
            known_hosts=str(self.known_hosts),
        )

    @property
    def log(self) -> str:
        return self._log.read_text()

    def trust(self, *names: str) -> None:
        lines = [f"[127.0.0.1]:{self.port} {(self.folder / f'{name}.pub').read_text()}" for name in names]
        self.known_hosts.write_text("".join(lines))

    def start(self, *options: str) -> Sshd:
        mounts = "; ".join(f"[ ! -d {path} ] || mount -t tmpfs -o mode=0700 none {path}" for path in PRIVATE)
        (self._place / "qemu.conf").write_text(QEMU_CONF)
        # What libvirtd finds out about QEMU takes it seconds, and is the same for all tests.
        cache = f"[ ! -d /var/cache/libvirt ] || mount --bind {self._shared}/libvirt-cache /var/cache/libvirt"
        binds = (
            f"{cache}; [ ! -e /etc/libvirt/qemu.conf ] || mount --bind {self._place}/qemu.conf /etc/libvirt/qemu.conf"
        )
        argv = ["/usr/sbin/sshd", "-D", "-e", "-f", "/dev/null", "-p", str(self.port)]
        settings = [
            "ListenAddress=127.0.0.1",
            "UsePAM=no",
            f"HostKey={self.folder}/host_ed25519",
            f"HostKey={self.folder}/host_ecdsa",
            f"AuthorizedKeysFile={self.folder}/authorized_keys",
            f"TrustedUserCAKeys={self.folder}/ca.pub",
            "StrictModes=no",
            f"PidFile={self._place}/sshd.pid",
            "MaxStartups=100",
            "LogLevel=VERBOSE",
            "SetEnv=PATH=/usr/sbin:/usr/bin:/sbin:/bin",
            *options,
        ]
        argv += [part for setting in settings for part in ("-o", setting)]
        script = f'set -e; {mounts}; {binds}; mkdir -p /run/sshd; exec "$@"'
        with self._log.open("ab") as log:
            self.process = subprocess.Popen(
                ["unshare", "-m", "/bin/sh", "-c", script, "sh", *argv],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
        self._own.append(self.process)
        wait_for(lambda: can_connect(self.port), 60, self._log.read_text)
        return self

    def start_libvirtd(self) -> subprocess.Popen[bytes]:
        """Start a libvirtd in place of the one that was killed."""
        assert self.process is not None
        place = "/run/libvirt/libvirt-sock"
        subprocess.run([*self.inside, "rm", "-f", place], check=True)
        log_file = self._place / "libvirtd.log"
        with log_file.open("ab") as log:
            daemon = subprocess.Popen(
                [*self.inside, "/usr/sbin/libvirtd", "-p", str(self._place / "libvirtd.pid")],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
        self._own.append(daemon)
        self.libvirtd = daemon
        ready = [*self.inside, "test", "-S", place]
        wait_for(lambda: subprocess.run(ready, check=False).returncode == 0, 60, log_file.read_text)
        return daemon

    @property
    def inside(self) -> list[str]:
        """What runs a command in the host's namespace."""
        assert self.process is not None
        return ["nsenter", "-t", str(self.process.pid), "-m", "-r", "--"]

    def sessions(self) -> list[int]:
        """Pids of the processes that serve connections now."""
        return [] if self.process is None else descendants(self.process.pid)

    def stop(self) -> None:
        pids = self.sessions()
        for one in reversed(self._own):
            one.kill()
            one.wait(60)
        kill_all(pids)
        self._port.close()


def make_key(path: Path, kind: str = "ed25519", passphrase: str = "") -> Path:
    bits = ("-b", "2048") if kind == "rsa" else ()  # more take seconds to find
    subprocess.run(["ssh-keygen", "-q", "-t", kind, *bits, "-N", passphrase, "-C", "test", "-f", str(path)], check=True)
    return path


def can_connect(port: int) -> bool:
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1) as one:
        one.settimeout(1)
        return one.recv(4) == b"SSH-"
    return False


def kill_all(pids: Iterable[int], number: int = signal.SIGKILL) -> None:
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)


@contextlib.contextmanager
def stopped(*pids: int) -> Iterator[None]:
    """These processes do nothing while the block lasts, so whatever returns inside it did not wait for them."""
    kill_all(pids, signal.SIGSTOP)
    try:
        wait_for(
            lambda: {state(pid) for pid in pids} == {"T"}, 60
        )  # one that runs on another processor stops a little later
        yield
        assert {state(pid) for pid in pids} == {"T"}
    finally:
        kill_all(pids, signal.SIGCONT)


def state(pid: int) -> str | None:
    """The letter of the process's state; None if there is no such process."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return None


def is_over(pid: int) -> bool:
    return state(pid) in (None, "Z")


def descendants(pid: int) -> list[int]:
    found: list[int] = []
    for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split():
        with contextlib.suppress(OSError):
            found += [int(child), *descendants(int(child))]
    return found


def wait_for(condition: Callable[[], bool], timeout_s: float, report: Callable[[], str] = str) -> None:
    end = time.monotonic() + timeout_s
    while not condition():
        if time.monotonic() > end:
            pytest.fail(f"not within {timeout_s} s\n{report()}")
        time.sleep(0.02)


@pytest.fixture(scope="session")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What every sshd has: its keys, and what libvirtd has found out about QEMU."""
    folder = tmp_path_factory.mktemp("shared")
    for name in ("keys", "libvirt-cache"):
        (folder / name).mkdir()
    for name, kind in (("host_ed25519", "ed25519"), ("host_ecdsa", "ecdsa"), ("user", "ed25519")):
        make_key(folder / "keys" / name, kind)
    return folder


@pytest.fixture(scope="module")
def make_sshd(tmp_path_factory: pytest.TempPathFactory, shared: Path) -> Iterator[Callable[[], Sshd]]:
    """Make an sshd that is set up but not started. It ends with the file's tests."""
    if os.geteuid() != 0 or shutil.which("unshare") is None or not Path("/usr/sbin/sshd").exists():
        pytest.skip("needs root, unshare and sshd")
    with contextlib.ExitStack() as stack:

        def make() -> Sshd:
            host = Sshd(tmp_path_factory.mktemp("sshd"), shared)
            stack.callback(host.stop)
            return host

        yield make


@pytest.fixture
def new_sshd(make_sshd: Callable[[], Sshd]) -> Sshd:
    """An sshd for this test alone, set up but not started."""
    return make_sshd()


@pytest.fixture(scope="module")
def running(make_sshd: Callable[[], Sshd]) -> Sshd:
    return make_sshd().start()


@pytest.fixture
def sshd(running: Sshd) -> Sshd:
    """The sshd that all tests of the file share, as it was before any of them."""
    running.renew()
    return running


@pytest.fixture
def quick() -> Deadlines:
    """Deadlines short enough to wait for, long enough for a loaded machine where nothing hangs."""
    return Deadlines(dns=2, tcp=2, banner=1, kex=2, auth=2, program=3, libvirt=3)


@pytest.fixture
def nobody(tmp_path: Path) -> Callable[[int], Endpoint]:
    """An endpoint on a port of loopback, whose key and known_hosts are not there."""
    endpoint = Endpoint(
        host=HostName("kvm01"),
        address="127.0.0.1",
        port=0,
        user="root",
        key_file=str(tmp_path / "none"),
        known_hosts=str(tmp_path / "known_hosts"),
    )
    return lambda port: replace(endpoint, port=port)
