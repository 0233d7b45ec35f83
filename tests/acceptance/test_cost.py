"""What an attach costs its host: one SSH connection, and one request for each step beside two."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.acceptance import inventories
from tests.acceptance.command import vgpumgr

if TYPE_CHECKING:
    from tests.lab_fixtures import Lab

pytestmark = pytest.mark.lab

HOST, VM = "kvm01", "vm02"

# The program's own main, with its one way to reach a host wrapped: how many links it opened, and what each was asked.
_COUNTING = """
import json, sys
from vgpumgr.cli import main
from vgpumgr.link import connection

connect, links = connection.connect, []

def counting(*args, **kwargs):
    links.append(connect(*args, **kwargs))
    return links[-1]

connection.connect = counting
code = main.run(sys.argv[1:])
print(json.dumps([link.program.requests for link in links]), file=sys.stderr)
sys.exit(code)
"""


def requests(lab: Lab, *arguments: str, code: int = 0) -> list[int]:
    """For each connection that the command opened, how many requests of the host program it made (pings apart)."""
    done = subprocess.run(
        [sys.executable, "-c", _COUNTING, *arguments, "--quiet"],
        env={**lab.env, "PYTHONPATH": str(Path(__file__).resolve().parents[2])},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == code, done.stderr
    counts = json.loads(done.stderr.splitlines()[-1])
    assert isinstance(counts, list)
    return counts


def test_one_attach_is_one_connection_and_two_requests_beside_its_four_steps(mdev_vf_lab: Lab) -> None:
    """Lock, the steps, unlock; --check and the repeated attach ask once."""
    attach = ("attach", VM, "--profile", "4Q", "--on", HOST)
    assert requests(mdev_vf_lab, *attach, "--check", code=3) == [1]
    (made,) = requests(mdev_vf_lab, *attach)
    (again,) = requests(mdev_vf_lab, *attach)
    (freed,) = requests(mdev_vf_lab, "detach", VM, "--on", HOST, "--yes")
    assert (made, again, freed) == (6, 1, 6)


def test_a_declared_vm_is_found_without_asking_every_host(mdev_vf_lab: Lab, tmp_path: Path) -> None:
    """Where the inventory names the VM's host no other host is connected to; where it does not, each is asked for the names of its VMs first."""
    inventory = inventories.declaring(mdev_vf_lab, tmp_path, HOST, f"{VM}: {{vgpu0: {{profile: 4Q}}}}")
    attach = ("attach", VM, "--profile", "4Q", "--check")
    assert requests(mdev_vf_lab, "-i", str(inventory), *attach, code=3) == [1]
    assert sorted(requests(mdev_vf_lab, *attach, code=3)) == [1, 2]


def test_sshd_sees_one_login_per_attach(mdev_vf_lab: Lab) -> None:
    """paramiko's own log says how often it logged in."""
    for arguments in (("attach", VM, "--profile", "4Q"), ("detach", VM, "--yes")):
        ran = vgpumgr(mdev_vf_lab, *arguments, "--on", HOST, "-vv")
        assert ran.err.count("Authentication (publickey) successful") == 1, ran.err
