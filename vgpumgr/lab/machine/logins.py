"""Who can log in to a host, with the lab's key: root, and `ops`, who may do everything by sudo without a password.

The accounts are those of this machine, and `ops`. Only the host's copies of the files are written.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from vgpumgr.lab.machine.root import HostRoot

OPS: Final = "ops"
_ID: Final = 2900  # of the user and its group; the machine's own users begin at 1000
_HOMES: Final = {"root": ("root", 0), OPS: (f"home/{OPS}", _ID)}
_ACCOUNTS: Final = {
    "etc/passwd": (f"{OPS}:x:{_ID}:{_ID}::/home/{OPS}:/bin/bash", 0o644),
    "etc/group": (f"{OPS}:x:{_ID}:", 0o644),
    "etc/shadow": (f"{OPS}:*:20000:0:99999:7:::", 0o600),  # no password; `!` would lock the account for sshd
}
_SUDOERS: Final = """\
Defaults env_reset, use_pty
Defaults secure_path="/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
root ALL=(ALL:ALL) ALL
@includedir /etc/sudoers.d
"""


def install(root: HostRoot, key: str) -> None:
    """Write the accounts to a host's fresh disk, with the key that may log in."""
    for name, (line, mode) in _ACCOUNTS.items():
        lines = Path("/", name).read_text(encoding="utf-8").splitlines()
        others = [one for one in lines if not one.startswith(f"{OPS}:")]
        root.write(name, "\n".join((*others, line, "")), mode=mode)
    root.write("etc/sudoers", _SUDOERS, mode=0o440)
    root.write(f"etc/sudoers.d/{OPS}", f"{OPS} ALL=(ALL:ALL) NOPASSWD: ALL\n", mode=0o440)
    authorize(root, key)


def authorize(root: HostRoot, key: str, *, command: str | None = None) -> None:
    """Let the key's owner log in; with a command, every login runs only that command.

    sshd reads this at each login, so open sessions do not change.
    """
    prefix = "" if command is None else f'command="{command}" '
    for home, owner in _HOMES.values():
        root.write(f"{home}/.ssh/authorized_keys", prefix + key, mode=0o600)
        (root.path / home / ".ssh").chmod(0o700)
        for name in (home, f"{home}/.ssh", f"{home}/.ssh/authorized_keys"):
            os.chown(root.path / name, owner, owner, follow_symlinks=False)
