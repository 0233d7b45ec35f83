"""DEVELOPING.md and docs/testing.md name files, folders and make targets that are there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = {"DEVELOPING.md": 40, "docs/testing.md": 20}  # each names at least so many
HOMES = (ROOT, ROOT / "vgpumgr")  # paths in the package are written from there, as in the README


def named(page: str) -> set[str]:
    """What is written as a path in backticks; NAME stands for what somebody adds."""
    return {
        one
        for one in re.findall(r"`([\w./-]+/[\w./-]*|[\w-]+\.md)`", (ROOT / page).read_text(encoding="utf-8"))
        if "NAME" not in one
    }


@pytest.mark.parametrize("page", PAGES)
def test_each_file_and_folder_that_it_names_is_there(page: str) -> None:
    assert len(named(page)) >= PAGES[page]
    assert [one for one in sorted(named(page)) if not any((home / one).exists() for home in HOMES)] == []


def test_each_target_that_testing_names_is_one_and_ci_calls_those_of_its_first_table() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    page = (ROOT / "docs/testing.md").read_text(encoding="utf-8")
    assert [name for name in re.findall(r"`make ([\w-]+)", page) if f"\n{name}:" not in makefile] == []
    first, rest = page.split("Not for each commit:")
    calls = (ROOT / ".ci/run").read_text(encoding="utf-8")
    for line in first.splitlines():
        if found := re.match(r"\| `make ([\w-]+)` \|", line):
            assert re.search(rf"\bmake\b.* {found[1]}\b", calls), found[1]
    assert rest
