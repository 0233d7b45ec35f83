"""The comparison of mechanisms, held against its page, which has the sources."""

from __future__ import annotations

import re
from pathlib import Path

from vgpumgr.core.driver import mechanisms

PAGE = Path(__file__).parents[4] / "docs" / "ways-to-divide.md"


def test_the_page_about_mechanisms_says_what_the_table_says() -> None:
    """Each cell of docs/ways-to-divide.md, without its source; and each source that a cell names is listed."""
    page = PAGE.read_text(encoding="utf-8")
    lines = [line for line in page.splitlines() if line.startswith("| ")]
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    assert rows[0][1:] == [one.name for one in mechanisms.MECHANISMS]
    fields = ("memory_wall", "compute_guarantee", "fault_isolation", "live_migration", "series")
    assert [row[0] for row in rows[1:]] == [
        "memory wall",
        "compute guarantee",
        "fault isolation",
        "live migration",
        "licence series",
    ]
    for field, row in zip(fields, rows[1:], strict=True):
        cells: list[str] = []
        for cell in row[1:]:
            plain = re.sub(r" \[\d\]", "", cell)
            cells.append(cells[-1] if plain == "the same" else plain)
        assert cells == [getattr(one, field) or "?" for one in mechanisms.MECHANISMS]
    listed = set(re.findall(r"^(\d+)\. ", page, re.MULTILINE))
    assert set(re.findall(r"\[(\d+)\]", page)) == listed
