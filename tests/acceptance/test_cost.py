"""What an attach costs: one SSH connection, one request for each step beside two, and on a slow line not one wait more."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from tests import slow_line
from tests.acceptance import altered, inventories
from vgpumgr.inventory_files import reader
from vgpumgr.link.ssh.client import open_connection
from vgpumgr.timing import Deadlines

if TYPE_CHECKING:
    from pathlib import Path

    from tests.lab_fixtures import Lab

pytestmark = pytest.mark.lab

HOST, VM = "kvm01", "vm02"
AFTER_HANDSHAKE = 12  # at most so many exchanges
COUNTING_S = 0.2  # pieces that belong together are carried together, on a busy machine too


def requests(lab: Lab, *arguments: str, code: int = 0) -> list[int]:
    """For each connection that the command opened, how many requests of the host program it made (pings apart)."""
    done = lab.run(*arguments, "--quiet", first=altered.count_requests)
    assert done.returncode == code, done.stderr
    counts = json.loads(done.stderr.splitlines()[-1])
    assert isinstance(counts, list)
    return counts


def test_one_attach_is_one_connection_and_two_requests_beside_its_four_steps(vf_fleet: Lab) -> None:
    """Lock, the steps, unlock; --check and the repeated attach ask once."""
    attach = ("attach", VM, "--profile", "4Q", "--on", HOST)
    assert requests(vf_fleet, *attach, "--check", code=3) == [1]
    (made,) = requests(vf_fleet, *attach)
    (again,) = requests(vf_fleet, *attach)
    (freed,) = requests(vf_fleet, "detach", VM, "--on", HOST, "--yes")
    assert (made, again, freed) == (6, 1, 6)


def test_a_declared_vm_is_found_without_asking_every_host(vf_fleet: Lab, tmp_path: Path) -> None:
    """Where the inventory names the VM's host no other host is connected to; where it does not, each is asked for the names of its VMs first."""
    inventory = inventories.declaring(vf_fleet, tmp_path, HOST, f"{VM}: {{vgpu0: {{profile: 4Q}}}}")
    attach = ("attach", VM, "--profile", "4Q", "--check")
    assert requests(vf_fleet, "-i", str(inventory), *attach, code=3) == [1]
    assert sorted(requests(vf_fleet, *attach, code=3)) == [1, 2]


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
