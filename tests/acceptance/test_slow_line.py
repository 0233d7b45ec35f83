"""A host behind a slow line: how often a command waits for it, and what is waited for. tests/lab has one that loses pieces."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests import slow_line
from tests.acceptance.terminal import watch
from vgpumgr.inventory_files import reader
from vgpumgr.link.ssh.client import open_connection
from vgpumgr.timing import Deadlines

if TYPE_CHECKING:
    from pathlib import Path

    from tests.lab_fixtures import Lab

pytestmark = pytest.mark.lab

HOST, VM = "kvm01", "vm05"
AFTER_HANDSHAKE = 12  # at most so many exchanges
COUNTING_S = 0.2  # pieces that belong together are carried together, on a busy machine too


def test_an_attach_waits_for_its_host_at_most_twelve_times_after_the_handshake(vf_fleet: Lab, tmp_path: Path) -> None:
    with slow_line.before(vf_fleet, HOST, tmp_path, round_trip_s=COUNTING_S) as (inventory, line):
        endpoint = reader.load(inventory, home=tmp_path, environ={}).host(HOST).endpoint
        open_connection(endpoint, Deadlines()).close()
        handshake = line.exchanges
        assert 3 <= handshake <= 7  # versions with keys, the key, the login
        counts = {}
        for command in (("attach", VM, "--profile", "4Q"), ("detach", VM, "--yes")):
            done = vf_fleet.run("-i", str(inventory), *command, "--on", HOST)
            assert done.returncode == 0, done.stderr
            counts[command[0]] = line.exchanges - handshake
    assert counts["attach"] <= AFTER_HANDSHAKE, counts


def test_on_a_terminal_it_is_said_what_is_waited_for(vf_fleet: Lab) -> None:
    """Its sshd is stopped: the kernel accepts the connection, and nothing answers."""
    vf_fleet.control(HOST, "fault", name="ssh-hang")
    try:
        seen = watch(vf_fleet, "--timeout", "3", "attach", VM, "--profile", "4Q", "--on", HOST, "--check")
    finally:
        vf_fleet.control(HOST, "clear")
    assert seen.code == 4
    assert f"\r\x1b[Kwaiting for {HOST}: sshd (" in seen.raw
    assert not any("waiting for" in line for line in seen.lines)  # what is left on the screen
    assert any(
        line.startswith(f"error: {HOST}: banner: TCP connects, but no SSH banner within 3 s") for line in seen.lines
    )
