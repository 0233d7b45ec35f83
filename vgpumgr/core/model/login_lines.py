"""The lines that let a user log in for vgpumgr's host program and for nothing else. Pure.

sudoers(5): a command with "" takes no arguments. sshd(8), AUTHORIZED_KEYS FILE FORMAT: `restrict` disables forwarding,
terminals and later additions; `command` runs whatever the client requests. LC_ALL=C: we match sudo's English refusals.
"""

from __future__ import annotations

import re
from typing import Final

from vgpumgr.core.model.installation import DISPATCHER
from vgpumgr.errors import BadName, UsageError
from vgpumgr.wording import Option, say

_USER: Final = re.compile(r"[a-z_][a-z0-9_-]{0,31}")
_KEY: Final = re.compile(r"(?:ssh|ecdsa|sk)-[a-z0-9@.-]+ [A-Za-z0-9+/=]+(?: [^\n]*)?")


def render(user: str, key: str | None) -> tuple[str, ...]:
    """The lines for sudoers and, commented out, for authorized_keys; above each, a comment names its file.

    `key`: a public key's text. Raises BadName, UsageError.
    """
    if not _USER.fullmatch(user):
        raise BadName(
            f"not the name of a user: {user!r}",
            hint=say("write {}, in lower-case letters, digits, _ and -", Option("--user", "NAME")),
        )
    if user == "root":
        raise UsageError(
            "root needs no line in sudoers",
            hint=say("name the login's user with {}, or as ansible_user in the inventory", Option("--user")),
        )
    return (
        "# /etc/sudoers.d/vgpumgr (visudo -f writes it):",
        f'{user} ALL=(root) NOPASSWD: {DISPATCHER} ""',
        f"# authorized_keys of {user}, without the leading `# `:",
        f'# restrict,command="env LC_ALL=C sudo -n {DISPATCHER}" {"KEY" if key is None else _one_line(key)}',
    )


def _one_line(key: str) -> str:
    line = key.strip()
    if not _KEY.fullmatch(line):
        hint = say("{} names the file that ends in .pub", Option("--key"))
        raise UsageError("that is not one public key of OpenSSH", hint=hint)
    return line
