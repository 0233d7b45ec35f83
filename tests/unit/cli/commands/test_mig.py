"""`vgpumgr mig fit`: an answer without a host and without an inventory."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from tests.unit.documents import published
from vgpumgr.cli import main

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(autouse=True)
def _nowhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("VGPUMGR_INVENTORY", str(tmp_path / "nothing"))


def test_what_fits_is_drawn(capsys: pytest.CaptureFixture[str]) -> None:
    assert main.run(["mig", "fit", "A100", "3g.20gb", "2g.10gb", "1g.5gb"]) == 0
    out, err = capsys.readouterr()
    assert out.splitlines() == [
        " 0        1        2        3        4        5        6        7",
        "┌───────────────────────────────────┬─────────────────┬────────┬────────┐",
        "│ 3g.20gb                           │ 2g.10gb         │ 1g.5gb │ free   │",
        "└───────────────────────────────────┴─────────────────┴────────┴────────┘",
        "fits on A100: 7 of 8 memory slices taken",
    ]
    assert err == ""


def test_what_does_not_fit_is_5_with_the_others_drawn_and_the_reason(capsys: pytest.CaptureFixture[str]) -> None:
    assert main.run(["mig", "fit", "A100", "3g.20gb", "3g.20gb", "1g.5gb"]) == 5
    out, err = capsys.readouterr()
    assert out.count("3g.20gb") == 2
    assert err.splitlines() == [
        "error: A100 has no room for 1g.5gb",
        "  in its way: 3g.20gb in memory slices 0 to 3",
        "  in its way: 3g.20gb in memory slices 4 to 7",
        "hint: nothing else fits beside the others",
    ]


def test_the_object_has_the_arrangement(capsys: pytest.CaptureFixture[str]) -> None:
    assert main.run(["mig", "fit", "A100", "1g.5gb", "3g.20gb", "-o", "json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert published.problems("mig_fit", document) == []
    assert (document["board"], document["slices"], document["blocked"]) == ("A100", 8, None)
    assert document["arrangement"] == [
        {"profile": "3g.20gb", "start": 0, "size": 4},
        {"profile": "1g.5gb", "start": 4, "size": 1},
    ]


def test_the_object_has_what_is_blocked_and_the_error_is_on_stderr(capsys: pytest.CaptureFixture[str]) -> None:
    assert main.run(["mig", "fit", "A100", "4g.20gb", "4g.20gb", "-o", "json"]) == 5
    out, err = capsys.readouterr()
    document = json.loads(out)
    assert published.problems("mig_fit", document) == []
    assert (document["outcomes"], document["arrangement"]) == (["no_capacity"], [])
    assert document["blocked"] == {
        "profile": "4g.20gb",
        "maximum": 1,
        "placed": [{"profile": "4g.20gb", "start": 0, "size": 4}],
        "in_the_way": [{"profile": "4g.20gb", "start": 0, "size": 4}],
        "would_fit": ["3g.20gb", "2g.10gb", "1g.10gb", "1g.5gb+me", "1g.5gb"],
    }
    assert json.loads(err)["error"] == "NoCapacity"


@pytest.mark.parametrize("asked", [("A40", "1g.5gb"), ("A99", "1g.5gb"), ("A100", "9g.5gb"), ("A100",), ()])
def test_what_cannot_be_asked_is_2(asked: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    assert main.run(["mig", "fit", *asked]) == 2
    assert capsys.readouterr().out == ""
