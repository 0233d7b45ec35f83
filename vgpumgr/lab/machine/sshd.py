"""The host's sshd: loopback only, keys only, its own host key, and a listener that can be stopped and started."""

from __future__ import annotations

import contextlib
import socket
import subprocess
from typing import TYPE_CHECKING

from vgpumgr.errors import LabError
from vgpumgr.lab.authorities import public_half
from vgpumgr.lab.machine.machine import wait_until

if TYPE_CHECKING:
    from pathlib import Path

    from vgpumgr.lab.authorities import Authorities
    from vgpumgr.lab.machine.machine import Machine
    from vgpumgr.lab.machine.root import HostRoot

ADDRESS = "127.0.0.1"
CONFIG = "/etc/ssh/sshd_config"
_USERS_AUTHORITY = "/etc/ssh/ca_users.pub"
HOST_KEY = "etc/ssh/ssh_host_ed25519_key"
_PID_FILE = "/run/sshd.pid"
_PROGRAM = "/usr/sbin/sshd"
LOG = "/var/log/sshd.log"
# A login that answers every command with its own text, some of it not UTF-8, and discards its input.
NOISE = "printf 'Welcome!\\nLast login: never \\377\\376\\000\\n{ this is no greeting\\n'; exec cat >/dev/null"


def config_text(port: int) -> str:
    """The sshd_config. MaxStartups is generous because the default drops parallel connections at random."""
    return f"""Port {port}
ListenAddress {ADDRESS}
HostKey /{HOST_KEY}
PidFile {_PID_FILE}
AuthenticationMethods publickey
PermitRootLogin prohibit-password
PasswordAuthentication no
KbdInteractiveAuthentication no
UsePAM no
UseDNS no
StrictModes yes
AuthorizedKeysFile .ssh/authorized_keys
PrintMotd no
PrintLastLog no
X11Forwarding no
MaxStartups 100
MaxSessions 64
LoginGraceTime 60
Subsystem sftp internal-sftp
"""


def reserve_port() -> socket.socket:
    """A free loopback port that stays ours while the socket is open, though it never listens.

    SO_REUSEADDR on both sockets lets the host's sshd bind and listen on it; while sshd is down, a connect is refused
    and no other process gets the port.
    """
    reserved = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    reserved.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    reserved.bind((ADDRESS, 0))
    return reserved


def install(root: HostRoot, *, port: int, name: str, authorities: Authorities) -> str:
    """Configure sshd on a host's fresh disk, with a new host key; return its public half."""
    public = make_key(root.path / HOST_KEY)
    config = config_text(port)
    if authorities.for_hosts:
        certificate = authorities.sign_host((root.path / HOST_KEY).with_suffix(".pub"), name, ADDRESS)
        config += f"HostCertificate /etc/ssh/{certificate.name}\n"
    if authorities.for_users:
        root.write(_USERS_AUTHORITY.lstrip("/"), f"{public_half(authorities.users)}\n")
        config += f"TrustedUserCAKeys {_USERS_AUTHORITY}\n"
    root.write(CONFIG.lstrip("/"), config)
    return public


def make_key(file: Path) -> str:
    """A new ed25519 key pair without a passphrase (FILE and FILE.pub); return the public half."""
    process = subprocess.run(
        ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "vgpumgr-lab", "-f", str(file)],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    if process.returncode != 0:
        raise LabError(f"ssh-keygen ended with {process.returncode}", details=process.stderr.splitlines())
    return file.with_suffix(".pub").read_text(encoding="ascii").strip()


def start(machine: Machine, *, log: str | None = None) -> None:
    """Start the listener, with that file as its log if one is named; does nothing if it runs."""
    if machine.alive(_PID_FILE) is None:
        machine.must([_PROGRAM, "-f", CONFIG, *(("-E", log) if log else ())])


def stop(machine: Machine) -> None:
    """End the listener, so that a connect is refused; open sessions stay."""
    _signal(machine, "KILL")


def freeze(machine: Machine) -> None:
    """Stop the listener (SIGSTOP): the kernel accepts connections, but nothing answers."""
    _signal(machine, "STOP")


def thaw(machine: Machine) -> None:
    _signal(machine, "CONT")


def wait_banner(port: int) -> None:
    """Wait until sshd sends its banner."""
    wait_until(lambda: _greets(port), f"sshd on port {port}")


def _greets(port: int) -> bool:
    with contextlib.suppress(OSError), socket.create_connection((ADDRESS, port), timeout=5) as connection:
        return connection.recv(4) == b"SSH-"
    return False


def _signal(machine: Machine, name: str) -> None:
    pid = machine.alive(_PID_FILE)
    if pid is None:
        return
    machine.must(["kill", f"-{name}", str(pid)])
    if name == "KILL":
        wait_until(lambda: machine.alive(_PID_FILE) is None, "the end of sshd")
