"""DEVELOPING.md names files and folders that are there."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "DEVELOPING.md"
HOMES = (ROOT, ROOT / "vgpumgr")  # paths in the package are written from there, as in the README


def named() -> set[str]:
    """What is written as a path in backticks; NAME stands for what somebody adds."""
    return {
        one
        for one in re.findall(r"`([\w./-]+/[\w./-]*|[\w-]+\.md)`", PAGE.read_text(encoding="utf-8"))
        if "NAME" not in one
    }


def test_each_file_and_folder_that_it_names_is_there() -> None:
    assert len(named()) > 40
    assert [one for one in sorted(named()) if not any((home / one).exists() for home in HOMES)] == []
