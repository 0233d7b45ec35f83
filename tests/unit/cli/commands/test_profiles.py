"""`vgpumgr profiles --offline`: no inventory, no host."""

from __future__ import annotations

import json

import pytest

from tests.unit.documents import published
from vgpumgr.cli import main


def test_the_types_of_a_board_as_json(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VGPUMGR_INVENTORY", "/nowhere")
    assert main.run(["profiles", "--offline", "--board", "L40S", "-o", "json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert published.problems("types", document) == []
    (found,) = [kind for kind in document["types"] if kind["name"] == "L40S-24Q"]
    assert found == {
        "name": "L40S-24Q",
        "board": "L40S",
        "profile": "24Q",
        "series": "Q",
        "framebuffer_mib": 24576,
        "max": 2,
        "max_mixed": 2,
        "placements_equal": [0, 24],
        "placements_mixed": [0, 24],
        "mig_profile": None,
    }


def test_every_type_of_every_board_is_what_the_schema_says(capsys: pytest.CaptureFixture[str]) -> None:
    assert main.run(["profiles", "--offline", "-o", "json"]) == 0
    assert published.problems("types", json.loads(capsys.readouterr().out)) == []


def test_the_table_has_placement_ids_with_wide(capsys: pytest.CaptureFixture[str]) -> None:
    assert main.run(["profiles", "--offline", "--board", "A40", "-o", "wide"]) == 0
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert ["A40-16Q", "A40", "16Q", "Q", "16", "GiB", "3", "2", "0", "16", "32", "0", "32", "-"] in lines


@pytest.mark.parametrize(
    "words", [["--board", "A40"], ["--offline", "kvm01"], ["--offline", "--fits"], ["--offline", "--board", "X1"]]
)
def test_what_does_not_combine_is_refused(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main.run(["profiles", *words]) == 2
    assert capsys.readouterr().err.startswith("error: ")
