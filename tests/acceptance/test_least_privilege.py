"""A login that can run nothing but vgpumgr's dispatcher, behind a jump host; every host shows a certificate. It is enough for every command, and for nothing else."""

from __future__ import annotations

import json
import subprocess
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest

from tests.acceptance import inventories
from tests.acceptance.command import vgpumgr, vgpus
from vgpumgr.lab import client, fleet

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.lab_fixtures import Lab, LabFactory

pytestmark = pytest.mark.lab

HOST, VM, GPU = "kvm01", "vm1", "0000:41:00.0"
SPEC = """
certificates: [hosts]
jumps: [jump01]
hosts:
  kvm01: {driver: 570, boards: [{board: A40, vfs: 2}], vms: ["vm[1:2]"], via: jump01}
"""
SUDOERS, KEYS = "/etc/sudoers.d/ops", "/home/ops/.ssh/authorized_keys"
PROGRAMS = "/opt/vgpumgr-host/programs"


@dataclass(frozen=True, slots=True, kw_only=True)
class Site:
    """A lab whose hosts are logged in to as ops; `key` is the public key of that login, `everything` its lines at first."""

    lab: Lab
    inventory: Path
    key: Path
    everything: dict[str, str]

    def run(self, *arguments: str) -> Any:
        return self.lab.run("-i", str(self.inventory), *arguments)

    def write(self, lines: dict[str, str]) -> None:
        for file, text in lines.items():
            self.lab.must(HOST, f"cat > {file}", text=text)

    def confine(self) -> None:
        """Write what `host sudoers` says, as its comments say it."""
        said = vgpumgr(self, "host", "sudoers", HOST, "--key", str(self.key)).out.splitlines()
        assert len(said) == 4
        self.write({SUDOERS: "\n".join(said) + "\n", KEYS: said[3].removeprefix("# ") + "\n"})

    def free(self) -> None:
        self.write(self.everything)

    def files(self) -> str:
        """What there is where an installation could leave anything."""
        folders = "/opt /etc/sudoers.d /etc/systemd/system /home /root /usr/local"
        return self.lab.must(HOST, f"find {folders} -printf '%p %m %u %g %s\\n' | sort")

    def ssh(self, *command: str, options: tuple[str, ...] = (), text: str = "") -> subprocess.CompletedProcess[str]:
        argv = client.ssh_command(self.lab.layout, fleet.read(self.lab.layout).host(HOST), command)
        argv = [word.replace("root@", "ops@", 1) if word.startswith("root@") else word for word in argv]
        return subprocess.run(
            [argv[0], *options, *argv[1:]], input=text, capture_output=True, text=True, check=False, timeout=600
        )


@pytest.fixture(scope="module")
def site(lab_factory: LabFactory, tmp_path_factory: pytest.TempPathFactory) -> Site:
    folder = tmp_path_factory.mktemp("least")
    lab = lab_factory(SPEC, own="it has a jump host and certificates")
    inventory = inventories.copy(lab, folder)
    hosts = inventory / "hosts.yml"
    said = hosts.read_text(encoding="utf-8")
    assert "ansible_user: root" in said
    hosts.write_text(
        said.replace("ansible_user: root", "ansible_user: ops\n    ansible_become: true"), encoding="utf-8"
    )
    key = folder / "login.pub"
    everything = {file: lab.must(HOST, f"cat {file}") for file in (SUDOERS, KEYS)}
    key.write_text(everything[KEYS], encoding="ascii")
    return Site(lab=lab, inventory=inventory, key=key, everything=everything)


@pytest.fixture
def confined(site: Site) -> Iterator[Site]:
    vgpumgr(site, "host", "install", HOST)
    site.confine()
    yield site
    site.free()
    vgpumgr(site, "host", "uninstall", HOST)


def status(site: Site) -> dict[str, Any]:
    (row,) = vgpumgr(site, "host", "status", "-o", "json").document["hosts"]
    assert isinstance(row, dict)
    return row


def test_what_is_installed_is_told_installed_once_and_removed_without_a_trace(site: Site) -> None:
    before = site.files()
    assert status(site)["state"] == "absent"
    would = vgpumgr(site, "host", "install", HOST, "--check", "-o", "json", code=3)
    assert json.loads(would.out)["hosts"][0]["outcome"] == "would_change"
    assert site.files() == before
    vgpumgr(site, "host", "check", code=5)
    assert "done" in vgpumgr(site, "host", "install", HOST).out
    assert "unchanged" in vgpumgr(site, "host", "install", HOST).out
    vgpumgr(site, "host", "check")
    row = status(site)
    assert (row["login"], row["user"], row["state"], row["pinned"]) == ("sudo", "ops", "installed", False)
    assert "done" in vgpumgr(site, "host", "uninstall", HOST).out
    assert "unchanged" in vgpumgr(site, "host", "uninstall", HOST).out
    assert site.files() == before


def test_the_confined_login_is_enough_for_every_command(confined: Site) -> None:
    assert status(confined)["login"] == "dispatcher"
    before = confined.files()
    vgpumgr(confined, "attach", VM, "--profile", "4Q")
    assert [row["vm"] for row in vgpus(confined)] == [VM]
    vgpumgr(confined, "reconcile", "--yes")
    vgpumgr(confined, "discover")
    vgpumgr(confined, "collect")
    vgpumgr(confined, "detach", VM, "--yes")
    assert vgpus(confined) == []
    assert confined.files() == before
    vgpumgr(confined, "scheduler", "set", "--on", HOST, "--gpu-id", GPU, "--policy", "equal-share", "--yes")


def test_the_confined_login_runs_no_other_command(confined: Site) -> None:
    for command in ("id", "", "virt-ssh-helper qemu:///session", "sudo -n sh", "scp -f /etc/shadow"):
        ran = confined.ssh(command, text="id\nexit\n")
        assert ran.returncode == 126, command
        assert ran.stdout == "", command
        assert "vgpumgr dispatcher: runs nothing else" in ran.stderr


def test_the_confined_login_transfers_no_file_and_forwards_no_port(confined: Site) -> None:
    sftp = confined.ssh("sftp", options=("-s",), text="\0\0\0\5\1\0\0\0\3")
    assert sftp.returncode == 126
    assert sftp.stdout == ""
    forwarded = confined.ssh(options=("-W", "127.0.0.1:22"))
    assert forwarded.returncode == 255
    assert "stdio forwarding failed" in forwarded.stderr
    listening = confined.ssh(options=("-N", "-R", "0:127.0.0.1:9", "-o", "ExitOnForwardFailure=yes"))
    assert listening.returncode == 255
    assert "remote port forwarding failed" in listening.stderr


def test_an_altered_program_is_refused_and_named_and_installed_anew(confined: Site) -> None:
    confined.lab.must(HOST, f"for each in {PROGRAMS}/*; do echo >> $each; done")
    error = vgpumgr(confined, "discover", "-o", "json", code=4).error
    assert f"the dispatcher there refuses: altered: {PROGRAMS}/" in error["message"]
    assert "vgpumgr host install kvm01" in error["hint"]
    confined.free()
    row = status(confined)
    assert row["state"] == "broken"
    assert all("altered" in problem for problem in row["problems"])
    assert "is not what its name says" in vgpumgr(confined, "host", "check", code=5).err
    vgpumgr(confined, "host", "install", HOST)
    confined.confine()
    vgpumgr(confined, "discover")


def test_another_version_installs_itself_unless_versions_are_pinned(confined: Site) -> None:
    confined.lab.must(HOST, f"rm {PROGRAMS}/*")
    vgpumgr(confined, "discover")
    # What was not asked for is not there yet: what far hosts are sent, unless this machine is so busy that the host seemed far.
    assert status(confined)["state"] in ("outdated", "installed")
    confined.free()
    vgpumgr(confined, "host", "install", "--pinned", HOST)
    assert status(confined)["pinned"]
    confined.confine()
    vgpumgr(confined, "discover")
    refused = vgpumgr(confined, "host", "uninstall", HOST, code=5)
    assert "this login runs nothing but the dispatcher" in refused.err
    confined.lab.must(HOST, f"rm {PROGRAMS}/*")
    error = vgpumgr(confined, "discover", "-o", "json", code=4).error
    assert "the dispatcher there refuses: pinned: the program" in error["message"]
    assert "vgpumgr host install --pinned kvm01" in error["hint"]


def test_a_key_that_is_no_public_key_is_never_printed(site: Site, tmp_path: Path) -> None:
    private = tmp_path / "id"
    for text, says in (
        (None, f"cannot read {private}: No such file or directory"),
        ("-----BEGIN\nAAAA\n", "ends in .pub"),
    ):
        if text is not None:
            private.write_text(text, encoding="ascii")
        ran = vgpumgr(site, "host", "sudoers", HOST, "--key", str(private), code=2)
        assert says in ran.err
        assert "AAAA" not in ran.out + ran.err
        assert ran.out == ""
