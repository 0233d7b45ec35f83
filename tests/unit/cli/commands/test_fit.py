"""`vgpumgr fit`: an answer without a host and without an inventory."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from tests.unit.documents import published
from vgpumgr.cli import main

if TYPE_CHECKING:
    from pathlib import Path

FILE = "gpus: [{board: A40, count: 2, mode: mixed-size}]\nrequests:\n- {profile: 8Q, count: 3}\n- {profile: 12Q, count: 2}\n"


@pytest.fixture(autouse=True)
def _nowhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("VGPUMGR_INVENTORY", str(tmp_path / "nothing"))


def test_each_gpu_is_a_line_with_its_mode_and_what_lies_where(capsys: pytest.CaptureFixture[str]) -> None:
    assert main.run(["fit", "2xA40: 2x8Q 2x12Q 48Q", "A100: 3x2g.10gb 1-5C"]) == 0
    out, err = capsys.readouterr()
    assert out.splitlines() == [
        "A40 1, mixed-size mode: 2 of 8Q at 0 16, 2 of 12Q at 24 36",
        "A40 2, equal-size mode: 1 of 48Q",
        "5 vGPUs fit on 2 A40",
        "A100 1, MIG mode: 3 of 2g.10gb at 0 2 4, 1 of 1-5C in 1g.5gb at 6",
        "4 vGPUs fit on 1 A100",
    ]
    assert err == ""


def test_what_does_not_fit_is_5_with_the_best_arrangement_and_what_would_help(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main.run(["fit", "A40/equal-size:", "2x8Q", "2x12Q", "-o", "json"]) == 5
    out, err = capsys.readouterr()
    document = json.loads(out)
    assert published.problems("fit", document) == []
    (pool,) = document["pools"]
    assert document["outcomes"] == ["no_capacity"]
    assert (pool["fits"], pool["proven"], pool["missing"]) == (False, True, [{"profile": "8Q", "count": 2}])
    assert pool["remedies"] == ["with the modes left open, all fit", "with one more A40 in equal-size mode, all fit"]
    assert [one["type_name"] for one in pool["gpus"][0]["vgpus"]] == ["A40-12Q", "A40-12Q"]
    assert json.loads(err)["error"] == "NoCapacity"


def test_a_file_asks_the_same(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "asked.yml").write_text(FILE)
    assert main.run(["fit", "--requests", "asked.yml"]) == 0
    by_file = capsys.readouterr().out
    assert main.run(["fit", "2xA40/mixed-size: 3x8Q 2x12Q"]) == 0
    assert by_file == capsys.readouterr().out


@pytest.mark.parametrize(
    ("old", "new", "line"),
    [
        ("board: A40", "board: A4O", "asked.yml:1: no board 'A4O'"),
        ("mode: mixed-size", "mode: mixed", "asked.yml:1: mode must be equal-size, mixed-size or mig"),
        ("mode: mixed-size", "mode: mig", "asked.yml:1: 'mig' is no mode of A40"),
        ("count: 3", "count: 0", "asked.yml:3: count must be a whole number from 1 to 1000"),
        ("count: 2}\n", "cont: 2}\n", "asked.yml:4: unknown key 'cont'"),
        ("{profile: 8Q, count: 3}", "8Q", "asked.yml:3: an entry of requests must be a mapping"),
        (FILE, "", "asked.yml:1: the question is empty"),
        (FILE, "[]", "asked.yml:1: the file asks for nothing"),
        (FILE, "gpus: {", "asked.yml:2: not YAML"),
    ],
)
def test_a_mistake_in_the_file_is_named_with_its_line(
    old: str, new: str, line: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "asked.yml").write_text(FILE.replace(old, new))
    assert main.run(["fit", "--requests", "asked.yml"]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert line in err


@pytest.mark.parametrize(
    "asked", [(), ("A40: 8Q", "--requests", "asked.yml"), ("A40",), ("A40: 99Q",), ("A40: eight",)]
)
def test_what_cannot_be_asked_is_2(asked: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    assert main.run(["fit", *asked]) == 2
    assert capsys.readouterr().out == ""
