"""docs/: what it tells a reader to type is run, in the order in which it is met, and prints what it shows.

Of each page the blocks of one lab are a case, so that several processes share a page. README.md's tour is run by test_wheel.py.
"""

from __future__ import annotations

import functools
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.pages import forking, reading, running, verdict

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.lab_fixtures import LabFactory

ROOT = Path(__file__).resolve().parents[2]
PAGES = {
    str(page.relative_to(ROOT)): reading.blocks(page)
    for page in (ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")))
}
PARTS = {
    f"{name}:{part[0].line}": part
    for name, found in PAGES.items()
    if name != "README.md" and any(block.commands for block in found)
    for part in running.parts(found)
}

LENT = "mdev-vf"  # the lab of most parts: wiping it costs less than to start another one

pytestmark = [pytest.mark.lab, pytest.mark.timeout(running.LONGEST_S + 60)]


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    with forking.programs(tmp_path_factory.mktemp("forking")) as folder:
        yield folder


@pytest.mark.parametrize("place", PARTS)
def test_a_page_is_what_a_reader_meets(place: str, tmp_path: Path, programs: Path, lab_factory: LabFactory) -> None:
    lend = functools.partial(lab_factory.lend, wiped=True, own="the pages show its hosts")
    part = PARTS[place]
    ran = running.run_part(part, tmp_path / "part", first=programs, lend=lend if part[0].lab == LENT else None)
    wrong = verdict.complaints(place.partition(":")[0], ran)
    assert not wrong, "\n\n".join([*wrong, "`make sessions` writes what is printed into the pages"])


def test_what_is_not_run_says_why() -> None:
    """A block of a shell is run, or says why not; the tour of the README is run whole."""
    left = [block for found in PAGES.values() for block in found if block.is_shell and not block.commands]
    assert [f"{block.page.name}:{block.line}" for block in left if not (block.not_run or block.file)] == []
    assert len([block for block in left if block.not_run]) <= 12
    assert len({place.partition(":")[0] for place in PARTS}) >= 15
