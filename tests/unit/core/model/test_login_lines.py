"""The lines for a login that can run nothing else: exact, and never of what is no user's name and no public key."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vgpumgr.core.model import login_lines
from vgpumgr.errors import BadName, UsageError

KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIMtwc41OPBM/lUSddMfgxHDq7VFr2sKqZUzWNacoc4IF me@here"


def test_the_lines_are_what_sudo_and_sshd_take() -> None:
    assert login_lines.render("vgpumgr", f"{KEY}\n") == (
        "# /etc/sudoers.d/vgpumgr (visudo -f writes it):",
        'vgpumgr ALL=(root) NOPASSWD: /opt/vgpumgr-host/dispatcher ""',
        "# authorized_keys of vgpumgr, without the leading `# `:",
        f'# restrict,command="env LC_ALL=C sudo -n /opt/vgpumgr-host/dispatcher" {KEY}',
    )
    assert login_lines.render("vgpumgr", None)[-1].endswith('dispatcher" KEY')


@given(st.text())
def test_a_name_is_printed_only_if_it_is_one_word_of_sudoers(user: str) -> None:
    try:
        lines = login_lines.render(user, None)
    except (BadName, UsageError):
        return
    assert lines[1].split() == [user, "ALL=(root)", "NOPASSWD:", "/opt/vgpumgr-host/dispatcher", '""']
    assert user.isascii()
    assert "%" not in user


@pytest.mark.parametrize(
    ("user", "says"), [("Mr ALL=(ALL)", "not the name of a user"), ("root", "root needs no line in sudoers")]
)
def test_a_user_who_can_have_no_line_is_refused(user: str, says: str) -> None:
    with pytest.raises((BadName, UsageError), match=says):
        login_lines.render(user, KEY)


@pytest.mark.parametrize(
    "key", ["", "KEY", f"{KEY}\n{KEY}", f'command="sh" {KEY}', "-----BEGIN OPENSSH PRIVATE KEY-----"]
)
def test_what_is_not_one_public_key_is_refused(key: str) -> None:
    with pytest.raises(UsageError, match="not one public key"):
        login_lines.render("vgpumgr", key)
