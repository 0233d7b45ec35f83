"""Which private key file is used, and whether it may be: OpenSSH's own rules, checked before anything is sent.

It is one named key, never an agent and never every key in ~/.ssh: sshd counts each offered key as an attempt
(MaxAuthTries), and newer versions then block the controller's address for a while.
"""

from __future__ import annotations

import os
import shlex
import stat
from pathlib import Path
from typing import TYPE_CHECKING

from vgpumgr.errors import AuthenticationFailed

if TYPE_CHECKING:
    from vgpumgr.core.model.endpoint import Endpoint

DEFAULT_KEYS = ("~/.ssh/id_ed25519", "~/.ssh/id_ecdsa", "~/.ssh/id_rsa")


def find_key_file(endpoint: Endpoint) -> Path:
    """The named key file, or the first of DEFAULT_KEYS that exists. AuthenticationFailed if it cannot be used."""
    path = _choose(endpoint)
    try:
        found = path.stat()
        with path.open("rb"):
            pass
    except FileNotFoundError as error:
        raise _failed(endpoint, f"no key file {path}", "name another: ansible_ssh_private_key_file") from error
    except OSError as error:
        raise _failed(
            endpoint, f"key file {path}: {error.strerror}", f"make it readable for your user: ls -l {path}"
        ) from error
    if not stat.S_ISREG(found.st_mode):
        raise _failed(endpoint, f"key file {path} is not a regular file", "name the private key itself")
    # As in OpenSSH: only a key that the user owns is judged by its mode.
    if found.st_uid == os.getuid() and found.st_mode & 0o077:
        mode = stat.S_IMODE(found.st_mode)
        raise _failed(
            endpoint, f"key file {path} is open to others (mode {mode:04o})", f"chmod 600 {shlex.quote(str(path))}"
        )
    return path


def _choose(endpoint: Endpoint) -> Path:
    if endpoint.key_file is not None:
        return Path(endpoint.key_file).expanduser()
    for name in DEFAULT_KEYS:
        path = Path(name).expanduser()
        if path.exists():
            return path
    raise _failed(
        endpoint,
        f"no key is named, and none of {', '.join(DEFAULT_KEYS)} is there",
        "name one in the inventory: ansible_ssh_private_key_file",
    )


def _failed(endpoint: Endpoint, message: str, hint: str) -> AuthenticationFailed:
    return AuthenticationFailed(endpoint.host, "auth", message, hint=hint)
