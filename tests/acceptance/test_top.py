"""`vgpumgr top` itself, on a terminal and on simulated hosts."""

from __future__ import annotations

import os
import signal
import sys
from typing import TYPE_CHECKING

import pytest

from tests.unit.cli.top.terminal import Terminal

if TYPE_CHECKING:
    from pathlib import Path

    from tests.lab_fixtures import Lab

pytestmark = pytest.mark.lab

# A real start, as the terminal is given back at the real end.
TOP = [sys.executable, "-m", "vgpumgr.cli.main", "top", "--every", "1s"]


def _stamp(file: Path) -> tuple[int, int] | None:
    """Size and time of a file, which other tests in the same lab may have made; None if it is not there."""
    return (file.stat().st_size, file.stat().st_mtime_ns) if file.exists() else None


@pytest.mark.parametrize("end", ["q", "SIGTERM"])
def test_the_hosts_are_read_and_shown_until_it_is_ended_and_nothing_is_written(vf_fleet: Lab, end: str) -> None:
    """Neither on the hosts nor in the store; the terminal is as it was."""
    store = vf_fleet.dir / "samples.db"
    before = vf_fleet.revisions(), _stamp(store)
    with Terminal(TOP, {**vf_fleet.env, "COLUMNS": "120"}) as terminal:  # a worker of pytest says 80
        terminal.until("reading 2 hosts …")
        terminal.until("every 1 s")  # the foot is drawn last
        head, *gpus = terminal.display.lines[:4]
        assert [line.split()[:2] for line in gpus] == [
            ["kvm01", "0000:41:00.0"],
            ["kvm01", "0000:81:00.0"],
            ["kvm02", "0000:41:00.0"],
        ]
        assert "TEMP" in head
        assert all("best-effort" in line and "34C" in line for line in gpus)
        terminal.press("h")
        terminal.until("press any key to continue")
        if end == "q":
            terminal.press(" q")
        else:
            os.kill(terminal.pid, signal.SIGTERM)
        assert terminal.wait() == (0 if end == "q" else 143)
        assert terminal.restored
    assert (vf_fleet.revisions(), _stamp(store)) == before


def test_without_a_terminal_it_is_one_table_and_ends(vf_fleet: Lab) -> None:
    done = vf_fleet.run("top", "kvm02")
    assert (done.returncode, done.stderr) == (0, "reading 1 host …\n")
    assert done.stdout.startswith("kvm02  1 GPU at 0%, framebuffer 0.0 of 40.0 GiB")
    assert "\x1b" not in done.stdout


def test_an_unknown_name_is_told_and_the_screen_is_given_back(vf_fleet: Lab) -> None:
    with Terminal([*TOP, "kvm09"], vf_fleet.env) as terminal:
        assert terminal.wait() == 2
        assert "no host and no VM 'kvm09'" in terminal.display.text
        assert terminal.restored
