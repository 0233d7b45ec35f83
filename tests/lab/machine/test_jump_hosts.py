"""Hosts behind one jump host: one connection to it. How it may fail: tests/unit/link/ssh/test_jumps.py."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from vgpumgr.lab import fleet

if TYPE_CHECKING:
    import subprocess

    from tests.lab_fixtures import Lab, LabFactory

pytestmark = pytest.mark.lab

HOSTS = [f"kvm{number:02}" for number in range(1, 7)]
JUMP = "jump01"
SPEC = {
    "jumps": [JUMP],
    "hosts": {name: {"boards": [{"board": "A40", "vfs": 1}], "via": JUMP} for name in HOSTS},
}


@pytest.fixture(scope="module")
def lab(lab_factory: LabFactory, tmp_path_factory: pytest.TempPathFactory) -> Lab:
    file = tmp_path_factory.mktemp("spec") / "behind.yml"
    file.write_text(json.dumps(SPEC), encoding="utf-8")
    return lab_factory(str(file))


def first_process(lab: Lab) -> int:
    return int(lab.control(JUMP, "status")["first_process"])


def logins(lab: Lab) -> int:
    """How often somebody has logged in to the jump host, by its sshd's log."""
    log = Path(f"/proc/{first_process(lab)}/root/var/log/sshd.log")
    return log.read_text(encoding="utf-8").count("Accepted publickey")


def failures(done: subprocess.CompletedProcess[str]) -> list[str]:
    """`HOST: why` of each host, also where many hosts are told together."""
    found: list[str] = []
    together = ""
    for line in done.stderr.splitlines():
        if line.startswith("error: "):
            head, _, message = line.removeprefix("error: ").partition(": ")
            together = message if head.endswith(" hosts") else ""
            found += [] if together else [f"{head}: {message}"]
        elif together and line.startswith("  kvm"):
            found += [f"{name}: {together}" for name in line.split()]
    return sorted(found)


def test_all_hosts_are_read_by_one_connection_to_the_jump_host(lab: Lab) -> None:
    before = logins(lab)
    done = lab.run("discover", "-o", "json")
    assert done.returncode == 0, done.stderr
    assert sorted(host["name"] for host in json.loads(done.stdout)["hosts"]) == HOSTS
    assert logins(lab) == before + 1


def test_lab_ssh_reaches_hosts_and_the_jump_host(lab: Lab) -> None:
    assert [lab.must(name, "hostname").strip() for name in ("kvm01", JUMP)] == ["kvm01", JUMP]


def test_an_inventory_of_names_is_enough_where_the_users_ssh_config_says_the_rest(lab: Lab, tmp_path: Path) -> None:
    """Addresses, ports, users, key, known_hosts and the way there come from a file that ssh itself reads."""
    record = fleet.read(lab.layout)
    (tmp_path / "key").symlink_to(lab.layout.key)
    (tmp_path / "known").symlink_to(lab.layout.known_hosts)
    config = tmp_path / "config"
    ports = "".join(f"Host {name}\n  Port {record.host(name).port}\n" for name in (*HOSTS, JUMP))
    config.write_text(
        f"{ports}Host kvm* {JUMP}\n  HostName 127.0.0.1\n  UserKnownHostsFile {tmp_path}/known\n"
        f"  IdentityFile {tmp_path}/key\nHost kvm*\n  User ops\n  ProxyJump root@{JUMP}\n",
        encoding="utf-8",
    )
    hosts = ", ".join(f"{name}: " for name in HOSTS)
    inventory = tmp_path / "hosts.yml"
    inventory.write_text(
        f"all: {{hosts: {{{hosts}}}, vars: {{ansible_become: true, ansible_ssh_common_args: -F {config}}}}}",
        encoding="utf-8",
    )
    before = logins(lab)
    done = lab.run("-i", str(inventory), "discover", "-o", "json")
    assert done.returncode == 0, done.stderr
    assert sorted(host["name"] for host in json.loads(done.stdout)["hosts"]) == HOSTS
    assert logins(lab) == before + 1
    config.write_text(f"{config.read_text(encoding='utf-8')}Host {JUMP}\n  ProxyCommand nc %h %p\n", encoding="utf-8")
    done = lab.run("-i", str(inventory), "discover")
    assert done.returncode == 4
    told = failures(done)
    assert len(told) == len(HOSTS)
    assert all(f"via {JUMP}: config: ssh_config says ProxyCommand nc %h %p" in line for line in told), done.stderr
