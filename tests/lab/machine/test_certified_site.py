"""A site with certificates instead of keys: hosts and their jump host show one, and the login has one. Nothing else is trusted on either side."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.acceptance import inventories
from tests.unit.link.conftest import wait_for
from vgpumgr.lab import fleet

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.lab_fixtures import Lab, LabFactory

pytestmark = pytest.mark.lab

HOST, JUMP, VM = "kvm01", "jump01", "vm1"
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
    lab = lab_factory(str(spec), shared=False)  # its certificates change
    yield lab
    lab.down()


def certify(lab: Lab, *, names: str) -> None:
    """Give the jump host a certificate for these names."""
    process = lab.control(JUMP, "status")["first_process"]
    etc = Path(f"/proc/{process}/root/etc/ssh")
    lab.layout.authorities.sign_host(etc / "ssh_host_ed25519_key.pub", *names.split(","))
    pid = (etc.parents[1] / "run/sshd.pid").read_text()
    lab.control(JUMP, "fault", name="ssh-refused")
    wait_for(lambda: not (etc.parents[1] / "proc" / pid.strip()).exists(), 10)
    lab.control(JUMP, "clear")


def test_nothing_but_certificates_is_known_or_allowed(lab: Lab) -> None:
    known = lab.layout.known_hosts.read_text(encoding="ascii").splitlines()
    assert known
    assert all(line.startswith("@cert-authority [127.0.0.1]:") for line in known)
    assert lab.must(HOST, "cat /root/.ssh/authorized_keys /home/ops/.ssh/authorized_keys") == ""


@pytest.mark.parametrize("user", ["root", "ops"])
def test_a_vgpu_is_attached_and_detached_through_the_jump_host(lab: Lab, tmp_path: Path, user: str) -> None:
    inventory = inventories.copy(lab, tmp_path)
    hosts = inventory / "hosts.yml"
    text = hosts.read_text(encoding="utf-8")
    hosts.write_text(
        text.replace("ansible_user: root", f"ansible_user: {user}\n    ansible_become: true"), encoding="utf-8"
    )
    for arguments in (("attach", VM, "--profile", "4Q"), ("list",), ("reconcile", "--yes"), ("detach", VM, "--yes")):
        done = lab.run("-i", str(inventory), *arguments, "-o", "json")
        assert done.returncode == 0, done.stderr
        if arguments == ("list",):
            assert [row["vm"] for row in json.loads(done.stdout)["vgpus"]] == [VM]


def test_a_jump_host_with_another_hosts_certificate_is_refused_by_name(lab: Lab) -> None:
    certify(lab, names="jump02")
    try:
        done = lab.run("list")
    finally:
        certify(lab, names=f"{JUMP},127.0.0.1")
    port = fleet.read(lab.layout).host(JUMP).port
    assert done.returncode == 4
    assert (
        f"error: kvm01: via 127.0.0.1:{port}: kex: the host's certificate 'jump02' is for 'jump02', not for 127.0.0.1"
        in done.stderr
    )
    assert "hint: write one of its names into ansible_host" in done.stderr
    assert lab.run("list").returncode == 0


def test_an_expired_certificate_of_the_login_is_named(lab: Lab) -> None:
    public = lab.layout.key.with_suffix(".pub")
    authority = str(lab.layout.authorities.users)
    expired = ["ssh-keygen", "-q", "-s", authority, "-I", "root", "-n", "root", "-V", "20200101:20210101", str(public)]
    subprocess.run(expired, check=True, capture_output=True)
    try:
        done = lab.run("list")
    finally:
        lab.layout.authorities.sign_user(public, "root", "ops")
    assert done.returncode == 4
    assert "key-cert.pub has expired: it was valid until 202" in done.stderr
    assert lab.run("list").returncode == 0
