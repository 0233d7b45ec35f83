"""What an attach costs its host: one SSH connection, and one request for each step beside two."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from tests.acceptance import altered, inventories

if TYPE_CHECKING:
    from pathlib import Path

    from tests.lab_fixtures import Lab

pytestmark = pytest.mark.lab

HOST, VM = "kvm01", "vm02"


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
