"""`vgpumgr explain`: what it refuses, and what it says where no host answers."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from tests.unit.documents import published
from vgpumgr.cli import main

if TYPE_CHECKING:
    from pathlib import Path

HOSTS = "hypervisors:\n  hosts:\n    kvm01: {ansible_host: 127.0.0.1, ansible_port: 1, ansible_user: root}\n"


@pytest.fixture(autouse=True)
def inventory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "hosts.yml").write_text(HOSTS, encoding="utf-8")
    monkeypatch.setenv("VGPUMGR_INVENTORY", str(tmp_path))


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ([], "say which vGPU is wanted"),
        (["--gpu", "0.5", "--fgpu", "1"], "cannot be combined"),
        (["--profile", "4Q", "--usable"], "--usable cannot be combined with --profile"),
        (["--gpu", "0.5", "--on", "kvm99"], "no host 'kvm99'"),
        (["--gpu", "0.5", "--gpu-id", "x"], "x"),
    ],
)
def test_what_is_no_wish_is_refused(words: list[str], says: str, capsys: pytest.CaptureFixture[str]) -> None:
    """As attach refuses it, and before a host is asked."""
    assert main.run(["explain", *words]) == 2
    assert says in capsys.readouterr().err


def test_where_no_host_answers_the_mechanisms_fit_nowhere(capsys: pytest.CaptureFixture[str]) -> None:
    assert main.run(["explain", "--gpu-memory", "4096M", "--compare", "-o", "json"]) == 4
    out, err = capsys.readouterr()
    document = json.loads(out)
    assert published.problems("explain", document) == []
    assert (document["requested"], document["hosts"]) == ("--gpu-memory 4G", [])
    assert {(one["key"], *one["fits"], one["why_not"]) for one in document["mechanisms"]} == {
        (key, "no host was read")
        for key in ("best-effort", "equal-share", "fixed-share", "mixed-size", "mig", "whole-gpu")
    }
    assert json.loads(err)["error"] == "Unreachable"


def test_people_see_the_error_and_no_empty_table(capsys: pytest.CaptureFixture[str]) -> None:
    assert main.run(["explain", "--gpu-memory", "4G", "--compare"]) == 4
    assert capsys.readouterr().out == ""
