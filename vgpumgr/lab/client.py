"""Plain ssh to a host of a lab, without the user's own ssh configuration."""

from __future__ import annotations

import os
import shlex
import subprocess
from typing import TYPE_CHECKING, NoReturn

from vgpumgr.errors import LabError
from vgpumgr.lab.machine.sshd import ADDRESS

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from vgpumgr.lab.layout import HostRecord, Layout


def ssh_command(layout: Layout, host: HostRecord, argv: Sequence[str] = ()) -> list[str]:
    """The ssh command line that runs `argv` on the host, or a shell. As always, ssh joins `argv` with blanks."""
    if host.port is None:
        raise LabError(f"{host.name} has not come up yet")
    options = {
        "IdentitiesOnly": "yes",
        "BatchMode": "yes",
        "UserKnownHostsFile": quoted(layout.known_hosts),
        "GlobalKnownHostsFile": "/dev/null",
        "StrictHostKeyChecking": "yes",
        "KexAlgorithms": "curve25519-sha256",
        "LogLevel": "ERROR",
    }
    flags = [word for name, value in options.items() for word in ("-o", f"{name}={value}")]
    address = ["-p", str(host.port), f"root@{ADDRESS}"]
    return ["ssh", "-F", "none", "-i", str(layout.key), *flags, *address, *(["--", *argv] if argv else [])]


def common_arguments(layout: Layout) -> str:
    """The inventory's ssh arguments for Ansible and vgpumgr (`ansible_ssh_common_args`), without a user's settings."""
    return f"-F none -o GlobalKnownHostsFile=/dev/null -o {shlex.quote(f'UserKnownHostsFile={quoted(layout.known_hosts)}')}"


def quoted(path: Path) -> str:
    """A path quoted for an ssh option that takes several paths, separated by blanks."""
    text = str(path).replace("%", "%%")
    return f'"{text}"' if " " in text else text


def run(layout: Layout, host: HostRecord, argv: Sequence[str], *, timeout: float) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ssh_command(layout, host, argv),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        timeout=timeout,
    )


def become(layout: Layout, host: HostRecord, argv: Sequence[str]) -> NoReturn:
    """Replace this process by ssh, so that stdin, signals and the exit status are the remote command's."""
    command = ssh_command(layout, host, argv)
    try:
        os.execvp(command[0], command)
    except OSError as error:
        raise LabError(f"cannot run ssh: {error.strerror}", hint="apt-get install openssh-client") from error
