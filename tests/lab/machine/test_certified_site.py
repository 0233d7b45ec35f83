"""A site with certificates instead of keys: hosts and their jump host show one, and the login has one. Nothing else is trusted on either side.

What is refused: tests/unit/link/ssh/test_certificates.py, test_identities.py.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from tests.acceptance import inventories

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.lab_fixtures import Lab, LabFactory

pytestmark = pytest.mark.lab

HOST, VM = "kvm01", "vm1"
SPEC = """
certificates: [hosts, users]
jumps: [jump01]
hosts:
  kvm01: {driver: 570, boards: [{board: A40, vfs: 2}], vms: [vm1], via: jump01}
"""


@pytest.fixture(scope="module")
def lab(lab_factory: LabFactory, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    spec = tmp_path_factory.mktemp("spec") / "certified.yml"
    spec.write_text(SPEC, encoding="utf-8")
    lab = lab_factory(str(spec), shared=False)
    yield lab
    lab.down()


def test_nothing_but_certificates_is_known_or_allowed(lab: Lab) -> None:
    known = lab.layout.known_hosts.read_text(encoding="ascii").splitlines()
    assert known
    assert all(line.startswith("@cert-authority [127.0.0.1]:") for line in known)
    assert lab.must(HOST, "cat /root/.ssh/authorized_keys /home/ops/.ssh/authorized_keys") == ""


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
