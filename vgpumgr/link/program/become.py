"""What sudo prints if it does not run the host program, and what to do about it. Pure.

The texts are English, because the command sets LC_ALL=C: those of sudo 1.9 (plugins/sudoers, src/sudo.c) and of
sudo-rs (src/common/error.rs, src/pam/error.rs).
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, NamedTuple

from vgpumgr.errors import BecomeFailed
from vgpumgr.link.host_text import clean
from vgpumgr.wording import Option, say

if TYPE_CHECKING:
    from collections.abc import Sequence

    from vgpumgr.core.model.endpoint import Endpoint

_NO_PROGRAM: Final = 127
_MISSING: Final = re.compile(r"not found|No such file")
_SAYS: Final = re.compile(r"sudo|^Sorry, user ")
_QUOTED: Final = re.compile(r"(execute|run) '?(/\S+) .*('?)(?= as | on )")  # our own command, all of it
_RULE: Final = (
    "`visudo -f /etc/sudoers.d/vgpumgr` there, with the line: {user} ALL=(root) NOPASSWD: ALL; of several rules the last one "
    "holds (`sudo -n -l` as {user})"
)


class _Case(NamedTuple):
    """A pattern of sudo's text, its meaning, and what to do. `{user}` stands for the login's name."""

    says: re.Pattern[str]
    what: str
    hint: str


_CASES: Final = (
    _Case(
        re.compile(r"syntax error|no valid sudoers sources|unable to (open|stat|initialize) .*sudoers|sudoers.* is (world|group) writable"),
        "the sudoers files there cannot be read",
        "on that host as root: visudo -c",
    ),
    _Case(
        re.compile(
            r"account validation failure|account (has )?expired|(Account or p|P)assword (is )?expired|PAM (account management )?error",
            re.IGNORECASE,
        ),
        "PAM does not let {user} become root",
        "on that host: chage -l {user}, and the account lines of /etc/pam.d/sudo",
    ),
    _Case(
        re.compile(
            r"a password is required|a terminal is required to (read the password|authenticate)|"
            r"[Ii]nteract(ive authentication|ion) is required|Authentication required"
        ),
        "sudo asks {user} for a password, and vgpumgr never sends one",
        _RULE,
    ),
    _Case(
        re.compile(r"must have a tty|A terminal is required"),
        "sudo wants a terminal of {user} (requiretty)",
        "`visudo -f /etc/sudoers.d/vgpumgr` there, with the line: Defaults:{user} !requiretty",
    ),
    _Case(
        re.compile(
            r"not in the sudoers file|user \S+ may not run |not allowed to (run sudo|execute)|permission denied for user|"
            r"I'm afraid I can't do that"
        ),
        "sudo does not let {user} run the host program as root",
        _RULE,
    ),
    _Case(
        re.compile(r"no new privileges|effective uid is not 0|must be owned by uid 0 and have the setuid bit"),
        "sudo cannot make anybody root there",
        "on that host: ls -l $(command -v sudo); it belongs to root and is setuid, and its file system is not mounted nosuid",
    ),
)  # fmt: skip


def failure(
    endpoint: Endpoint, status: int | None, said: Sequence[str], *, is_forced: bool = False
) -> BecomeFailed | None:
    """The error if sudo ended before the program's greeting; None if it was not sudo.

    `is_forced`: the key can run one command only, which may be the dispatcher of `host install`.
    """
    lines, user = [_QUOTED.sub(r"\1 '\2 …'", line) for line in said if _SAYS.search(line)], endpoint.user
    for case in _CASES:
        if any(case.says.search(line) for line in lines):
            hint = case.hint.replace("{user}", user)
            if is_forced and case.hint == _RULE:
                hint = say(
                    "`vgpumgr host sudoers {} {} {}` prints the line for its sudoers, and the one for authorized_keys",
                    endpoint.host,
                    Option("--user", user),  # no Command: it would quote DOMAIN\name
                    Option("--key", "KEY.pub"),
                )
            return _failed(endpoint, case.what.replace("{user}", user), hint, lines)
    if status == _NO_PROGRAM and any(_MISSING.search(line) for line in lines):
        return _failed(endpoint, "there is no sudo", "install it there, or log in as root (ansible_user: root)", lines)
    if lines and lines[-1].startswith("sudo: "):
        why = clean(lines[-1].removeprefix("sudo: "))
        return _failed(endpoint, f"sudo refuses: {why}", f"as {user} on that host: sudo -n -l", lines[:-1])
    return None


def _failed(endpoint: Endpoint, what: str, hint: str, lines: Sequence[str]) -> BecomeFailed:
    return BecomeFailed(endpoint.host, "become", what, hint=hint, details=[clean(line) for line in lines])
