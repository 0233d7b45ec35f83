"""Why a server does not let us in, as far as it says. What a real sshd gives: tests/acceptance/test_login_troubles.py."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from vgpumgr.core.model.endpoint import Endpoint, JumpHost
from vgpumgr.link.ssh import login_refusals
from vgpumgr.link.ssh.login_refusals import KeyOffered
from vgpumgr.names import HostName

OPS = Endpoint(
    host=HostName("kvm01"), address="192.0.2.1", port=22, user="ops", key_file=None, known_hosts="/known_hosts"
)
KEY = KeyOffered(Path("/keys/id"), "/keys/id (ssh-ed25519 SHA256:abc)")


def test_a_key_that_is_not_taken_is_copied_by_the_same_way() -> None:
    far = replace(OPS, jumps=(JumpHost(address="gate", port=22, user="ann"),))
    error = login_refusals.not_taken(far, KEY)
    assert error.what == "auth: the host does not take /keys/id (ssh-ed25519 SHA256:abc) for ops"
    assert "ssh-copy-id -f -i /keys/id.pub -p 22 -o ProxyJump=ann@gate ops@192.0.2.1;" in (error.hint or "")
    assert len(error.details) == 2


def test_of_root_it_is_asked_whether_root_may_log_in_at_all() -> None:
    details = login_refusals.not_taken(replace(OPS, user="root"), KEY).details
    assert "PermitRootLogin" in details[1]
    assert "AllowUsers" not in "".join(details)


def test_a_certificate_is_not_looked_for_in_authorized_keys() -> None:
    error = login_refusals.not_taken(OPS, KEY._replace(certificate=" with its certificate", remark="it is odd"))
    assert error.what.endswith(" with its certificate for ops, and it is odd")
    assert "TrustedUserCAKeys" in (error.hint or "")
    assert "it is not in" not in error.details[0]


@given(st.binary(max_size=400))
def test_whatever_the_banner_says_it_is_quoted_printably_and_not_at_length(banner: bytes) -> None:
    error = login_refusals.closed(OPS, "the connection was closed", banner)
    assert (error.stage, error.exit_code) == ("auth", 4)
    assert all(text.isprintable() for text in error.details)
    assert len(error.details) <= 7
