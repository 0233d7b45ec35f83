"""The lock of the nightly run, between real processes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from vgpumgr import errors
from vgpumgr.store.only_one import only_one

if TYPE_CHECKING:
    from pathlib import Path

_HOLDER = """
import sys
from pathlib import Path
from vgpumgr.store.only_one import only_one
with only_one(Path(sys.argv[1]), "bert@ctl2"):
    print("held", flush=True)
    sys.stdin.read()
"""


def holder(store: Path, before: str = "") -> subprocess.Popen[str]:
    """Another process that holds the lock until its stdin ends."""
    process = subprocess.Popen(
        [sys.executable, "-c", before + _HOLDER, store], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "held\n"
    return process


def test_the_second_run_is_busy_and_told_who_the_first_is(tmp_path: Path) -> None:
    store = tmp_path / "store.sqlite"
    process = holder(store)
    with pytest.raises(errors.AlreadyRunning) as raised, only_one(store, "anna@ctl1"):
        pytest.fail("two at once")
    assert f"pid {process.pid} by bert@ctl2 since 20" in raised.value.message
    assert (raised.value.exit_code, raised.value.outcome) == (6, "busy")
    process.communicate()
    with only_one(store, "anna@ctl1"):
        assert not store.exists()


def test_it_does_not_outlive_a_kill(tmp_path: Path) -> None:
    """What the killed one wrote into the file does not count."""
    store = tmp_path / "store.sqlite"
    process = holder(store)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    with only_one(store, "anna@ctl1"):
        assert f"pid {os.getpid()} by anna@ctl1" in (tmp_path / "reconcile.lock").read_text()


def test_it_is_free_after_an_error(tmp_path: Path) -> None:
    store = tmp_path / "new" / "store.sqlite"
    with pytest.raises(errors.Declined), only_one(store, "anna@ctl1"):
        raise errors.Declined("no")
    with only_one(store, "anna@ctl1"):
        pass


def test_a_program_that_the_run_starts_does_not_keep_it(tmp_path: Path) -> None:
    store = tmp_path / "store.sqlite"
    with only_one(store, "anna@ctl1"):
        child = subprocess.Popen(["sleep", "60"])
    try:
        with only_one(store, "anna@ctl1"):
            pass
    finally:
        child.kill()
        child.wait()


def test_where_it_cannot_be_made_the_run_is_told_so(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with (
        pytest.raises(errors.StoreError, match="cannot be created"),
        only_one(tmp_path / "file" / "store.sqlite", "x@y"),
    ):
        pytest.fail("without a lock")


def test_a_full_disk_does_not_stop_the_run_that_has_the_lock(tmp_path: Path) -> None:
    """The owner's line cannot be written then (here: a limit on the size of files); the second run is busy all the same."""
    process = holder(tmp_path / "store.sqlite", "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))")
    with pytest.raises(errors.AlreadyRunning), only_one(tmp_path / "store.sqlite", "anna@ctl1"):
        pass
    process.communicate("")
    assert process.returncode == 0
