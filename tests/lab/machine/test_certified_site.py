"""A site behind a jump host, with certificates instead of keys: hosts and jump host show one, and the login has one. Nothing else is trusted.

What is refused, and how a jump host may fail: tests/unit/link/ssh. So is what the user's ssh_config says (test_config.py).
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.acceptance import inventories

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.lab_fixtures import Lab, LabFactory

pytestmark = pytest.mark.lab

HOST, OTHER, JUMP, VM = "kvm01", "kvm02", "jump01", "vm1"
SPEC = """
certificates: [hosts, users]
jumps: [jump01]
hosts:
  kvm01: {driver: 570, boards: [{board: A40, vfs: 2}], vms: [vm1], via: jump01}
  kvm02: {driver: 570, boards: [{board: A40, vfs: 1}], vms: [vm2], via: jump01}
"""


@pytest.fixture(scope="module")
def lab(lab_factory: LabFactory) -> Iterator[Lab]:
    lab = lab_factory(SPEC, shared=False)
    yield lab
    lab.down()


def logins(lab: Lab) -> int:
    """How often somebody has logged in to the jump host, by its sshd's log."""
    log = Path(f"/proc/{lab.control(JUMP, 'status')['first_process']}/root/var/log/sshd.log")
    return log.read_text(encoding="utf-8").count("Accepted publickey")


def test_nothing_but_certificates_is_known_or_allowed(lab: Lab) -> None:
    known = lab.layout.known_hosts.read_text(encoding="ascii").splitlines()
    assert known
    assert all(line.startswith("@cert-authority [127.0.0.1]:") for line in known)
    assert lab.must(HOST, "cat /root/.ssh/authorized_keys /home/ops/.ssh/authorized_keys") == ""


def test_all_hosts_are_read_by_one_connection_to_the_jump_host_which_lab_ssh_reaches_too(lab: Lab) -> None:
    before = logins(lab)
    done = lab.run("discover", "-o", "json")
    assert done.returncode == 0, done.stderr
    assert sorted(host["name"] for host in json.loads(done.stdout)["hosts"]) == [HOST, OTHER]
    assert logins(lab) == before + 1
    assert lab.must(JUMP, "hostname").strip() == JUMP


def test_a_user_attaches_and_detaches_a_vgpu_through_the_jump_host(lab: Lab, tmp_path: Path) -> None:
    """As root does, whose login reads the hosts while the lab comes up."""
    inventory = inventories.copy(lab, tmp_path)
    hosts = inventory / "hosts.yml"
    text = hosts.read_text(encoding="utf-8")
    hosts.write_text(
        text.replace("ansible_user: root", "ansible_user: ops\n    ansible_become: true"), encoding="utf-8"
    )
    for arguments in (("attach", VM, "--profile", "4Q"), ("list",), ("reconcile", "--yes"), ("detach", VM, "--yes")):
        done = lab.run("-i", str(inventory), *arguments, "-o", "json")
        assert done.returncode == 0, done.stderr
        if arguments == ("list",):
            assert [row["vm"] for row in json.loads(done.stdout)["vgpus"]] == [VM]
