"""The fixed command and the package that it reads, run here by /bin/sh as a login shell would."""

from __future__ import annotations

import json
import re
import subprocess
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from vgpumgr.host.protocol.session import MAGIC, PROTOCOL
from vgpumgr.link.program import bootstrap
from vgpumgr.link.program.package import Packages


def test_twenty_hosts_that_ask_at_once_make_the_package_once(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[int] = []
    together = threading.Barrier(20)

    def make() -> Packages:
        made.append(1)
        time.sleep(0.05)
        return Packages(b"near", b"far")

    def ask(number: int) -> bytes:
        together.wait()
        return bootstrap.package(far=number % 2 == 1)

    monkeypatch.setattr(bootstrap, "read_or_make", make)
    bootstrap._packages.cache_clear()
    with ThreadPoolExecutor(20) as threads:
        assert set(threads.map(ask, range(20))) == {b"4\nnear", b"3\nfar"}
    assert made == [1]
    bootstrap._packages.cache_clear()


def test_any_login_shell_reads_the_command_alike() -> None:
    """Single-quoted words without what csh or fish would still look at inside, and plain words."""
    rest = re.sub(r"'[^'\\\n!]*'", "Q", bootstrap.SERVE)
    assert rest == "/bin/sh -c Q Q"


def start(data: bytes, command: str = bootstrap.SERVE, shell: str = "/bin/sh") -> subprocess.CompletedProcess[bytes]:
    return subprocess.run([shell, "-c", command], input=data, capture_output=True, timeout=30, check=False)


@pytest.mark.parametrize(("shell", "far"), [("/bin/sh", False), ("/bin/bash", True)])
def test_the_program_greets_and_ends_with_its_input(shell: str, *, far: bool) -> None:
    done = start(bootstrap.package(far=far), shell=shell)
    assert done.returncode == 0, done.stderr
    magic = MAGIC.encode()
    assert done.stdout.startswith(magic)
    assert json.loads(done.stdout[len(magic) :])["protocol"] == PROTOCOL


def test_what_follows_the_package_is_the_programs() -> None:
    done = start(bootstrap.package(far=False) + b'{"id":1,"do":"ping"}\n')
    assert json.loads(done.stdout.splitlines()[1]) == {"id": 1, "ok": {}}


@pytest.mark.parametrize("data", [b"", b"12", b"100\nabc"])
def test_a_package_that_is_cut_short_ends_quietly(data: bytes) -> None:
    done = start(data)
    assert done.returncode not in (0, bootstrap.TOO_OLD)
    assert done.stdout == b""


def test_without_a_python_that_is_new_enough_the_status_says_so() -> None:
    """Every candidate is tried; here each is one that calls itself too old."""
    old = bootstrap.SERVE.replace("/usr/bin/python3 /usr/libexec/platform-python python3", "/bin/false-not-there fake")
    script = f"fake() {{ return {bootstrap.TOO_OLD}; }}; " + old.split("'")[1]
    done = subprocess.run(["/bin/sh", "-c", script, "loader"], capture_output=True, timeout=10, check=False)
    assert done.returncode == bootstrap.TOO_OLD
    assert b"no Python 3.9 or newer" in done.stderr


@pytest.mark.parametrize("eaten", [1, 3])
def test_input_that_something_else_has_read_from_is_told_by_the_status(eaten: int) -> None:
    """A `read` in a login script takes the first line or the first bytes of it; Python says nothing of that."""
    package = bootstrap.package(far=False)
    for left in (package.partition(b"\n")[2], package[eaten:]):
        done = start(left)
        assert (done.returncode, done.stdout, done.stderr) == (bootstrap.CUT_SHORT, b"", b"")
