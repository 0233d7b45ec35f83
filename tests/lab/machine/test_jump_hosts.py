"""Twenty hosts behind one jump host: one connection to it, every machine's key checked, and what its end comes to."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.unit.link.conftest import descendants, wait_for
from vgpumgr.lab import fleet

if TYPE_CHECKING:
    import subprocess

    from tests.lab_fixtures import Lab, LabFactory

pytestmark = pytest.mark.lab

HOSTS = [f"kvm{number:02}" for number in range(1, 21)]
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


def via(lab: Lab) -> str:
    return f"via 127.0.0.1:{fleet.read(lab.layout).host(JUMP).port}: "


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


def test_a_wrong_key_of_the_jump_host_is_refused_and_nobody_logs_in(lab: Lab) -> None:
    known = lab.layout.known_hosts
    right = known.read_text(encoding="ascii")
    keys = dict(line.split(" ", 1) for line in right.splitlines())
    jump = f"[127.0.0.1]:{fleet.read(lab.layout).host(JUMP).port}"
    other = next(key for name, key in keys.items() if name != jump)
    before = logins(lab)
    try:
        known.write_text(right.replace(f"{jump} {keys[jump]}", f"{jump} {other}"), encoding="ascii")
        done = lab.run("list")
    finally:
        known.write_text(right, encoding="ascii")
    assert done.returncode == 4
    told = failures(done)
    assert [line.partition(":")[0] for line in told] == HOSTS
    assert all(f"{via(lab)}kex: the host's key has CHANGED" in line for line in told), done.stderr
    assert logins(lab) == before


def test_a_jump_host_that_dies_in_the_middle_leaves_every_host_unreached_with_that_reason(lab: Lab) -> None:
    before = logins(lab)
    try:
        with ThreadPoolExecutor(1) as thread:
            running = thread.submit(lab.run, "list")
            wait_for(lambda: logins(lab) > before, 20)
            killed = descendants(first_process(lab))
            for pid in killed:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            died = time.monotonic()
            wait_for(lambda: not any(Path(f"/proc/{pid}").exists() for pid in killed), 10)
            done = running.result(60)
        took_s = time.monotonic() - died
    finally:
        lab.control(JUMP, "clear")
    told = failures(done)
    assert done.returncode == 4
    assert [line.partition(":")[0] for line in told] == HOSTS
    assert all(via(lab) in line for line in told), done.stderr
    assert took_s < 10  # what waits for nothing: the limit of one stage
    assert lab.run("list").returncode == 0
