"""What OpenSSH remarks of our key's line in authorized_keys, whatever else a server may remark."""

from __future__ import annotations

from types import SimpleNamespace

import paramiko
import pytest
from hypothesis import given
from hypothesis import strategies as st

from vgpumgr.link.ssh.remarks import Remarks

PLACE = "/home/ops/.ssh/authorized_keys:3"


def forced_by(text: bytes) -> str | None:
    transport = SimpleNamespace()
    remarks = Remarks(transport)
    message = paramiko.Message()
    message.add_boolean(False)
    message.add_string(text)
    message.add_string("")
    message.rewind()
    transport._parse_debug(message)
    return remarks.forced_by


@pytest.mark.parametrize(
    ("text", "place"),
    [
        (f"{PLACE}: key options: agent-forwarding command pty user-rc", PLACE),
        (f"{PLACE}: key options: command", PLACE),
        (f"{PLACE}: key options: agent-forwarding pty user-rc", None),
        (f"{PLACE}: key options:", None),
        ("Forced command.", None),
        ("", None),
    ],
)
def test_the_place_of_a_forced_command_is_kept(text: str, place: str | None) -> None:
    assert forced_by(text.encode()) == place


@given(st.binary(max_size=80))
def test_nothing_that_a_server_remarks_does_harm(text: bytes) -> None:
    forced_by(text)
    forced_by(text + b": key options: command")
