"""Logins of a user who is not root, on real hosts: sudo for everything, and a key that runs nothing but the dispatcher.

The second goes through a jump host whose host key has a certificate: the host itself, whose own sshd it is reached by.
"""

from __future__ import annotations

import subprocess
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest
import yaml

from tests.acceptance.command import vgpumgr, vgpus
from tests.kernel import cases, seen
from tests.kernel.marks import each_commit
from tests.kernel.release import DEBIAN12
from tests.kernel.vm import HOST
from vgpumgr.lab.machine.sshd import ADDRESS

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.kernel.vm import Vm

pytestmark = pytest.mark.kernel

CASE = cases.VF
_SET_UP = r"""
set -eu
id ops >/dev/null 2>&1 || useradd --create-home --shell /bin/bash --password '*' ops
install -d -m 700 -o ops -g ops ~ops/.ssh
install -m 600 -o ops -g ops ~root/.ssh/authorized_keys ~ops/.ssh/authorized_keys
printf '%s\n' 'ops ALL=(ALL:ALL) NOPASSWD: ALL' >/etc/sudoers.d/ops
"""
_CLEAN_UP = r"""
set -eu
rm -rf /etc/sudoers.d/ops /etc/ssh/sshd_config.d/certificate.conf /etc/ssh/host-cert.pub /opt/vgpumgr-host
userdel --remove --force ops 2>/dev/null
systemctl reload ssh
"""
_CERTIFY = r"""
set -eu
cat >/etc/ssh/host-cert.pub
echo HostCertificate /etc/ssh/host-cert.pub >/etc/ssh/sshd_config.d/certificate.conf
systemctl reload ssh
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Login:
    """The host, reached by an inventory of its own."""

    vm: Vm
    inventory: Path

    def run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return self.vm.run("-i", str(self.inventory), *arguments)

    def declare(self, **variables: object) -> None:
        hosts = yaml.safe_load((self.vm.folder / "inventory/hosts.yml").read_text(encoding="utf-8"))
        group = hosts["hypervisors"]
        group["vars"] |= {"ansible_user": "ops", "ansible_become": True}
        group["hosts"][HOST] |= variables
        self.inventory.mkdir(exist_ok=True)
        (self.inventory / "hosts.yml").write_text(yaml.safe_dump(hosts), encoding="utf-8")


@pytest.fixture
def login(vm: Vm, tmp_path: Path) -> Iterator[Login]:
    vm.must("bash -s", text=_SET_UP)
    found = Login(vm=vm, inventory=tmp_path / "inventory")
    found.declare()
    yield found
    vm.must("bash -s", text=_CLEAN_UP)


def does_everything(login: Login) -> None:
    """What a site does with a host, from the first vGPU to the last."""
    vgpumgr(login, "attach", CASE.guest, "--profile", CASE.profile)
    (row,) = vgpus(login)
    assert (row["vm"], row["state"]) == (CASE.guest, "bound")
    vgpumgr(login, "reconcile", "--yes")
    vgpumgr(login, "collect")
    vgpumgr(login, "detach", CASE.guest, "--yes")
    assert (seen.hardware(login.vm), vgpus(login)) == ({}, [])
    vgpumgr(login, "scheduler", "set", "--on", HOST, "--gpu-id", CASE.gpu, "--policy", "equal-share", "--yes")


def installed(vm: Vm) -> str:
    """Where an installation could leave anything."""
    return vm.must("find /opt /etc/sudoers.d /usr/local /home /root -printf '%p %m %u %g %s\\n' | sort")


@each_commit(DEBIAN12)
def test_a_user_with_sudo_does_everything_and_nothing_is_installed(login: Login) -> None:
    before = installed(login.vm)
    does_everything(login)
    assert installed(login.vm) == before


def behind_itself(login: Login, folder: Path) -> None:
    """The host is reached through its own sshd, and only its authority is known."""
    authority = folder / "authority"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", authority], check=True)
    public = folder / "host.pub"
    public.write_text(login.vm.must("cat /etc/ssh/ssh_host_ed25519_key.pub"), encoding="ascii")
    subprocess.run(
        ["ssh-keygen", "-q", "-s", authority, "-h", "-I", HOST, "-n", ADDRESS, "-V", "-1d:+1d", public], check=True
    )
    login.vm.must(_CERTIFY, text=(folder / "host-cert.pub").read_text(encoding="ascii"))
    known = folder / "known_hosts"
    key = authority.with_suffix(".pub").read_text(encoding="ascii")
    known.write_text(f"@cert-authority {ADDRESS},[{ADDRESS}]:{login.vm.port} {key}", encoding="ascii")
    login.declare(
        ansible_host=ADDRESS,
        ansible_port=22,
        ansible_ssh_common_args=f"-F none -o UserKnownHostsFile={known} -o ProxyJump=root@{ADDRESS}:{login.vm.port}",
    )


def test_a_key_that_runs_nothing_else_does_everything_through_a_jump_host(login: Login, tmp_path: Path) -> None:
    before = installed(login.vm)
    everything = login.vm.must("cat ~ops/.ssh/authorized_keys")
    key = tmp_path / "login.pub"
    key.write_text(everything, encoding="ascii")
    behind_itself(login, tmp_path)
    vgpumgr(login, "host", "install", HOST)
    lines = vgpumgr(login, "host", "sudoers", HOST, "--key", str(key)).out.splitlines()
    login.vm.must("cat >/etc/sudoers.d/ops && visudo -c -q -f /etc/sudoers.d/ops", text="\n".join(lines) + "\n")
    login.vm.must("cat > ~ops/.ssh/authorized_keys", text=lines[-1].removeprefix("# ") + "\n")
    vgpumgr(login, "host", "check")
    does_everything(login)
    argv = [word.replace("root@", "ops@") for word in login.vm.ssh_command("id")]
    alone = [argv[0], "-o", "ControlPath=none", *argv[1:]]
    refused = subprocess.run(alone, capture_output=True, text=True, check=False, timeout=60)
    assert (refused.returncode, refused.stdout) == (126, "")
    assert "vgpumgr dispatcher: runs nothing else" in refused.stderr
    login.vm.must("for each in /opt/vgpumgr-host/programs/*; do echo >>$each; done")
    assert "altered" in vgpumgr(login, "discover", "-o", "json", code=4).error["message"]
    login.vm.must("bash -s", text=_SET_UP)
    vgpumgr(login, "host", "uninstall", HOST)
    assert installed(login.vm) == before
