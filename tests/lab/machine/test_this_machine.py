"""The controller is the hypervisor: vgpumgr runs on a host of the lab, as root and as a user with sudo, without any SSH."""

from __future__ import annotations

import json
import subprocess
import sys
import sysconfig
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from vgpumgr.lab import fleet

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.lab_fixtures import Lab, LabFactory

pytestmark = pytest.mark.lab

HOST, VM = "kvm01", "vm1"
SPEC = """
hosts:
  kvm01: {driver: 570, boards: [{board: A40, vfs: 2}], vms: ["vm[1:2]"]}
"""
# Where the host has this checkout and what is installed for it; a path of this machine may be in a /tmp, which a host has of its own.
CHECKOUT, SITE = "/opt/vgpumgr", "/opt/site-packages"
INVENTORY = "/opt/inventory"
PYTHON = f"{sys.base_prefix}/bin/python{sys.version_info.major}.{sys.version_info.minor}"
MAIN = "import sys; from vgpumgr.cli.main import main; sys.exit(main())"


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """A host with this checkout and its Python on it."""

    lab: Lab

    def run(self, *arguments: str, user: str = "root") -> subprocess.CompletedProcess[str]:
        """`vgpumgr ARGUMENTS` there, for that user."""
        pid = self.lab.control(HOST, "status")["first_process"]
        enter = ["nsenter", "--target", str(pid), "--pid", "--mount", "--root", "--wd"]
        login = ["setpriv", f"--reuid={user}", f"--regid={user}", "--init-groups"]
        variables = {"HOME": f"/home/{user}", "VGPUMGR_INVENTORY": INVENTORY, "VGPUMGR_STORE": f"/tmp/{user}/store"}
        variables["PYTHONPATH"] = f"{CHECKOUT}:{SITE}"
        environment = ["env", *(f"{name}={value}" for name, value in variables.items())]
        return subprocess.run(
            [*enter, *login, *environment, PYTHON, "-c", MAIN, *arguments],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
            timeout=600,
        )

    def must(self, *arguments: str, user: str = "root") -> Any:
        done = self.run(*arguments, "-o", "json", user=user)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    def declare(self, variables: str) -> None:
        text = f"hypervisors: {{hosts: {{{HOST}: {{{variables}}}}}}}"
        self.lab.must(
            HOST,
            f"mkdir -p {INVENTORY} && install -d -o ops /tmp/ops && install -d /tmp/root && cat > {INVENTORY}/hosts.yml",
            text=text,
        )


@pytest.fixture(scope="module")
def machine(lab_factory: LabFactory) -> Iterator[Machine]:
    lab = lab_factory(SPEC, shared=False)
    record = fleet.read(lab.layout).host(HOST)
    root = lab.layout.host(HOST) / "disk/root"
    python = str(Path(sys.base_prefix).resolve())
    shown = [python, python, str(Path(__file__).parents[3]), CHECKOUT, sysconfig.get_path("purelib"), SITE]
    # What is mounted in the supervisor's namespace is there from the next boot on.
    script = 'while [ $# -gt 0 ]; do mkdir -p "$0$2" && mount --rbind "$1" "$0$2" || exit; shift 2; done; chmod 711 "$0/root"'
    subprocess.run(
        ["nsenter", "--target", str(record.pid), "--mount", "sh", "-c", script, str(root), *shown], check=True
    )
    lab.control(HOST, "reboot")
    yield Machine(lab=lab)
    lab.down()


@pytest.mark.parametrize("user", ["root", "ops"])
def test_everything_works_without_ssh(machine: Machine, user: str) -> None:
    machine.declare("ansible_connection: local, ansible_become: true")
    machine.lab.control(HOST, "fault", name="ssh-refused")
    try:
        attached = machine.must("attach", VM, "--profile", "4Q", user=user)
        assert attached["result"] is not None
        assert [row["vm"] for row in machine.must("list", user=user)["vgpus"]] == [VM]
        machine.must("reconcile", "--yes", user=user)
        machine.must("collect", user=user)
        machine.must("detach", VM, "--yes", user=user)
        assert machine.must("list", user=user)["vgpus"] == []
    finally:
        machine.lab.control(HOST, "clear")


def test_a_user_without_become_is_refused_and_what_sudo_refuses_is_told(machine: Machine) -> None:
    machine.declare("ansible_connection: local")
    done = machine.run("list", user="ops")
    assert done.returncode == 4
    assert "kvm01: become: this controller runs as ops, and the host program needs root" in done.stderr
    machine.declare("ansible_connection: local, ansible_become: true")
    machine.lab.must(HOST, "echo '# nobody' > /etc/sudoers.d/ops")
    try:
        done = machine.run("list", user="ops")
    finally:
        machine.lab.must(HOST, "echo 'ops ALL=(ALL:ALL) NOPASSWD: ALL' > /etc/sudoers.d/ops")
    assert done.returncode == 4
    assert "kvm01: become: sudo asks ops for a password" in done.stderr
