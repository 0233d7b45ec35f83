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
from vgpumgr.names import HostName
from vgpumgr.timing import Deadlines

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

# Over these go empty file systems: what the host program and libvirtd write stays inside.
PRIVATE = ("/root", "/run/libvirt", "/var/lib/libvirt", "/var/log/libvirt", "/etc/libvirt/qemu")
QEMU_CONF = 'security_driver="none"\nuser="root"\ngroup="root"\nnamespaces=[]\ncgroup_controllers=[]\nremember_owner=0\nstdio_handler="file"\n'


class Sshd:
    """A running sshd: `endpoint` reaches it, `pid` is its listener, `folder` holds its keys."""

    def __init__(self, folder: Path, shared: Path) -> None:
        self.folder = folder
        self.libvirt_cache = shared / "libvirt-cache"
        self.port = free_port()
        shutil.copytree(shared / "keys", folder, dirs_exist_ok=True)
        shutil.copy(folder / "user.pub", folder / "authorized_keys")
        self.known_hosts = folder / "known_hosts"
        self.trust("host_ed25519")
        self.endpoint = Endpoint(
            host=HostName("kvm01"),
            address="127.0.0.1",
            port=self.port,
            user="root",
            key_file=str(folder / "user"),
            known_hosts=str(self.known_hosts),
        )
        self._own: list[subprocess.Popen[bytes]] = []
        self.process: subprocess.Popen[bytes] | None = None

    def trust(self, *names: str) -> None:
        lines = [f"[127.0.0.1]:{self.port} {(self.folder / f'{name}.pub').read_text()}" for name in names]
        self.known_hosts.write_text("".join(lines))

    def start(self, *options: str) -> Sshd:
        mounts = "; ".join(f"[ ! -d {path} ] || mount -t tmpfs -o mode=0700 none {path}" for path in PRIVATE)
        (self.folder / "qemu.conf").write_text(QEMU_CONF)
        # What libvirtd finds out about QEMU takes it seconds, and is the same for all tests.
        cache = f"[ ! -d /var/cache/libvirt ] || mount --bind {self.libvirt_cache} /var/cache/libvirt"
        binds = (
            f"{cache}; [ ! -e /etc/libvirt/qemu.conf ] || mount --bind {self.folder}/qemu.conf /etc/libvirt/qemu.conf"
        )
        bin_folder = self.folder / "bin"
        bin_folder.mkdir()
        argv = ["/usr/sbin/sshd", "-D", "-e", "-f", "/dev/null", "-p", str(self.port)]
        settings = [
            "ListenAddress=127.0.0.1",
            "UsePAM=no",
            f"HostKey={self.folder}/host_ed25519",
            f"HostKey={self.folder}/host_ecdsa",
            f"AuthorizedKeysFile={self.folder}/authorized_keys",
            "StrictModes=no",
            f"PidFile={self.folder}/sshd.pid",
            "MaxStartups=100",
            # A folder of the test's own comes first: a stand-in for a program of the host is put there.
            f"SetEnv=PATH={bin_folder}:/usr/sbin:/usr/bin:/sbin:/bin",
            *options,
        ]
        argv += [part for setting in settings for part in ("-o", setting)]
        script = f'set -e; {mounts}; {binds}; mkdir -p /run/sshd; exec "$@"'
        with (self.folder / "sshd.log").open("ab") as log:
            self.process = subprocess.Popen(
                ["unshare", "-m", "/bin/sh", "-c", script, "sh", *argv],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
        self._own.append(self.process)
        wait_for(lambda: can_connect(self.port), 60, (self.folder / "sshd.log").read_text)
        return self

    def start_libvirtd(self) -> subprocess.Popen[bytes]:
        assert self.process is not None
        with (self.folder / "libvirtd.log").open("ab") as log:
            daemon = subprocess.Popen(
                [*self.inside, "/usr/sbin/libvirtd", "-p", str(self.folder / "libvirtd.pid")],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
        self._own.append(daemon)
        ready = [*self.inside, "test", "-S", "/run/libvirt/libvirt-sock"]
        wait_for(
            lambda: subprocess.run(ready, check=False).returncode == 0,
            60,
            (self.folder / "libvirtd.log").read_text,
        )
        return daemon

    @property
    def inside(self) -> list[str]:
        """What runs a command in the host's namespace."""
        assert self.process is not None
        return ["nsenter", "-t", str(self.process.pid), "-m", "-r", "--"]

    def sessions(self) -> list[int]:
        """Pids of the processes that serve connections now."""
        assert self.process is not None
        return descendants(self.process.pid)

    def stop(self) -> None:
        pids = self.sessions() if self.process is not None else []
        for one in reversed(self._own):
            for number in (signal.SIGCONT, signal.SIGKILL):
                one.send_signal(number)
            one.wait(10)
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


def make_key(path: Path, kind: str = "ed25519", passphrase: str = "") -> Path:
    bits = ("-b", "2048") if kind == "rsa" else ()  # more take seconds to find
    subprocess.run(["ssh-keygen", "-q", "-t", kind, *bits, "-N", passphrase, "-C", "test", "-f", str(path)], check=True)
    return path


def can_connect(port: int) -> bool:
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1) as one:
        one.settimeout(1)
        return one.recv(4) == b"SSH-"
    return False


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


@pytest.fixture
def new_sshd(tmp_path: Path, shared: Path) -> Iterator[Sshd]:
    """An sshd that is set up and not started."""
    if os.geteuid() != 0 or shutil.which("unshare") is None or not Path("/usr/sbin/sshd").exists():
        pytest.skip("needs root, unshare and sshd")
    host = Sshd(tmp_path, shared)
    yield host
    host.stop()


@pytest.fixture
def sshd(new_sshd: Sshd) -> Sshd:
    return new_sshd.start()


@pytest.fixture
def libvirtd(sshd: Sshd) -> subprocess.Popen[bytes]:
    return sshd.start_libvirtd()


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
