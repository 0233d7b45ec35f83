"""`vgpumgr capacity` and `explain`: what they refuse, and what they say where no host answers."""

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
        (["capacity", "4q"], "PROFILE: not a profile: '4q'"),
        (["capacity", "kvm01"], "vgpumgr capacity --on kvm01"),
        (["capacity", "8Q", "--gpu", "0.5"], "PROFILE cannot be combined with --gpu"),
        (["capacity", "8Q", "--series", "C"], "--series cannot be combined with PROFILE"),
        (["capacity", "--gpu", "0.5", "--fgpu", "1"], "cannot be combined"),
        (["capacity", "--compute", "fixed-share"], "conditions need a wish"),
        (["capacity", "--count", "3"], "conditions need a wish"),
        (["capacity", "8Q", "--count", "0"], "'0' is not a whole number from 1 on"),
        (["capacity", "8Q", "--on", "kvm99"], "no host 'kvm99'"),
        (["profiles", "8Q"], "`vgpumgr capacity 8Q` says where it fits"),
        (["explain"], "say which vGPU is wanted"),
        (["explain", "--gpu", "0.5", "--fgpu", "1"], "cannot be combined"),
        (["explain", "--profile", "4Q", "--usable"], "--usable cannot be combined with --profile"),
        (["explain", "--gpu", "0.5", "--on", "kvm99"], "no host 'kvm99'"),
        (["explain", "--gpu", "0.5", "--gpu-id", "x"], "x"),
    ],
)
def test_what_cannot_be_asked_is_refused_before_a_host_is(
    words: list[str], says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main.run(words) == 2
    assert says in capsys.readouterr().err


def test_where_no_host_answers_nothing_is_known(capsys: pytest.CaptureFixture[str]) -> None:
    assert main.run(["capacity", "4Q", "-o", "json"]) == 4
    document = json.loads(capsys.readouterr().out)
    assert published.problems("capacity", document) == []
    assert document["totals"] == [{"requested": "4Q", "fits_now": None, "at_least": True, "count": None, "fits": None}]
    assert [(row["host"], row["gpu"], row["fits_now"]) for row in document["gpus"]] == [("kvm01", None, None)]
    assert main.run(["capacity", "-o", "csv"]) == 4
    assert capsys.readouterr().out == "profile,board,type_name,framebuffer_mib,max,gpus,fits_now,at_least\n"


def test_the_rows_of_a_host_that_was_not_read_are_there_for_programs_but_it_is_no_name_of_one_with_room(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main.run(["capacity", "4Q", "-o", "csv", "--columns", "host,gpu,fits_now"]) == 4
    assert capsys.readouterr().out == "host,gpu,fits_now\nkvm01,,\n"
    assert main.run(["capacity", "4Q", "-o", "name"]) == 4
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize("words", [["capacity"], ["capacity", "4Q"], ["explain", "--gpu-memory", "4G", "--compare"]])
def test_people_see_the_error_and_no_empty_table(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main.run(words) == 4
    out, err = capsys.readouterr()
    assert out == ""
    assert "connection refused" in err


def test_where_no_host_answers_the_mechanisms_fit_nowhere(capsys: pytest.CaptureFixture[str]) -> None:
    assert main.run(["explain", "--gpu-memory", "4096M", "--compare", "-o", "json"]) == 4
    out, err = capsys.readouterr()
    document = json.loads(out)
    assert published.problems("explain", document) == []
    assert (document["requested"], document["hosts"]) == ("--gpu-memory 4G", [])
    assert {(one["key"], *one["fits"], one["why_not"]) for one in document["mechanisms"]} == {
        (key, "no host was read")
        for key in ("best-effort", "equal-share", "fixed-share", "mixed-size", "mig", "mig-time-sliced", "whole-gpu")
    }
    assert json.loads(err)["error"] == "Unreachable"
