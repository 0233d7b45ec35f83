"""The job as cron runs it: its line, through a real shell, with cron's bare environment, against simulated hosts."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from vgpumgr.store.only_one import only_one

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.lab_fixtures import Lab

    Night = Callable[[], subprocess.CompletedProcess[str]]

pytestmark = pytest.mark.lab


@pytest.fixture
def store(tmp_path: Path) -> Path:
    return tmp_path / "a store" / "store.sqlite"


@pytest.fixture
def night(vf_fleet: Lab, store: Path) -> Iterator[Night]:
    """Run what `install cron` prints now, as cron would at night."""
    root = str(Path(__file__).resolve().parents[2])
    env = {**os.environ, **vf_fleet.env, "VGPUMGR_STORE": str(store), "PYTHONPATH": root}
    argv = [sys.executable, "-m", "vgpumgr.cli.main", "install", "cron", "--jitter", "0", "--timeout", "20"]
    printed = subprocess.run(argv, env=env, capture_output=True, text=True, check=True, timeout=600).stdout
    line = printed.splitlines()[-1].split(None, 6)[6].replace(r"\%", "%")

    def run() -> subprocess.CompletedProcess[str]:
        bare = {"HOME": os.environ.get("HOME", "/root"), "PATH": "/usr/bin:/bin", "SHELL": "/bin/sh", "LOGNAME": "root"}
        return subprocess.run(
            ["/bin/sh", "-c", line],
            env=bare,
            cwd="/",
            input="",
            capture_output=True,
            text=True,
            check=False,
            timeout=600,
        )

    yield run
    vf_fleet.control("kvm02", "clear")


def test_a_night_on_which_all_is_as_wanted_sends_no_mail(night: Night, store: Path) -> None:
    """Nothing on stdout, nothing on stderr, and no journal for a run that changed nothing."""
    done = night()
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert not store.exists()


def test_a_second_run_is_busy_and_says_who_is_at_it(night: Night, store: Path) -> None:
    with only_one(store, "anna@ctl1"):
        done = night()
    assert done.returncode == 6
    assert f"pid {os.getpid()} by anna@ctl1 since " in done.stderr
    assert night().returncode == 0
