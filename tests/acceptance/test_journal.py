"""The journal of real changes: lines are there when a host is written to, whatever becomes of the command."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.lab_fixtures import Lab

pytestmark = pytest.mark.lab

ATTACH = ("attach", "vm01", "--profile", "4Q", "--on", "kvm01")
DETACH = ("detach", "vm01", "--yes", "--on", "kvm01")
# The program, which gets a signal just before its first step, when all that a run needs is read and decided.
_STRUCK = """
import os, sys
from vgpumgr.cli.main import main
from vgpumgr.controller.engine import executor
number = int(sys.argv.pop(1))
really = executor.Executor.execute
def execute(self, step):
    executor.Executor.execute = really
    os.kill(os.getpid(), number)
    really(self, step)
executor.Executor.execute = execute
sys.exit(main())
"""
_IMPORTED = """
import sys
from vgpumgr.cli.main import run
code = run(sys.argv[1:])
print("sqlite3" in sys.modules, file=sys.stderr)
sys.exit(code)
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """vgpumgr with a store of its own."""

    lab: Lab
    store: Path

    def __call__(self, *argv: str, code: str = "", struck: int | None = None) -> subprocess.CompletedProcess[str]:
        start = ["-m", "vgpumgr.cli.main"] if struck is None else ["-c", _STRUCK, str(struck)]
        start = ["-c", code] if code else start
        root = str(Path(__file__).resolve().parents[2])
        env = {**os.environ, **self.lab.env, "VGPUMGR_STORE": str(self.store), "PYTHONPATH": root}
        return subprocess.run(
            [sys.executable, *start, *argv], env=env, input="", capture_output=True, text=True, check=False, timeout=120
        )

    def runs(self) -> list[dict[str, Any]]:
        done = self("history", "-o", "json")
        assert done.returncode == 0, done.stderr
        found: list[dict[str, Any]] = json.loads(done.stdout)["runs"]
        return found


@pytest.fixture
def program(mdev_vf_lab: Lab, tmp_path: Path) -> Iterator[Program]:
    """kvm01's vm01 has nothing, before and after."""
    made = Program(lab=mdev_vf_lab, store=tmp_path / "store" / "store.sqlite")
    yield made
    mdev_vf_lab.run("lab", "fault", "kvm01", "clear")
    assert made(*DETACH).returncode == 0


def test_what_changes_a_host_is_one_line_and_what_does_not_is_none(program: Program) -> None:
    """Attach and detach with who, why and the steps; --check makes no file; the same attach again writes no line.

    What writes none does not pay for importing sqlite3 either.
    """
    checked = program(*ATTACH, "--check", code=_IMPORTED)
    assert checked.returncode == 3
    assert not program.store.parent.exists()
    done = [program(*argv, code=_IMPORTED) for argv in (ATTACH, ATTACH, DETACH)]
    assert [ran.returncode for ran in done] == [0, 0, 0]
    assert [ran.stderr.splitlines()[-1] for ran in (checked, *done)] == ["False", "True", "False", "True"]
    detached, attached = program.runs()
    assert (attached["verb"], attached["vm"], attached["host"], attached["outcome"]) == (
        "attach",
        "vm01",
        "kvm01",
        "done",
    )
    assert "4Q" in attached["why"]
    assert "@" in attached["by"]
    assert (attached["slot"], attached["vm_uuid"]) == ("vgpu0", detached["vm_uuid"])
    assert attached["gpu"].startswith("0000:")
    assert [step["verb"] for step in attached["steps"]] == ["put_claim", "create_vgpu", "attach_hostdev", "bind_claim"]
    assert attached["at"] <= attached["ended_at"] <= detached["at"]
    assert (detached["verb"], detached["outcome"]) == ("detach", "done")


def test_a_step_that_the_driver_refuses_is_the_runs_end_and_reason(program: Program) -> None:
    assert program.lab.run("lab", "fault", "kvm01", "create-eio").returncode == 0
    assert program(*ATTACH).returncode == 1
    (run,) = program.runs()
    assert (run["outcome"], run["error"]) == ("failed", "SysfsRefused")
    assert "EIO" in run["message"]


def test_a_killed_run_never_ended_and_the_next_one_did(program: Program) -> None:
    """SIGKILL before the first write: the line is there already."""
    assert program(*ATTACH, struck=9).returncode == -9
    assert program(*ATTACH).returncode == 0
    assert [(run["outcome"], run["ended_at"] is None) for run in program.runs()] == [("done", False), (None, True)]


def test_an_interrupted_run_says_so(program: Program) -> None:
    """SIGTERM: what was done is undone, and the line ended."""
    assert program(*ATTACH, struck=15).returncode == 143
    (run,) = program.runs()
    assert (run["outcome"], run["error"]) == ("interrupted", "Terminated")


def test_deleting_the_journal_changes_nothing_that_is_there_or_wanted(program: Program) -> None:
    assert program(*ATTACH).returncode == 0
    before = program("list", "kvm01", "-o", "json").stdout
    program.store.unlink()
    assert program("list", "kvm01", "-o", "json").stdout == before
    assert program(*ATTACH, "--check").returncode == 0


def test_a_journal_that_cannot_be_written_stops_no_change(program: Program) -> None:
    """One warning for a person, a finding for a script, and the change is made."""
    program.store.parent.mkdir()
    program.store.write_bytes(b"\xff" * 4096)
    attached = program(*ATTACH)
    assert attached.returncode == 0
    assert attached.stderr.count("warning:") == 1
    assert f"the journal {program.store} is damaged" in attached.stderr
    detached = program(*DETACH, "-o", "json")
    assert (detached.returncode, detached.stderr) == (0, "")
    found = json.loads(detached.stdout)
    assert [finding["kind"] for finding in found["findings"]] == ["journal"]
