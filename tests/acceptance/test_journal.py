"""The journal of real changes: lines are there when a host is written to, whatever becomes of the command."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    import subprocess
    from pathlib import Path

    from tests.lab_fixtures import Lab

pytestmark = pytest.mark.lab

ATTACH = ("attach", "vm01", "--profile", "4Q", "--on", "kvm01")
DETACH = ("detach", "vm01", "--yes", "--on", "kvm01")


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """vgpumgr with a store of its own."""

    lab: Lab
    store: Path

    def __call__(self, *argv: str) -> subprocess.CompletedProcess[str]:
        return self.lab.run(*argv, env={"VGPUMGR_STORE": str(self.store)})

    def runs(self) -> list[dict[str, Any]]:
        done = self("history", "-o", "json")
        assert done.returncode == 0, done.stderr
        found: list[dict[str, Any]] = json.loads(done.stdout)["runs"]
        return found


@pytest.fixture
def program(one_wiped: Lab, tmp_path: Path) -> Program:
    return Program(lab=one_wiped, store=tmp_path / "store" / "store.sqlite")


def test_what_changes_a_host_is_one_line_and_what_does_not_is_none(program: Program) -> None:
    """Attach and detach with who, why and the steps; --check makes no file; the same attach again writes no line."""
    assert program(*ATTACH, "--check").returncode == 3
    assert not program.store.parent.exists()
    assert [program(*argv).returncode for argv in (ATTACH, ATTACH, DETACH)] == [0, 0, 0]
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


def test_deleting_the_journal_changes_nothing_that_is_there_or_wanted(program: Program) -> None:
    assert program(*ATTACH).returncode == 0
    before = program("list", "kvm01", "-o", "json").stdout
    program.store.unlink()
    assert program("list", "kvm01", "-o", "json").stdout == before
    assert program(*ATTACH, "--check").returncode == 0
