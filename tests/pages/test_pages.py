"""README.md and docs/: what they tell a reader to type is run, in the order in which it is met, and prints what they show."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.pages import reading, running, verdict

ROOT = Path(__file__).resolve().parents[2]
PAGES = {
    str(page.relative_to(ROOT)): reading.blocks(page)
    for page in (ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")))
}
RUN = {name: found for name, found in PAGES.items() if any(block.commands for block in found)}

pytestmark = [pytest.mark.lab, pytest.mark.timeout(running.LONGEST_S + 60)]


@pytest.mark.parametrize("name", RUN)
def test_a_page_is_what_a_reader_meets(name: str, tmp_path: Path) -> None:
    wrong = verdict.complaints(name, running.run(RUN[name], tmp_path))
    assert not wrong, "\n\n".join([*wrong, "`make sessions` writes what is printed into the pages"])


def test_what_is_not_run_says_why() -> None:
    """A block of a shell is run, or says why not; the tour of the README is run whole."""
    left = [block for found in PAGES.values() for block in found if block.is_shell and not block.commands]
    assert [f"{block.page.name}:{block.line}" for block in left if not (block.not_run or block.file)] == []
    assert len([block for block in left if block.not_run]) <= 12
    assert len(RUN) >= 15
