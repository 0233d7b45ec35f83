"""`vgpumgr inventory check` as its user sees it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

from vgpumgr.cli.main import run

if TYPE_CHECKING:
    import pytest

GOOD = Path(__file__).parents[3] / "cases/inventory" / "good"
BAD = Path(__file__).parents[3] / "cases/inventory" / "bad"
DESIGN = str(GOOD / "design" / "inventory")


def test_check_counts_what_is_declared(capsys: pytest.CaptureFixture[str]) -> None:
    """One line says how much was read and that nothing is wrong; findings come before it with their places."""
    assert run(["inventory", "check", "-i", DESIGN]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines == ["hypervisors: those of the group hypervisors", "2 hosts, 2 VMs declared; no problems"]
    assert run(["inventory", "check", "-i", str(GOOD / "findings" / "inventory")]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert any(line.endswith(": policy numa is not implemented yet; spread is used") for line in lines[:-1])


def test_check_names_a_profile_that_exists_nowhere(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "hosts.yml").write_text(
        "hypervisors: {hosts: {kvm01: {vgpumgr_vms: {vm05: {vgpu0: {profile: A41-4Q}}}}}}\n", encoding="utf-8"
    )
    assert run(["inventory", "check", "-i", str(tmp_path)]) == 0
    first, *_, last = capsys.readouterr().out.splitlines()
    assert first.startswith("hosts.yml:1: slot 'vgpu0' of VM 'vm05': NVIDIA's list of vGPU types has no A41-4Q")
    assert last == "1 host, 1 VM declared; no problems, 1 finding"


def test_check_as_json_has_every_key(capsys: pytest.CaptureFixture[str]) -> None:
    """The JSON form names its schema and gives hosts and findings."""
    assert run(["-i", DESIGN, "inventory", "check", "-o", "json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["schema"] == "vgpumgr.inventory/1"
    assert [host["name"] for host in found["hosts"]] == ["kvm01", "kvm02"]
    assert found["findings"] == []


def test_the_other_formats_list_the_hosts(capsys: pytest.CaptureFixture[str]) -> None:
    """`-o name` gives one host a line, `-o wide` a table above the summary."""
    assert run(["inventory", "check", "-i", DESIGN, "-o", "name"]) == 0
    assert capsys.readouterr().out.split() == ["kvm01", "kvm02"]
    assert run(["inventory", "check", "-i", DESIGN, "-o", "wide"]) == 0
    assert capsys.readouterr().out.startswith("HOST")


def test_problems_are_listed_and_end_in_exit_2(capsys: pytest.CaptureFixture[str]) -> None:
    """Every problem is a line on stderr with its place, and the exit code is that of usage errors."""
    assert run(["inventory", "check", "-i", str(BAD / "unknown-names" / "inventory")]) == 2
    told = capsys.readouterr()
    assert told.out == ""
    assert "group_vars/all.yml:1: unknown variable 'vgpumgr_vm'; did you mean 'vgpumgr_vms'?" in told.err
