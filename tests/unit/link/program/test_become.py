"""What sudo says becomes an error of stage `become`, with what to do about it. The texts are those of sudo 1.9.13 and 1.9.16, and of sudo-rs."""

from __future__ import annotations

import pytest

from vgpumgr.core.model.endpoint import Endpoint
from vgpumgr.link.program.become import failure
from vgpumgr.names import HostName

OPS = Endpoint(
    host=HostName("kvm01"), address="kvm01", port=22, user="ops", become=True, key_file=None, known_hosts="/known_hosts"
)


@pytest.mark.parametrize(
    ("status", "said", "what", "hint"),
    [
        (1, "sudo: a password is required", "sudo asks ops for a password", "ops ALL=(root) NOPASSWD: ALL"),
        (
            1,
            "sudo: a terminal is required to authenticate",
            "sudo asks ops for a password",
            "ops ALL=(root) NOPASSWD: ALL",
        ),
        (1, "sudo: sorry, you must have a tty to run sudo", "sudo wants a terminal", "Defaults:ops !requiretty"),
        (1, "ops is not in the sudoers file.  This incident will be reported.", "sudo does not let ops", "NOPASSWD"),
        (1, "Sorry, user ops may not run sudo on kvm01.", "sudo does not let ops", "NOPASSWD"),
        (
            1,
            "Sorry, user ops is not allowed to execute '/bin/sh -c true' as root on kvm01.",
            "sudo does not let ops",
            "NOPASSWD",
        ),
        (
            1,
            "sudo: /usr/bin/sudo must be owned by uid 0 and have the setuid bit set",
            "sudo cannot make anybody root",
            "ls -l",
        ),
        (
            1,
            'sudo: The "no new privileges" flag is set, which prevents sudo from running as root.',
            "sudo cannot",
            "ls -l",
        ),
        (1, "sudo: account validation failure, is your account locked?", "PAM does not let ops", "chage -l ops"),
        (1, "/etc/sudoers.d/ops:1:9: syntax error\nsudo: a password is required", "the sudoers files", "visudo -c"),
        (
            1,
            "sudo: /etc/sudoers is world writable\nsudo: no valid sudoers sources found, quitting",
            "the sudoers files",
            "visudo",
        ),
        (1, "sudo: interactive authentication is required", "sudo asks ops for a password", "NOPASSWD"),
        (1, "sudo: I'm sorry ops. I'm afraid I can't do that", "sudo does not let ops", "NOPASSWD"),
        (1, "sudo: Account validation failure, is your account locked?", "PAM does not let ops", "chage -l ops"),
        (1, "sudo: Account or password is expired, reset your password and try again", "PAM does not let ops", "chage"),
        (127, "env: 'sudo': No such file or directory", "there is no sudo", "install it"),
        (127, "env: sudo: command not found", "there is no sudo", "install it"),
        (
            1,
            "sudo: something of tomorrow's \x1b[31msudo",
            "sudo refuses: something of tomorrow's ?[31msudo",
            "sudo -n -l",
        ),
    ],
)
def test_a_refusal_of_sudo_says_what_to_do(status: int, said: str, what: str, hint: str) -> None:
    error = failure(OPS, status, said.splitlines())
    assert error is not None
    assert (error.stage, error.exit_code, error.transient) == ("become", 4, False)
    assert error.message.startswith(f"kvm01: become: {what}")
    assert hint in (error.hint or "")


def test_a_key_that_runs_the_dispatcher_alone_is_told_the_lines_for_it() -> None:
    error = failure(OPS, 1, ["sudo: a password is required"], is_forced=True)
    assert error is not None
    assert "`vgpumgr host sudoers kvm01 --user ops --key KEY.pub`" in (error.hint or "")


@pytest.mark.parametrize(
    ("status", "said"),
    [
        (86, "no Python 3.9 or newer on this host"),
        (127, "sh: 1: python3: not found"),
        (None, ""),
        (1, "Traceback: visudo"),
    ],
)
def test_what_is_not_sudo_s_stays_the_program_s(status: int | None, said: str) -> None:
    assert failure(OPS, status, said.splitlines()) is None
