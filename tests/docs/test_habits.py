"""docs/cli-habits.md: each rule and each complaint has a row, and the tests that it names are there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
RULES, COMPLAINTS = (
    [
        [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]]
        for line in part.splitlines()
        if re.match(r"\| \d+ \|", line)
    ]
    for part in (ROOT / "docs/cli-habits.md").read_text(encoding="utf-8").split("## Complaints")
)


def test_each_rule_and_each_complaint_has_its_row() -> None:
    assert [int(row[0]) for row in RULES] == list(range(1, 28))
    assert [int(row[0]) for row in COMPLAINTS] == list(range(1, 17))


@pytest.mark.parametrize("row", [*RULES, *COMPLAINTS], ids=lambda row: f"{row[0]} {row[1][:30]}")
def test_the_tests_that_hold_it_are_there(row: list[str]) -> None:
    _, _, here, held = row
    assert here
    named = re.findall(r"`([\w/.]+)::(\w+)`", held)
    assert named
    for file, function in named:
        assert f"\ndef {function}(" in (ROOT / "tests" / file).read_text(encoding="utf-8"), f"{file}::{function}"
