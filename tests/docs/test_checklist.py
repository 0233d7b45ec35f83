"""docs/hardware-checklist.md has each belief as the product's table has it, in its order."""

from __future__ import annotations

import re
from pathlib import Path

from vgpumgr import resources
from vgpumgr.core.certify import beliefs

PAGE = (Path(__file__).parents[2] / "docs/hardware-checklist.md").read_text(encoding="utf-8")


def test_the_page_has_the_beliefs_of_the_table() -> None:
    rows = [
        tuple(row)
        for row in re.findall(r"^\| `([\w-]+)` \| (.*?) \| (.*?) \| (.*?) \| (.*?) \| (.*) \|$", PAGE, re.MULTILINE)
    ]
    table = beliefs.parse(resources.beliefs()).values()
    assert rows == [
        (one.id, one.needs, ", ".join(one.frameworks) or "all", one.says, one.asked, one.known) for one in table
    ]
